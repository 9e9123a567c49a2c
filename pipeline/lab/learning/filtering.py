"""Rejection sampling: the paper's four checks of an attempt, and the rows they leave."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.codebase.text import pluralize
from pipeline.data.options import Options
from pipeline.generation.scripts import NOT_FIXED
from pipeline.lab.dataset import BadData, read_lines
from pipeline.lab.grading import GradedInstance, Grader
from pipeline.lab.learning.records import (
    ISSUES,
    Attempt,
    LearningData,
    ReplyRow,
    SolvedIssue,
    Stage,
    check_manifest,
    write_lines,
    write_manifest,
    write_rows,
)
from pipeline.lab.learning.training_rows import (
    OutcomeRow,
    PolicyRow,
    ProcessRow,
    Split,
    find_leaks,
    hits_places,
    list_changed_files,
    outcome_rows,
    policy_row,
    process_rows,
    render_judged_row,
    repository_key,
    shingle_diff,
    similarity,
    split_issues,
)
from pipeline.lab.render import table
from pipeline.store import Store, digest, load_or_run
from sandbox.base import Sandbox
from sandbox.errors import PatchRejected
from sandbox.frozen import Frozen, replace
from sandbox.program import Execution, python_script


class Checks(Frozen):
    """The results of the checks; None: the evidence was not gathered."""

    files: bool
    """Whether it found every file that the developers changed."""
    places: bool
    """Whether its edit changes something at every place that the developers changed."""
    reproduction: bool | None
    """Whether its script is red on the unedited code and green with the developers' edit."""
    patch: bool | None
    whole: bool | None

    @property
    def right(self) -> bool | None:
        """Whether the edit is known to be right and to break nothing."""
        if self.patch is False or self.whole is False:
            return False
        return self.patch and self.whole

    @property
    def accepted(self) -> bool:
        """Whether all four checks passed."""
        return self.files and self.places and self.reproduction is True and self.right is True


def check_attempt(issue: SolvedIssue, attempt: Attempt) -> Checks:
    """Check an attempt against the developers' edit, by what was recorded and executed.

    A benchmark's label covers the patch and the tests that it may not break.
    """
    changed = list_changed_files(issue.reference)
    found = list_changed_files(attempt.diff) | frozenset(attempt.shown or ())
    reproduction = _check_reproduction(attempt)
    label = attempt.resolved
    whole = label if label is not None else _breaks_nothing(attempt)
    return Checks(
        files=bool(changed) and changed <= found,
        places=hits_places(attempt.diff, issue.reference),
        reproduction=reproduction,
        patch=label if label is not None else _check_patch(issue, attempt, reproduction),
        whole=whole,
    )


def _check_reproduction(attempt: Attempt) -> bool | None:
    if not attempt.script or attempt.red_before is False:
        return False if attempt.replies else None
    if attempt.red_before is None or attempt.green_on_reference is None:
        return None
    return attempt.green_on_reference


def _breaks_nothing(attempt: Attempt) -> bool | None:
    if not attempt.diff:
        return False
    return None if attempt.broken is None else not attempt.broken


def _check_patch(issue: SolvedIssue, attempt: Attempt, reproduction: bool | None) -> bool | None:
    """By its valid script; without one, right if it is like the developers' edit. One that is
    unlike theirs may be right as well."""
    if not attempt.diff:
        return False
    if reproduction:
        return attempt.passes_script
    if reproduction is None and attempt.script:
        return None
    likeness = similarity(shingle_diff(attempt.diff), shingle_diff(issue.reference))
    # From this similarity on, an edit without a valid script counts as the developers' edit.
    return True if likeness >= 0.8 else None


def select_replies(attempt: Attempt, checks: Checks) -> tuple[ReplyRow, ...]:
    """The replies up to the first stage that failed: the correct prefix of a failed attempt.

    From a search, only conversations that named every file or place.
    """
    passed: dict[Stage, bool] = {
        "understanding": False,
        "localisation": False,
        "files": checks.files,
        "reproduction": checks.files and checks.reproduction is True,
        "edit": checks.accepted,
    }
    return tuple(
        reply
        for reply in attempt.replies
        if (passed[reply.stage] if reply.right is None else reply.right)
    )


class ExecutedChecks(Frozen):
    """What the executions showed, in the form in which it is saved."""

    red_before: bool | None = None
    green_on_reference: bool | None = None
    passes_script: bool | None = None
    resolved: bool | None = None
    """None: the benchmark's tests did not tell."""


