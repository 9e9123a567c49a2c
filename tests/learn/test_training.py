"""Trainers learn eight rows by heart; a killed one goes on; tokens are those served."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bot.cli import main
from pipeline.learning.filtering import CandidateRow, FilteredData, FilterReport, write_filtered
from pipeline.learning.interpreter import TrainedKind, read_training
from pipeline.learning.records import ReplyRow, SolvedIssue
from pipeline.learning.rows import Split, outcome_rows, policy_row, process_rows
from pipeline.models.base import Message
from tests.support.data.diffs import diff_of

ROWS = 8
_EPOCHS: dict[TrainedKind, int] = {"policy": 80, "prm": 60, "orm": 20}
_RATES: dict[TrainedKind, str] = {"policy": "0.01", "prm": "0.005", "orm": "0.005"}
_REPORT = FilterReport(
    issues=0, attempts=0, checks={}, accepted=0, prefixes=0, easy=0, left_out={}, until="",
    repositories={}, rows={}, leaks=0,
)  # fmt: skip
THINGS = ["total", "colour", "speed", "label", "crash", "import", "locale", "header"]


def solved(number: int, split: Split) -> SolvedIssue:
    name = THINGS[number % ROWS] if split == "train" else f"other {THINGS[number % ROWS]}"
    return SolvedIssue(
        id=f"{split}-{number}", repository=f"acme/{split}", title=f"Wrong {name}",
        body=f"The {name} of {split} {number * 31} is wrong.", source="pulls",
        reference=diff_of(f"{name}\n", f"mended {name} {split} in {number * 7} steps\n"),
    )  # fmt: skip


def edits(issue: SolvedIssue) -> tuple[str, str]:
    right = diff_of("x = 1\n", f"x = right({issue.id!r})\n")
    wrong = diff_of("x = 1\n", f"x = wrong({issue.id!r})\n")
    return right, wrong


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Filtered data with eight rows of each kind for training, and four issues kept apart."""
    found = FilteredData()
    sides: list[tuple[Split, int]] = [("train", ROWS), ("test", 4)]
    for split, count in sides:
        for number in range(count):
            issue = solved(number, split)
            right, wrong = edits(issue)
            found.issues.append(issue)
            reply = ReplyRow(
                stage="edit", system="Mend it.", thinking=f"it is the {issue.title}",
                messages=(Message(role="user", text=issue.body),),
                answer=f"<edit>{issue.id}</edit>",
            )  # fmt: skip
            found.policy.append(policy_row(issue.id, split, reply))
            rows = process_rows(issue, split, "a", right if number % 2 else wrong,
                                files=bool(number % 2), places=True)  # fmt: skip
            found.process.append(rows[0])
            found.outcome += outcome_rows(issue, split, [right], [wrong])
            for diff in (right, wrong):
                found.candidates.append(
                    CandidateRow(
                        issue=issue.id, repository=issue.repository, split=split, source=diff[-9:],
                        diff=diff, right=diff == right, files=True, places=diff == right,
                    )
                )  # fmt: skip
    write_filtered(tmp_path / "data", found, _REPORT)
    return tmp_path / "data"


def command(kind: TrainedKind, data: Path, model: Path, out: Path, python: str) -> list[str]:
    return [
        "learn", "train", kind, str(data), "--base", str(model), "--out", str(out), "--python",
        python, "--epochs", str(_EPOCHS[kind]), "--learning-rate", _RATES[kind],
        "--max-tokens", "2048",
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "most"), [("policy", 0.05), ("prm", 0.05), ("orm", 0.05)])
def test_eight_rows_are_learnt_by_heart(
    kind: TrainedKind, most: float, data: Path, model: Path, tmp_path: Path, python: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = tmp_path / kind
    assert main(command(kind, data, model, out, python)) == 0
    training = read_training(out)
    assert (training.rows, training.too_long) == (ROWS, 0)
    assert training.losses[-1][1] < most < training.losses[0][1]
    assert (out / "adapter/adapter_model.safetensors").exists()
    assert (out / "loss.svg").read_text().startswith("<svg")
    assert json.loads((out / "report.json").read_text())["steps"] == training.steps
    if kind == "orm":
        capsys.readouterr()
        assert main(["learn", "judge", str(data), str(out), "--python", python, "--json"]) == 0
        (gain,) = json.loads(capsys.readouterr().out)
        assert (gain["level"], gain["issues"]) == ("edits", 4)


def test_a_killed_training_goes_on(data: Path, model: Path, tmp_path: Path, python: str) -> None:
    out = tmp_path / "killed"
    words = command("prm", data, model, out, python)
    first = subprocess.Popen([sys.executable, "-m", "bot", *words], start_new_session=True)
    deadline = time.monotonic() + 300
    while not list(out.glob("checkpoints/checkpoint-*/trainer_state.json")):
        assert first.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    subprocess.run(["kill", "-9", "--", f"-{first.pid}"], check=True)
    first.wait()
    assert not (out / "training.json").exists()
    assert main(words) == 0
    training = read_training(out)
    assert 0 < training.resumed_from < training.steps == _EPOCHS["prm"]
    assert [step for step, _ in training.losses] == list(range(1, training.steps + 1))
    other = [*words[:-1], "512"]
    assert main(other) == 2


SERVED = """
import json, sys
sys.path.append(sys.argv[1])
from transformers import AutoTokenizer
from pipeline.learning.trainer.tokens import completion_example, preference_example, read_rows
from pathlib import Path
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
found = []
for kind in ("policy", "prm", "orm"):
    for row in read_rows(Path(sys.argv[3]) / f"{kind}.jsonl", "train"):
        served = tokenizer.apply_chat_template(
            row["prompt"], add_generation_prompt=True, tokenize=False)
        if kind == "orm":
            one = preference_example(tokenizer, row)
            asked, answers = one["prompt_ids"], [one["chosen_ids"], one["rejected_ids"]]
            wanted = [row["chosen"], row["rejected"]]
        else:
            one = completion_example(tokenizer, row, ends=kind == "policy")
            cut = one["completion_mask"].index(1)
            asked, answers, wanted = one["input_ids"][:cut], [one["input_ids"][cut:]], [
                row["completion"]]
        found.append([
            kind, tokenizer.decode(asked) == served, tokenizer(served)["input_ids"] == asked,
            [tokenizer.decode(a) for a in answers], [w[0]["content"] for w in wanted]])
print(json.dumps(found))
"""


def test_the_tokens_trained_on_are_the_tokens_served(data: Path, model: Path, python: str) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [python, "-c", SERVED, root, str(model), str(data)], capture_output=True, check=True
    )
    found: list[tuple[str, bool, bool, list[str], list[str]]] = json.loads(done.stdout)
    assert len(found) == 3 * ROWS
    for kind, same_text, same_tokens, answers, wanted in found:
        assert same_text
        assert same_tokens
        end = "<|im_end|>\n" if kind == "policy" else ""
        assert answers == [text + end for text in wanted]


def test_a_template_that_changes_the_prompt_is_refused(
    data: Path, model: Path, tmp_path: Path, python: str, capfd: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    for file in model.iterdir():
        (changed / file.name).write_bytes(file.read_bytes())
    template = "{% for m in messages %}{{ messages | length }}{{ m['content'] }}{% endfor %}"
    (changed / "chat_template.jinja").write_text(template)
    settings: dict[str, Any] = json.loads((changed / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (changed / "tokenizer_config.json").write_text(json.dumps(settings))
    assert main(command("prm", data, changed, tmp_path / "out", python)) == 1
    assert "another template" in capfd.readouterr().err
