"""`capuchin evaluate --grade` and `--solve`: verdicts by tests that run for real."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncGenerator, Collection, Sequence
from pathlib import Path
from typing import Any, cast

import docker
import pytest

from capuchin_demo.recorded.recording import RecordedAnswer
from capuchin_demo.recorded.server import RecordedServer
from pipeline.lab.shards import Shard
from sandbox.layout import LABEL_KIND
from tests.benchmarks.fitting.fit_ratios import main as fit_ratios
from tests.benchmarks.fitting.fit_ratios import read_executions
from tests.e2e import shop
from tests.e2e.shop import GOLD, NAMES, TEST_PATCH, TESTS, TILL, TOTAL
from tests.support.certificates import host_certificates
from tests.support.command_line import done, refused
from tests.support.data.diffs import diff_of
from tests.support.data.learning_rows import read_all_rows
from tests.support.data.repositories import make_repository
from tests.support.registry import LocalRegistry

WRONG = diff_of(TILL, TILL.replace("a - b", "abs(a - b)"), "shop/till.py")


PROGRAM = (sys.executable, "-m", "bot")


def name_shards(of: int) -> list[str]:
    """A name in each shard, in their order."""
    names = [f"acme__shop-{number}" for number in range(1, 100)]
    return [next(n for n in names if Shard(k, of).holds(n)) for k in range(1, of + 1)]


class Benchmark:
    """A file of instances and a folder of clones, with a recorded model."""

    def __init__(self, folder: Path, llm: RecordedServer) -> None:
        self.folder, self.llm = folder, llm
        self.instances, self.out = folder / "instances.jsonl", folder / "out"

    async def write(self) -> None:
        files = {**shop.FILES, "shop/names.py": "TOTAL = 'total'\n"}  # a ranking has a choice
        commit = await make_repository(self.folder / "trees/acme__shop.git", files)
        row = {
            "instance_id": "acme__shop-1",
            "repo": "acme/shop",
            "base_commit": commit,
            "problem_statement": f"{shop.TITLE}\n\n{shop.BODY}",
            "patch": GOLD,
            "test_patch": TEST_PATCH,
            "FAIL_TO_PASS": json.dumps([NAMES.format("test_total")]),
            "PASS_TO_PASS": json.dumps([NAMES.format("test_count")]),
        }
        lost = {**row, "instance_id": "acme__lost-1", "repo": "acme/lost"}
        self.instances.write_text("".join(json.dumps(one) + "\n" for one in (row, lost)))

    def repeat(self, names: list[str], keep: Collection[str] = ()) -> None:
        """Instances of these names, otherwise like the first, with the fields `keep` or all."""
        row = json.loads(self.instances.read_text().splitlines()[0])
        kept = {field: value for field, value in row.items() if not keep or field in keep}
        rows = [kept | {"instance_id": name} for name in names]
        self.instances.write_text("".join(json.dumps(one) + "\n" for one in rows))

    def words(self, more: Sequence[str]) -> list[str]:
        return ["evaluate", str(self.instances), "--trees", str(self.folder / "trees"), *more]

    async def evaluate(self, *more: str) -> dict[str, Any]:
        """The report of an evaluation that ends well."""
        return (await asyncio.to_thread(done, *self.words(more), "--json")).json

    async def refuse(self, *more: str) -> str:
        return await asyncio.to_thread(refused, *self.words(more))

    async def end(self, more: Sequence[str]) -> int:
        """The exit code, also of what the parser refuses."""
        process = await asyncio.create_subprocess_exec(*PROGRAM, *self.words(more))
        return await process.wait()

    async def kill(self, words: Sequence[str], begun: Path) -> None:
        """Begin, and kill it once its run at `begun` has saved something."""
        process = await asyncio.create_subprocess_exec(*PROGRAM, *words)
        while not list(begun.rglob("*.json")):
            assert process.returncode is None, "it ended before it was killed"
            await asyncio.sleep(0.02)
        process.kill()
        await process.wait()


@pytest.fixture
async def benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Benchmark]:
    llm = RecordedServer(shop.answers())
    async with llm.serve() as url:
        monkeypatch.setenv("CAPUCHIN_SOLVER_MODEL", "anthropic:recorded-claude-sonnet-4-6")
        monkeypatch.setenv("CAPUCHIN_GENERATORS", "[{}]")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "recorded")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        if certificates := host_certificates():
            monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
        found = Benchmark(tmp_path, llm)
        await found.write()
        yield found
    assert llm.unexpected == []


async def test_grades_tell_the_reference_no_edit_and_predictions_apart(
    benchmark: Benchmark,
) -> None:
    predictions = benchmark.folder / "predictions.jsonl"
    row = {"instance_id": "acme__shop-1", "model_name_or_path": "m", "model_patch": WRONG}
    predictions.write_text(json.dumps(row) + "\n")
    graded = ["--out", str(benchmark.out), "--grade"]

    gold = await benchmark.evaluate(*graded, "gold")
    assert (gold["resolved"], gold["score"]) == (["acme__shop-1"], 100)
    assert "acme/lost" in gold["cannot_tell"]["acme__lost-1"]
    none = await benchmark.evaluate(*graded, "none")
    assert (none["resolved"], list(none["unresolved"])) == ([], ["acme__shop-1"])
    wrong = await benchmark.evaluate(*graded, str(predictions))
    assert wrong["resolved"] == []
    assert "test_total" in wrong["unresolved"]["acme__shop-1"]
    assert benchmark.llm.requests == []


PUBLISHED = """
FROM {}
USER root
RUN python3 -m venv --without-pip /opt/miniconda3/envs/testbed
COPY site-packages /opt/miniconda3/envs/testbed/lib/python3.11/site-packages
COPY shop /testbed/shop
RUN cd /opt/miniconda3/envs/testbed/lib/python3.11/site-packages && echo /testbed > shop.pth && \\
    echo 'BUILT = True' > /testbed/shop/built.py
