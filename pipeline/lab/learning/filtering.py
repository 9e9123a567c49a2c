"""Rejection sampling: from collected data to training rows (SWE-Reasoner, section 2.1.1)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.codebase.text import pluralize
from pipeline.evaluation.dataset import BadData
from pipeline.learning.checks import Checks, check_attempt, select_replies
from pipeline.learning.records import (
    ISSUES,
    Attempt,
    LearningData,
    SolvedIssue,
    check_manifest,
    read_rows_of,
    write_manifest,
    write_rows,
)
from pipeline.learning.rows import (
    OutcomeRow,
    PolicyRow,
    ProcessRow,
    Split,
    outcome_rows,
    policy_row,
    process_rows,
    render_judged_row,
)
from pipeline.learning.splits import find_leaks, repository_key, split_issues
from pipeline.types import Frozen, replace

POLICY, PROCESS, OUTCOME = "policy.jsonl", "prm.jsonl", "orm.jsonl"
CANDIDATES, REPORT = "candidates.jsonl", "report.json"
MOST_PAIRS = 8
"""Pairs of one issue, so that an issue with many edits does not outweigh the others."""
_DATA = "filtered"


class CandidateRow(Frozen):
    """A labelled edit, for judging and for the leakage check."""

    issue: str
    repository: str
    split: Split
    source: str
    diff: str
    right: bool | None
    files: bool
    places: bool


class FilterReport(Frozen):
    """What was kept and what was left out, in counts."""

    issues: int
    attempts: int
    checks: Mapping[str, Mapping[str, int]]
    """By check: how many attempts passed, failed, or have no evidence."""
    accepted: int
    prefixes: int
    """Attempts that failed, of which some replies were kept."""
    easy: int
    """Issues left out because a model solves them at once."""
    left_out: Mapping[str, int]
    """Issues left out of both sides by the split or as near duplicates, by reason."""
    until: str
    """Training ends before this time."""
    repositories: Mapping[str, int]
    rows: Mapping[str, Mapping[str, int]]
    """By kind of row: how many for training and for the test."""
    leaks: int
    """What both sides share; 0 or the data must not be used."""


@dataclass
class FilteredData:
    """The rows of both sides, told apart by their `split`."""

    issues: list[SolvedIssue] = field(default_factory=list[SolvedIssue])
    policy: list[PolicyRow] = field(default_factory=list[PolicyRow])
    process: list[ProcessRow] = field(default_factory=list[ProcessRow])
    outcome: list[OutcomeRow] = field(default_factory=list[OutcomeRow])
    candidates: list[CandidateRow] = field(default_factory=list[CandidateRow])


def filter_data(
    data: LearningData, *, easy: frozenset[str] = frozenset(), until: str = ""
) -> tuple[FilteredData, FilterReport]:
    """Check every attempt, split the issues, and render the rows of both sides.

    `easy` names issues that a base model solves in a single attempt: they do not train the policy.
    """
    known = {one.id: one for one in data.issues}
    attempts = [attempt for attempt in data.attempts if attempt.issue in known]
    split = split_issues(data.issues, until)
    diffs = [(a.issue, a.diff) for a in attempts] + [(i.id, i.reference) for i in data.issues]
    leaks = find_leaks(data.issues, diffs, split.sides)
    for name in leaks.issues | leaks.patches:
        del split.sides[name]
        split.left_out["near duplicate of a test issue or edit"] += 1
    found, counts = FilteredData(), _Counts()
    by_issue: dict[str, list[tuple[Attempt, Checks]]] = defaultdict(list)
    for attempt in attempts:
        checks = check_attempt(known[attempt.issue], attempt)
        counts.add(checks)
        by_issue[attempt.issue].append((attempt, checks))
    for name, side in split.sides.items():
        found.issues.append(known[name])
        _add_issue(found, counts, known[name], side, by_issue[name], name in easy)
    report = FilterReport(
        issues=len(data.issues),
        attempts=len(attempts),
        checks={name: dict(count) for name, count in counts.checks.items()},
        accepted=counts.accepted,
        prefixes=counts.prefixes,
        easy=len(easy & known.keys()),
        left_out=dict(split.left_out),
        until=split.until,
        repositories=dict(
            Counter(
                split.sides[i]
                for i in {repository_key(o.repository): o.id for o in found.issues}.values()
            )
        ),
        rows={
            "policy": _count_sides(found.policy),
            "prm": _count_sides(found.process),
            "orm": _count_sides(found.outcome),
            "candidates": _count_sides(found.candidates),
        },
        leaks=count_leaks(found),
    )
    return found, report


def _add_issue(
    found: FilteredData,
    counts: _Counts,
    issue: SolvedIssue,
    side: Split,
    attempts: Sequence[tuple[Attempt, Checks]],
    is_easy: bool,
) -> None:
    seen: set[str] = set()
    questions: set[str] = set()
    for attempt, checks in attempts:
        replies = () if is_easy else select_replies(attempt, checks)
        counts.prefixes += bool(replies) and not checks.accepted
        for reply in replies:
            row = policy_row(issue.id, side, reply)
            if row not in found.policy[-200:]:  # all samples share rankings and search
                found.policy.append(row)
        for answer in attempt.judged:
            if answer.question not in questions:
                questions.add(answer.question)
                found.process.append(render_judged_row(issue.id, side, attempt.source, answer))
        if not attempt.diff or attempt.diff in seen:
            continue
        seen.add(attempt.diff)
        found.process += process_rows(
            issue, side, attempt.source, attempt.diff, files=_all_files(issue, attempt),
            places=checks.places,
        )  # fmt: skip
        found.candidates.append(
            CandidateRow(
                issue=issue.id,
                repository=issue.repository,
                split=side,
                source=attempt.source,
                diff=attempt.diff,
                right=checks.right,
                files=_all_files(issue, attempt),
                places=checks.places,
            )
        )
    right = [a.diff for a, c in attempts if c.right and a.diff]
    wrong = [a.diff for a, c in attempts if c.right is False and a.diff]
    found.outcome += outcome_rows(issue, side, right, wrong)[:MOST_PAIRS]


def _all_files(issue: SolvedIssue, attempt: Attempt) -> bool:
    """Whether the edit itself, as a process reward model sees it, has every file."""
    return check_attempt(issue, replace(attempt, shown=None)).files


@dataclass
class _Counts:
    checks: dict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict[str, Counter[str]](Counter)
    )
    accepted: int = 0
    prefixes: int = 0

    def add(self, checks: Checks) -> None:
        self.accepted += checks.accepted
        for name, value in checks.model_dump().items():
            self.checks[name]["no evidence" if value is None else "yes" if value else "no"] += 1


Row = PolicyRow | ProcessRow | OutcomeRow | CandidateRow


def _count_sides(rows: Sequence[Row]) -> dict[str, int]:
    found = Counter(row.split for row in rows)
    return {"train": found["train"], "test": found["test"]}


def count_leaks(data: FilteredData) -> int:
    """How many repositories, issues and near-duplicate edits are on both sides of these rows."""
    rows: list[Row] = [*data.policy, *data.process, *data.outcome, *data.candidates]
    sides: dict[str, Split] = {}
    crossing: set[str] = set()
    for row in rows:
        if sides.setdefault(row.issue, row.split) != row.split:
            crossing.add(row.issue)
    diffs = [(c.issue, c.diff) for c in data.candidates]
    diffs += [(i.id, i.reference) for i in data.issues]
    return len(crossing) + find_leaks(data.issues, diffs, sides).count


def write_filtered(folder: Path, data: FilteredData, report: FilterReport) -> None:
    """Write the rows, the issues and `report.json` into `folder`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / ISSUES, data.issues)
    write_rows(folder / POLICY, data.policy)
    write_rows(folder / PROCESS, data.process)
    write_rows(folder / OUTCOME, data.outcome)
    write_rows(folder / CANDIDATES, data.candidates)
    text = report.model_dump_json(indent=1) + "\n"
    (folder / REPORT).write_text(text, encoding="utf-8")
    write_manifest(folder, _DATA, (ISSUES, POLICY, PROCESS, OUTCOME, CANDIDATES, REPORT))


