"""Filtered data of made-up issues, and the command that trains on it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline.lab.dataset import read_lines
from pipeline.lab.learning.filtering import (
    ROW_FILES,
    CandidateRow,
    FilterReport,
    FilterSettings,
    RowFiles,
    filter_data,
)
from pipeline.lab.learning.interpreter import TrainedKind
from pipeline.lab.learning.records import ISSUES, Attempt, ReplyRow, SolvedIssue, write_manifest
from pipeline.lab.learning.training_rows import (
    OutcomeRow,
    PolicyRow,
    ProcessRow,
    Split,
    outcome_rows,
    policy_rows,
    process_rows,
)
from pipeline.models.base import Message
from tests.support.data.diffs import diff_of

ROWS = 8
"""For training, of each kind."""
APART = 4
"""Issues that are kept apart."""
EPOCHS = MappingProxyType({"policy": 80, "prm": 60, "orm": 20})
_RATES = MappingProxyType({"policy": "0.01", "prm": "0.005", "orm": "0.005"})


@dataclass
class Rows:
    """All rows of a folder of filtered data."""

    issues: list[SolvedIssue] = field(default_factory=list[SolvedIssue])
    policy: list[PolicyRow] = field(default_factory=list[PolicyRow])
    process: list[ProcessRow] = field(default_factory=list[ProcessRow])
    outcome: list[OutcomeRow] = field(default_factory=list[OutcomeRow])
    candidates: list[CandidateRow] = field(default_factory=list[CandidateRow])


def read_all_rows(folder: Path) -> Rows:
    return Rows(
        list(read_lines(folder / ISSUES, SolvedIssue)),
        list(read_lines(folder / ROW_FILES["policy"], PolicyRow)),
        list(read_lines(folder / ROW_FILES["prm"], ProcessRow)),
        list(read_lines(folder / ROW_FILES["orm"], OutcomeRow)),
        list(read_lines(folder / ROW_FILES["candidates"], CandidateRow)),
    )


def filtered(
    folder: Path,
    issues: Sequence[SolvedIssue],
    attempts: Sequence[Attempt],
    easy: frozenset[str] = frozenset(),
    **settings: Any,
) -> tuple[Rows, FilterReport]:
    """The rows that `filter_data` writes into `folder`, and its report."""
    report = filter_data(
        {one.id: one for one in issues},
        lambda: attempts,
        folder,
        easy=easy,
        settings=FilterSettings(**settings),
    )
    return read_all_rows(folder), report


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


def write_learning_rows(folder: Path) -> Rows:
    """Write eight rows of each kind for training, and four issues kept apart."""
    found = Rows()
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
            found.policy += policy_rows(issue.id, split, [reply])
            rows = process_rows(issue, split, "a", right if number % 2 else wrong,
                                files=bool(number % 2), places=True)  # fmt: skip
            found.process.append(rows[0])
            found.outcome += outcome_rows(issue, split, [right], [wrong])
            for diff in (right, wrong):
                found.candidates.append(
                    CandidateRow(
                        issue=issue.id, repository=issue.repository, split=split, source=diff[-9:],
                        diff=diff, right=diff == right, files=True, places=diff == right,
                        verdict=diff == right,
                    )
                )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with RowFiles.open(folder) as files:
        files.add("issues", "train", found.issues)
        for name, rows in zip(
            ROW_FILES, (found.policy, found.process, found.outcome, found.candidates), strict=True
        ):
            files.add(name, "train", rows)
    write_manifest(folder, "filtered", (ISSUES, *ROW_FILES.values()))
    return found


def train_command(kind: TrainedKind, data: Path, model: Path, out: Path, python: str) -> list[str]:
    """The arguments of `capuchin` that train on `data`, until its rows are known by heart."""
    return [
        "learn", "train", kind, str(data), "--base", str(model), "--out", str(out), "--python",
        python, "--set", f"epochs={EPOCHS[kind]}", "--set", f"learning_rate={_RATES[kind]}",
        "--set", "max_tokens=2048",
    ]  # fmt: skip
