import asyncio
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from pipeline.bundle import write_bundle
from pipeline.data.code_places import Context, Findings, SourceFile
from pipeline.data.options import Options, SelectionMethod
from pipeline.data.suite_reports import Standing
from pipeline.data.types import Candidate, Patch, Usage
from pipeline.generation.editing import EditingState
from pipeline.generation.scripts import TestingState
from pipeline.models.base import Message, ModelProfile, Price
from pipeline.selection.verdict import Verdict
from pipeline.selection.voting import vote
from pipeline.state import ReplyKind
from pipeline.store import DirStore
from pipeline.workflows.outcome import EffectiveSetup
from sandbox.program import Execution
from tests.support.command_line import done, here, refused
from tests.support.data.evaluation import BASE, RIGHT, SAME, WRONG, Files, lines
from tests.support.sandboxes import TableSandbox, bare_workspace

DATA = Path(__file__).parents[5] / "shared/data/ensemble"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_json_has_the_promised_form(files: Files) -> None:
    found = done(*files.arguments(), "--json").json
    assert found["oracle"] == 75
    assert found["best_member"] == 50
    assert found["random"] == pytest.approx(100 / 3)
    methods = found["methods"]
    assert {"score", "ci", "gap_closed"} <= methods["confidence"].keys()


def test_an_ensemble_leaves_out_the_other_members(files: Files) -> None:
    named = ("--ensemble", f"{files.ensembles}:two")
    found = done(*files.arguments(), *named, "--json").json
    assert found["member_scores"] == {"alpha": 50, "gamma": 0}


def test_without_json_or_folder_the_report_is_printed_for_a_person(
    files: Files, tmp_path: Path
) -> None:
    assert "| majority | 33.3 |" in done(*files.arguments()).out
    assert done(*files.arguments(), "--out", str(tmp_path / "out")).out == ""
    assert (tmp_path / "out/report.md").exists()


def spoil_gzip(files: Files) -> None:
    files.instances.write_bytes(gzip.compress(b"x" * 99)[:-9])


def spoil_duplicate(files: Files) -> None:
    row = {"instance_id": "one", "model_name_or_path": "alpha", "model_patch": RIGHT}
    (files.predictions / "alpha.jsonl").write_bytes(lines([row, row]))


