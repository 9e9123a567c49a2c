"""Filtered data of made-up issues, and the command that trains on it."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from pipeline.lab.learning.filtering import CandidateRow, FilteredData, FilterReport, write_filtered
from pipeline.lab.learning.interpreter import TrainedKind
from pipeline.lab.learning.records import ReplyRow, SolvedIssue
from pipeline.lab.learning.training_rows import Split, outcome_rows, policy_row, process_rows
from pipeline.models.base import Message
from tests.support.data.diffs import diff_of

ROWS = 8
"""For training, of each kind."""
APART = 4
"""Issues that are kept apart."""
EPOCHS = MappingProxyType({"policy": 80, "prm": 60, "orm": 20})
_RATES = MappingProxyType({"policy": "0.01", "prm": "0.005", "orm": "0.005"})
_REPORT = FilterReport(
    issues=0, attempts=0, checks={}, accepted=0, prefixes=0, easy=0, left_out={}, until="",
    repositories={}, rows={}, leaks=0,
)  # fmt: skip
_THINGS = ["total", "colour", "speed", "label", "crash", "import", "locale", "header"]


def solved(number: int, split: Split) -> SolvedIssue:
    name = _THINGS[number % ROWS] if split == "train" else f"other {_THINGS[number % ROWS]}"
    return SolvedIssue(
        id=f"{split}-{number}", repository=f"acme/{split}", title=f"Wrong {name}",
        body=f"The {name} of {split} {number * 31} is wrong.", source="pulls",
        reference=diff_of(f"{name}\n", f"mended {name} {split} in {number * 7} steps\n"),
    )  # fmt: skip


def edits(issue: SolvedIssue) -> tuple[str, str]:
    """A right and a wrong one."""
    right = diff_of("x = 1\n", f"x = right({issue.id!r})\n")
    wrong = diff_of("x = 1\n", f"x = wrong({issue.id!r})\n")
    return right, wrong


def write_learning_rows(folder: Path) -> FilteredData:
    """Write eight rows of each kind for training, and four issues kept apart."""
    found = FilteredData()
    sides: list[tuple[Split, int]] = [("train", ROWS), ("test", APART)]
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
    write_filtered(folder, found, _REPORT)
    return found


def train_command(kind: TrainedKind, data: Path, model: Path, out: Path, python: str) -> list[str]:
    """The arguments of `capuchin` that train on `data`, until its rows are known by heart."""
    return [
        "learn", "train", kind, str(data), "--base", str(model), "--out", str(out), "--python",
        python, "--epochs", str(EPOCHS[kind]), "--learning-rate", _RATES[kind],
        "--max-tokens", "2048",
    ]  # fmt: skip