"""
"""By SWE-bench's layout: a conda environment, an editable package, what was built in place."""


def publish(folder: Path, registry: LocalRegistry) -> str:
    """An image of the shop and pytest; its name."""
    packages = Path(pytest.__file__).parents[1]
    for name in ("*pytest", "pluggy*", "iniconfig", "packaging", "pygments"):
        for found in packages.glob(name):
            shutil.copytree(found, folder / "site-packages" / found.name)
    shutil.copy(packages / "py.py", folder / "site-packages")
    (folder / "shop").mkdir()
    client = docker.APIClient()
    (base, *_) = cast(list[str], client.images(quiet=True, filters={"label": f"{LABEL_KIND}=base"}))
    (folder / "Dockerfile").write_text(PUBLISHED.format(base))
    for _ in client.build(path=str(folder), tag="acme/published"):
        """Until it is built."""
    try:
        return registry.push("acme/published", client, "acme/published")
    finally:
        client.remove_image("acme/published")


async def test_an_instance_is_graded_in_the_image_that_its_row_names_if_it_can_be_had(
    benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalRegistry().serve() as registry:
        monkeypatch.setenv("CAPUCHIN_BUILD_REGISTRIES", registry.host)
        image = await asyncio.to_thread(publish, benchmark.folder / "image", registry)
        row = json.loads(benchmark.instances.read_text().splitlines()[0])
        asks = f"{TESTS}\n\ndef test_total():\n    import shop.built\n\n    {TOTAL}"
        built = diff_of(TESTS, asks, "tests/test_till.py")
        there = {**row, "image_name": image, "test_patch": built}
        gone = {**row, "instance_id": "acme__shop-2", "docker_image": f"{image}-gone"}
        benchmark.instances.write_text(f"{json.dumps(there)}\n{json.dumps(gone)}\n")
        found = await benchmark.evaluate("--grade", "gold")
    assert found["resolved"] == ["acme__shop-1", "acme__shop-2"], found["grades"]
    assert [image in one["environment"] for one in found["grades"]] == [True, False]


async def test_unlabelled_edits_are_labelled_by_the_benchmarks_tests_for_learning(
    benchmark: Benchmark,
) -> None:
    folder, data, rows = (benchmark.folder / name for name in ("predictions", "data", "rows"))
    folder.mkdir()
    for member, diff in {"right": GOLD, "wrong": WRONG}.items():
        lines = [
            json.dumps({"instance_id": name, "model_patch": diff}) + "\n"
            for name in ("acme__shop-1", "acme__lost-1")
        ]
        (folder / f"{member}.jsonl").write_text("".join(lines))
    given = ["--instances", str(benchmark.instances), "--predictions", str(folder)]
    done("learn", "collect", str(data), *given)
    words = ["learn", "filter", str(data), "--out", str(rows)]
    executed = [*words, "--trees", str(benchmark.folder / "trees")]
    said = await asyncio.to_thread(done, *executed)
    candidates = read_all_rows(rows).candidates
    assert {(row.issue, row.source): row.right for row in candidates} == {
        ("acme__shop-1", "right"): True,
        ("acme__shop-1", "wrong"): False,
    }
    (pair,) = read_all_rows(rows).outcome
    assert (pair.chosen[0].content, pair.rejected[0].content) == (GOLD, WRONG)
    assert "leakage: 0" in said.out
    assert "acme__lost-1" in said.err  # there is no clone


async def test_a_folder_of_labelled_edits_is_executed_for_the_fit(
    benchmark: Benchmark,
) -> None:
    folder, labels = benchmark.folder / "predictions", benchmark.folder / "labels.json"
    folder.mkdir()
    breaks = diff_of(TILL, TILL.replace("len(", "-len("), "shop/till.py")
    for member, diff in (("good", GOLD), ("bad", breaks)):
        row = {"instance_id": "acme__shop-1", "model_name_or_path": member, "model_patch": diff}
        (folder / f"{member}.jsonl").write_text(json.dumps(row) + "\n")
    labels.write_text(json.dumps({"good": ["acme__shop-1"], "bad": []}))
    words = ["--out", str(benchmark.out), "--grade", str(folder)]

    assert "--labels" in await benchmark.refuse(*words)
    found = await benchmark.evaluate(*words, "--labels", str(labels))
    assert "acme/lost" in found["cannot_tell"]["acme__lost-1"]
    rows = read_executions([benchmark.out / "executions.jsonl"])
    assert {row.member: (row.right, row.fixed, len(row.broken or ())) for row in rows} == {
        "good": (True, (True,), 0),
        "bad": (False, (False,), 1),
    }
    fitted = benchmark.folder / "ratios.json"
    assert fit_ratios([str(benchmark.out / "executions.jsonl"), str(fitted)]) == 0
    assert json.loads(fitted.read_text())["edits"] == 2

    ran = ["--executions", str(benchmark.out / "executions.jsonl")]
    assert await benchmark.refuse(*ran)
    words = ["--predictions", str(folder), "--labels", str(labels)]
    compared = await benchmark.evaluate(*ran, *words)
    assert (compared["instances"], compared["edits"], compared["random"]) == (1, 2, 50.0)
    assert compared["methods"]["confidence and near tests"]["score"] == 100.0


async def test_solving_runs_grades_and_tabulates_and_goes_on(
    benchmark: Benchmark,
) -> None:
    # The first machine's edit is wrong until its second reply.
    benchmark.llm.recording = shop.answers(
        RecordedAnswer(call="editing/0", turn=1, reply=shop.RIGHT)
    )
    solve = ["--solve", str(benchmark.out)]

    stopped = await benchmark.evaluate(*solve, "--budget", "0.001")
    assert "larger --budget" in stopped["unfinished"]["acme__shop-1"]
    assert (stopped["score"], stopped["selection"]) == (None, None)

    found = await benchmark.evaluate(*solve, "--budget", "30")
    assert (found["resolved"], found["unfinished"]) == (["acme__shop-1"], {})
    assert "acme/lost" in found["cannot_tell"]["acme__lost-1"]
    assert found["dollars"] > 0
    assert {line["stage"] for line in found["costs"]} >= {"Gen. tests", "Gen. edits", "Total"}
    assert found["selection"]["recall"]["4000"] == 100
    assert found["selection"]["oracle"] == 100
    labels = json.loads((benchmark.out / "runs/labels.json").read_text())
    assert labels == {"acme__shop-1": {"0": [1], "1": [0]}}
    # By revisions: the wrong edit of the first machine, then its right one.
    assert found["selection"]["serial"]["1 sample"] == [50, 100]
    written = {path.name for path in benchmark.out.iterdir()}
    figures = {"stages.svg", "recall.svg", "compression.svg", "revisions.svg", "methods.svg"}
    assert written > figures | {"report.md", "solve.json", "predictions.jsonl"}
    assert "## Costs" in (benchmark.out / "report.md").read_text()
    assert "a + b" in (benchmark.out / "predictions.jsonl").read_text()

    asked = len(benchmark.llm.requests)
    assert await benchmark.evaluate(*solve) == found
    assert len(benchmark.llm.requests) == asked
    runs = ("evaluate", str(benchmark.instances), "--runs", str(benchmark.out / "runs"), "--json")
    again = (await asyncio.to_thread(done, *runs)).json
    assert again["oracle"] == 100, "the runs can be evaluated again"


async def test_options_of_an_evaluation_are_the_commands_and_a_preset_is_a_whole_method(
    benchmark: Benchmark,
) -> None:
    solve = ["--solve", str(benchmark.out)]
    for wrong in ("strategy=paper", "samples=0"):
        assert wrong.partition("=")[0] in await benchmark.refuse(*solve, "--set", wrong)
    # The commit's own file says `samples: 2`.
    papers = ["--set", "strategy=codemonkeys", "--set", "samples=1"]
    await benchmark.evaluate(*solve, *papers)
    calls = {request.call for request in benchmark.llm.requests}
    assert {call for call in calls if call.startswith("ranking/")} == {
        "ranking/0",
        "ranking/1",
        "ranking/2",
    }
    assert {call for call in calls if call.startswith("editing/")} == {"editing/0"}
    assert "approaches" not in calls


async def test_one_graded_run_compares_the_methods_that_are_named(
    benchmark: Benchmark,
) -> None:
    assert "--solve" in await benchmark.refuse("--grade", "gold", "--selection", "voting")
    solve = ["--solve", str(benchmark.out), "--set", "samples=2"]

    one = await benchmark.evaluate(*solve, "--selection", "exec")
    assert "exec, as it was chosen" in one["selection"]["methods"]
    asked = len(benchmark.llm.requests)
    both = await benchmark.evaluate(*solve, "--selection", "exec", "--selection", "voting")
    scores = both["selection"]["methods"]
    assert {"exec, as it was chosen", "voting, as it was chosen"} <= set(scores)
    assert len(benchmark.llm.requests) == asked, "the edits are the same"


async def test_shards_of_which_one_is_killed_make_the_same_report_as_one_run(
    benchmark: Benchmark,
) -> None:
    names = name_shards(3)
    benchmark.llm.recording = shop.answers(shop.RIGHT_AT_ONCE)
    benchmark.repeat(names)
    quick = ["--set", "strategy=codemonkeys", "--set", "samples=1"]  # it has no gate
    wanted = await benchmark.evaluate("--solve", str(benchmark.folder / "whole"), *quick)
    assert sorted(wanted["resolved"]) == sorted(names)

    def solve(number: int) -> list[str]:
        out = str(benchmark.folder / f"part{number}")
        return ["--solve", out, *quick, "--shard", f"{number}/3"]

    await benchmark.kill(benchmark.words(solve(2)), benchmark.folder / f"part2/runs/{names[1]}/run")
    for number in (1, 3):
        await benchmark.evaluate(*solve(number))
    parts = [str(benchmark.folder / f"part{number}") for number in (1, 2, 3)]
    assert not (Path(parts[1]) / "results").exists(), "the killed shard has finished nothing"
    await benchmark.evaluate(*solve(2))
    assert not (Path(parts[1]) / "report.md").exists(), "a shard's report is its own"
    assert (Path(parts[1]) / "shards/2-of-3/report.md").exists()
    asked = len(benchmark.llm.requests)
    for added in (3, 0):
        merged = done("learn", "merge", str(benchmark.out), *parts)
        assert f"{added} results added" in merged.out
    found = await benchmark.evaluate("--solve", str(benchmark.out), *quick)
    assert len(benchmark.llm.requests) == asked, "the shards have done it all"
    for key in ("instances", "resolved", "unresolved", "unfinished", "score"):
        assert found[key] == wanted[key]
    # What it cost depends on what the model's service had cached.
    for key in ("oracle", "methods", "curve", "serial", "recall", "stages"):
        assert found["selection"][key] == wanted["selection"][key]
    labels = [folder / "runs/labels.json" for folder in (benchmark.out, benchmark.folder / "whole")]
    assert json.loads(labels[0].read_text()) == json.loads(labels[1].read_text())
    assert await benchmark.end(["--solve", str(benchmark.out), "--shard", "4/3"]) == 2


async def test_sampled_trajectories_become_rows_and_shards_share_the_work(
    benchmark: Benchmark,
) -> None:
    """They share a folder; one of them is killed."""
    names = name_shards(2)
    benchmark.llm.recording = shop.answers(shop.RIGHT_AT_ONCE)
    benchmark.repeat(names, keep=("problem_statement", "base_commit", "patch", "repo"))
    data, runs = benchmark.folder / "data", benchmark.folder / "sampled"
    trees = ["--trees", str(benchmark.folder / "trees")]
    quick = ["--set", "strategy=codemonkeys", "--set", "samples=1"]
    sample = ["learn", "sample", str(data), "--out", str(runs), *trees, *quick]
    collect = ["learn", "collect", str(data), "--instances", str(benchmark.instances)]
    assert "no issue" in await asyncio.to_thread(refused, *sample)
    await asyncio.to_thread(done, *collect)
    await benchmark.kill([*sample, "--shard", "2/2"], runs / f"runs/{names[1]}/run")
    for number in (1, 2):
        await asyncio.to_thread(done, *sample, "--shard", f"{number}/2")
    asked = len(benchmark.llm.requests)
    for _ in range(2):
        said = (await asyncio.to_thread(done, *sample)).out
        assert "2 issues done, 0 not finished" in said
        assert "2 attempts" in said, "none is counted twice"
    assert len(benchmark.llm.requests) == asked, "the shards have done it all"

    rows = benchmark.folder / "rows"
    words = ["learn", "filter", str(data), *trees, "--out"]
    assert refused("learn", "filter", str(data), "--out", str(rows), "--shard", "1/2")
    parts = [str(benchmark.folder / f"rows{number}") for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        await asyncio.to_thread(done, *words, part, "--shard", f"{number}/2")
    for added in (2, 0):
        merged = done("learn", "merge", str(rows), *parts)
        assert f"{added} results added" in merged.out
    await asyncio.to_thread(done, *words, str(rows))
    found = read_all_rows(rows)
    assert {row.issue for row in found.candidates if row.right} == set(names)
    assert {row.stage for row in found.policy} == {"files", "reproduction", "edit"}
    assert not (rows / "executions").exists(), "the shards have executed it all"