SPOILT: dict[str, tuple[Callable[[Files], object], str]] = {
    "a gzip cut short": (spoil_gzip, "not a whole gzip file"),
    "a row twice": (spoil_duplicate, "two rows for one"),
    "no labels": (lambda f: f.labels.unlink(), "cannot be read"),
    "labels of another shape": (lambda f: f.labels.write_text("[1]"), "not a file of labels"),
    "labels that are no JSON": (lambda f: f.labels.write_text("{"), "is not JSON"),
    "a member without labels": (lambda f: f.labels.write_text("{}"), "no labels for alpha"),
    "labels of other instances": (
        lambda f: f.labels.write_text('{"alpha": ["x"], "beta": [], "gamma": []}'),
        "labels none of the instances",
    ),
    "a broken line": (
        lambda f: (f.predictions / "beta.jsonl").write_text('{"instance_id": 1}\n'),
        "beta.jsonl, line 1: instance_id",
    ),
    "no instance": (lambda f: f.instances.write_bytes(gzip.compress(b"\n")), "holds no instance"),
    "bytes that are no text": (lambda f: f.labels.write_bytes(b"\xff"), "not UTF-8"),
    "a folder as labels": (lambda f: (f.labels.unlink(), f.labels.mkdir()), "cannot be read"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_with_the_files_is_one_sentence(name: str, files: Files) -> None:
    spoil, sentence = SPOILT[name]
    spoil(files)
    told = here(*files.arguments())
    assert sentence in told.err
    assert (told.code, told.out) == (2, "")


@pytest.mark.parametrize(
    ("ensemble", "sentence"),
    [
        ("{}:nine", "no ensemble 'nine', only odd, two"),
        ("{}:odd", "no predictions of delta"),
        ("{}", "given as FILE:NAME"),
        ("none.json:two", "cannot be read"),
    ],
)
def test_a_wrong_ensemble_is_one_sentence(ensemble: str, sentence: str, files: Files) -> None:
    named = ensemble.format(files.ensembles)
    assert sentence in refused(*files.arguments(), "--ensemble", named)


def test_predictions_need_labels_and_a_folder_that_is_there(files: Files, tmp_path: Path) -> None:
    arguments = files.arguments()
    assert "--labels" in refused(*arguments[:4])
    nowhere = (*arguments[:3], str(tmp_path / "none"), *arguments[4:])
    assert "does not exist" in refused(*nowhere)


def test_a_missing_extra_is_one_sentence(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "capuchin-bot[lab]" in refused(*files.arguments(), "--out", str(tmp_path / "out"))


async def run_folder(store: Path) -> None:
    """Two samples' tests on three edits; the right edit passes both, the wrong one none."""
    kept = DirStore(store)
    broken = Execution(exit_code=2, output="", seconds=0)
    candidates: list[Candidate] = []
    for number, diff in enumerate((WRONG, RIGHT, SAME)):
        state = EditingState(
            pending="", scripts=[f"t{number % 2}"], base=[broken], patches=[Patch(diff=diff)]
        )
        await kept.save(f"editing/{number}", state)
        candidate = state.candidate(number)
        assert candidate is not None
        candidates.append(candidate)
    codes = {(test, diff): 2 for test in ("t0", "t1") for diff in (WRONG, "")}
    codes |= {(test, diff): 0 for test in ("t0", "t1") for diff in (RIGHT, SAME)}
    await vote(candidates, bare_workspace(TableSandbox(codes), kept))


@pytest.fixture
def runs(files: Files) -> Path:
    """A folder of runs, of which there is one."""
    runs = files.instances.with_name("runs")
    asyncio.run(run_folder(runs / "one/run"))
    return runs


def test_the_command_scores_runs(files: Files, runs: Path) -> None:
    write_bundle(runs / "two.tar.zst", runs / "one/run", facts={}, extra={})
    (runs / "labels.json").write_text('{"one": [1, 2], "two": [0]}')
    found = done("evaluate", str(files.instances), "--runs", str(runs), "--json").json
    assert found["oracle"] == 100
    assert found["random"] == 50
    methods = found["methods"]
    assert methods["majority voting with tests"]["score"] == 50
    assert methods["top 3 by tests"]["score"] == 50


def recorded(store: Path, method: SelectionMethod, chosen: int) -> None:
    """The record of a run's choice: one sample breaks a test of the repository."""
    standings = tuple(
        Standing(
            votes=0, passes=0, support=1, same_as=c, behaves_as=c, execution=0, prior=0,
            broken=("tests/test_a.py::test_b",) if c == 1 else (), reward=float(c),
        )
        for c in range(3)
    )  # fmt: skip
    verdict = Verdict(method=method, chosen=chosen, sample=chosen, standings=standings)
    asyncio.run(DirStore(store).save(f"verdict/{method}", verdict))
    context = Context(files=(SourceFile(path="shop/f.py", text=BASE, tokens=1),))
    asyncio.run(DirStore(store).save("context/files", context))


def test_runs_are_scored_by_what_they_recorded_too(
    files: Files, runs: Path, tmp_path: Path
) -> None:
    recorded(runs / "one/run", "machine", chosen=2)
    (runs / "labels.json").write_text('{"one": {"1": [0], "2": [0]}}')
    rows = [{"instance_id": "one", "repo": "a/a", "problem_statement": "f", "patch": RIGHT}]
    files.instances.write_bytes(gzip.compress(lines(rows)))
    command = ["evaluate", str(files.instances), "--runs", str(runs)]
    found = done(*command, "--json").json
    methods = found["methods"]
    assert methods["machine, as it was chosen"]["score"] == 100
    # Sample 1 breaks a test; the reward model prefers sample 2, which is also right.
    assert methods["exec"]["score"] == methods["orm_exec"]["score"] == 100
    assert found["serial"] == {"1 sample": [pytest.approx(200 / 3)], "2 samples": [100.0],
                               "3 samples": [100.0]}  # fmt: skip
    assert list(found["stages"].values()) == [100, 100, 100]
    assert [point["k"] for point in found["curve"]] == [1, 2, 3]
    assert found["curve"][2]["scores"]["majority voting with tests"] == 100
    done(*command, "--out", str(tmp_path / "out"))
    for name in ("stages.svg", "revisions.svg", "candidates.svg", "methods.svg"):
        assert "<svg" in (tmp_path / "out" / name).read_text()
    told = (tmp_path / "out/report.md").read_text()
    assert "## How far each step gets" in told
    assert "## Methods and members by score" in told
    out = (tmp_path / "out/predictions/machine-as-it-was-chosen.jsonl").read_text()
    assert json.loads(out)["model_patch"] == SAME


def sample_state(number: int, diffs: tuple[str, ...]) -> EditingState:
    """A machine that writes a script between its edits; each reply costs a dollar."""
    written = ["<edit>\nx\n</edit>", "<script>\nx\n</script>", "<edit>\nx\n</edit>"]
    replies = written[: 2 * len(diffs) - 1]
    return EditingState(
        pending="",
        scripts=[f"t{number}"],
        base=[Execution(exit_code=2, output="", seconds=0)],
        patches=[Patch(diff=diff) for diff in diffs],
        messages=[
            message
            for reply in replies
            for message in (Message(role="user", text="?"), Message(role="assistant", text=reply))
        ],
        attempts=[ReplyKind.REVISED] * len(replies),
        usages=[Usage(output=1_000_000)] * len(replies),
    )


def test_runs_draw_figure_3_after_ranking_and_figure_5_by_dollars(
    files: Files, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    store = DirStore(runs / "one/run")
    profile = ModelProfile(
        provider="openai", name="m", window=9, max_output=1, sampling=True, price=Price(output=1)
    )
    setup = EffectiveSetup(options=Options(), solver=profile, scout=None, temperature=None)
    shown = tuple(
        SourceFile(path=path, text="", tokens=tokens)
        for path, tokens in (("shop/other.py", 9_000), ("shop/f.py", 2_000))
    )
    found_by = Findings(way="words", files=2, read=0, read_tokens=110_000, shown=())
    documents: dict[str, BaseModel] = {
        "effective": setup,
        "testing/0": TestingState(pending="", usage=Usage(output=500_000)),
        "editing/0": sample_state(0, (WRONG, RIGHT)),
        "editing/1": sample_state(1, (WRONG,)),
        "context/files": Context(files=shown, findings=found_by),
    }
    for key, document in documents.items():
        asyncio.run(store.save(key, document))
    (runs / "labels.json").write_text('{"one": {"0": [1]}}')
    rows = [{"instance_id": "one", "repo": "a/a", "problem_statement": "f", "patch": RIGHT}]
    files.instances.write_bytes(gzip.compress(lines(rows)))
    command = ["evaluate", str(files.instances), "--runs", str(runs)]
    found = done(*command, "--json").json
    assert found["recall"]["8000"] == 100  # what does not fit is passed over
    assert found["recall"]["128000"] == 100
    assert found["compressions"] == [10]
    # One of the two samples costs 1.25 dollars with one reply; the second edit is the third reply.
    assert found["dollars"]["1 sample"] == [[1.25, 0], [1.75, 0], [2.25, 50]]
    assert found["dollars"]["2 samples"] == [[2.5, 0], [3.5, 0], [4.5, 100]]
    done(*command, "--out", str(tmp_path / "out"))
    told = (tmp_path / "out/report.md").read_text()
    assert "## Context after ranking" in told
    assert "| 2 samples | $2.50: 0.0 | $3.50: 0.0 | $4.50: 100.0 |" in told
    for name in ("recall.svg", "dollars.svg"):
        assert "<svg" in (tmp_path / "out" / name).read_text()


def test_a_run_whose_votes_were_not_counted_to_the_end_is_scored_by_its_edits(
    files: Files, runs: Path
) -> None:
    for row in (runs / "one/run/votes").iterdir():
        row.unlink()
    (runs / "labels.json").write_text('{"one": [1, 2]}')
    command = ("evaluate", str(files.instances), "--runs", str(runs))
    methods = done(*command, "--json").json["methods"]
    assert methods["majority"]["score"] == 100
    assert methods["majority voting with tests"]["score"] == pytest.approx(200 / 3)
    for strange, said in (("[3]", "has no sample 3"), ('{"1": [9]}', "has no revision 9")):
        (runs / "labels.json").write_text(f'{{"one": {strange}}}')
        assert f"The run one {said}" in (told := refused(*command))
        assert "from 0" in told


def test_runs_without_labels_or_instances_and_broken_bundles_are_one_sentence(
    files: Files, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    command = ["evaluate", str(files.instances), "--runs", str(runs)]
    assert "labels.json cannot be read" in refused(*command)
    (runs / "labels.json").write_text("{}")
    assert "holds no run" in refused(*command)
    (runs / "x.tar.zst").write_bytes(b"no bundle")
    assert "not a whole bundle" in refused(*command)
    assert "cannot be used with --runs" in refused(*command, "--ensemble", "a:b")


@pytest.mark.skipif(not DATA.exists(), reason="the labelled edits are not beside this repository")
def test_real_edits_are_chosen_better_than_by_lot() -> None:
    found = done(
        "evaluate", str(DATA / "instances.jsonl.gz"), "--predictions", str(DATA / "predictions"),
        "--labels", str(DATA / "labels.json"), "--ensemble", f"{DATA / 'ensembles.json'}:five",
        "--json",
    ).json  # fmt: skip
    methods = found["methods"]
    assert methods["confidence"]["gap_closed"] > methods["majority"]["gap_closed"] > 0