class Oracle(Frozen):
    """The developers' tests, by what their edit does to them."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


@dataclass(frozen=True)
class Checker:
    """Gathers by executions what the checks of attempts at one issue lack.

    Results are saved in `store`, and equal scripts with equal edits run once.
    """

    codebase: Codebase
    sandbox: Sandbox
    store: Store

    async def find_oracle(self, issue: SolvedIssue) -> SolvedIssue:
        """`issue` with the developers' own tests as its oracle: which of them their edit mends, and
        which pass without it too. They are run where nobody has said so.

        Raises as `Sandbox.run`.
        """
        if issue.fail_to_pass or not issue.tests:
            return issue

        async def find() -> Oracle:
            mended, kept = await self._build_grader(issue).find_tests()
            return Oracle(fail_to_pass=mended, pass_to_pass=kept)

        key = f"oracle/{digest(issue.model_dump_json())[:24]}"
        found = await load_or_run(self.store, key, Oracle, find)
        return replace(issue, fail_to_pass=found.fail_to_pass, pass_to_pass=found.pass_to_pass)

    async def execute(self, issue: SolvedIssue, attempt: Attempt) -> Attempt:
        """`attempt` with the results of its script on the unedited code, on the developers' edit
        and on its own, and of the benchmark's tests where there are any.

        Raises as `Sandbox.run`.
        """
        key = f"checks/{digest(issue.model_dump_json(), attempt.script, attempt.diff)[:24]}"
        found = await load_or_run(
            self.store, key, ExecutedChecks, lambda: self._execute(issue, attempt)
        )
        known = {name: value for name, value in found.model_dump().items() if value is not None}
        return replace(attempt, **known)

    async def _execute(self, issue: SolvedIssue, attempt: Attempt) -> ExecutedChecks:
        found = ExecutedChecks()
        if attempt.script:
            before = await self._run(attempt.script)
            after = await self._run(attempt.script, issue.reference)
            own = await self._run(attempt.script, attempt.diff) if attempt.diff else None
            found = replace(
                found,
                red_before=before is not None and before.exit_code == NOT_FIXED,
                green_on_reference=None if after is None else after.passed,
                passes_script=own is not None and own.passed,
            )
        if attempt.resolved is None and attempt.diff and issue.fail_to_pass:
            grade = await self._build_grader(issue).grade(attempt.diff)
            found = replace(found, resolved=None if grade.cannot_tell else grade.resolved)
        return found

    async def _run(self, script: str, *diffs: str) -> Execution | None:
        """How `script` ends with `diffs`; None if one does not apply."""
        program = python_script(script, diffs=diffs, seconds=Options().execution_seconds)
        try:
            return await self.sandbox.run(program)
        except PatchRejected:
            return None

    def _build_grader(self, issue: SolvedIssue) -> Grader:
        instance = to_instance(issue)
        return Grader(instance, self.codebase, self.sandbox, self.store)


def write_instances(path: Path, issues: Iterable[SolvedIssue]) -> None:
    """Write the issues with decisive tests as instances of a benchmark. Raises OSError."""
    decided = (to_instance(issue) for issue in issues if issue.fail_to_pass)
    write_lines(path, (one.model_dump(mode="json", by_alias=True) for one in decided))


def to_instance(issue: SolvedIssue) -> GradedInstance:
    """The issue as an instance of a benchmark, whose tests decide if there are any."""
    return GradedInstance.model_validate(
        {
            "instance_id": issue.id,
            "repo": issue.repository,
            "problem_statement": f"{issue.title}\n\n{issue.body}",
            "base_commit": issue.base_commit,
            "patch": issue.reference,
            "test_patch": issue.tests,
            "FAIL_TO_PASS": issue.fail_to_pass,
            "PASS_TO_PASS": issue.pass_to_pass,
        }
    )


POLICY, PROCESS, OUTCOME = "policy.jsonl", "prm.jsonl", "orm.jsonl"
CANDIDATES, REPORT = "candidates.jsonl", "report.json"
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
    """The rows of both sides; their `split` says which."""

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
    # Pairs of one issue, so that an issue with many edits does not outweigh the others.
    found.outcome += outcome_rows(issue, side, right, wrong)[:8]


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
        issues=list(read_lines(folder / ISSUES, SolvedIssue)),
        policy=list(read_lines(folder / POLICY, PolicyRow)),
        process=list(read_lines(folder / PROCESS, ProcessRow)),
        outcome=list(read_lines(folder / OUTCOME, OutcomeRow)),
        candidates=list(read_lines(folder / CANDIDATES, CandidateRow)),
    )
    if leaks := count_leaks(found):
        raise BadData(f"{folder} must not be used: training and test share {leaks} things.")
    return found


def render_filter_report(report: FilterReport) -> str:
    """The report as Markdown."""
    lines = [
        "# Filter\n",
        f"{pluralize(report.attempts, 'attempt')} at {pluralize(report.issues, 'issue')}: "
        f"{report.accepted} passed all four checks; of {report.prefixes} others, a correct "
        f"beginning was kept. The policy is not trained on {pluralize(report.easy, 'easy issue')}."
        "\n",
        *table(
            ("check", "yes", "no", "no evidence"),
            [
                (name, count.get("yes", 0), count.get("no", 0), count.get("no evidence", 0))
                for name, count in report.checks.items()
            ],
        ),
        *table(
            ("rows", "train", "test"),
            [(name, count["train"], count["test"]) for name, count in report.rows.items()],
        ),
        *(
            f"- left out: {pluralize(count, 'issue')} ({why})"
            for why, count in report.left_out.items()
        ),
        f"- training ends before {report.until or 'no date: no test issue has one'}",
        f"- leakage: {report.leaks}",
        "",
    ]
    return "\n".join(lines)