def read_filtered(folder: Path) -> FilteredData:
    """The filtered data in `folder`, checked for leaks again.

    Raises:
        BadData: it is damaged, has another format, or training and test share something.
    """
    check_manifest(folder, _DATA)
    found = FilteredData(
        issues=list(read_rows_of(folder / ISSUES, SolvedIssue)),
        policy=list(read_rows_of(folder / POLICY, PolicyRow)),
        process=list(read_rows_of(folder / PROCESS, ProcessRow)),
        outcome=list(read_rows_of(folder / OUTCOME, OutcomeRow)),
        candidates=list(read_rows_of(folder / CANDIDATES, CandidateRow)),
    )
    if leaks := count_leaks(found):
        raise BadData(f"{folder} must not be used: training and test share {leaks} things.")
    return found


def render_filter_report(report: FilterReport) -> str:
    """The report as Markdown."""
    lines = [
        "# Filter\n",
        f"{pluralize(report.attempts, 'attempt')} at {pluralize(report.issues, 'issue')}: "
        f"{report.accepted} passed all four checks; of {report.prefixes} others a correct "
        f"beginning was kept. {report.easy} easy issues do not train the policy.\n",
        "| check | yes | no | no evidence |",
        "|---|--:|--:|--:|",
        *(
            f"| {name} | {c.get('yes', 0)} | {c.get('no', 0)} | {c.get('no evidence', 0)} |"
            for name, c in report.checks.items()
        ),
        "",
        "| rows | train | test |",
        "|---|--:|--:|",
        *(f"| {name} | {c['train']} | {c['test']} |" for name, c in report.rows.items()),
        "",
        *(
            f"- left out: {pluralize(count, 'issue')} ({why})"
            for why, count in report.left_out.items()
        ),
        f"- training ends before {report.until or 'no date: no issue of the test has one'}",
        f"- leakage: {report.leaks}",
        "",
    ]
    return "\n".join(lines)
