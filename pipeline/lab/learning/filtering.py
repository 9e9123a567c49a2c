"""Rejection sampling: the paper's four checks of an attempt, and the rows they leave."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from pydantic import BaseModel, Field

from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.types import NOT_FIXED
from pipeline.lab.dataset import BadData, LocatedInstance, read_lines
from pipeline.lab.grading import GradedInstance, Grader
from pipeline.lab.learning.records import (
    ISSUES,
    MANIFEST,
    Attempt,
    ReplyRow,
    SolvedIssue,
    Stage,
    check_manifest,
    encode_row,
    replace_file,
    write_manifest,
)
from pipeline.lab.learning.training_rows import (
    KeptApart,
    PolicyRow,
    ProcessRow,
    Split,
    hits_places,
    is_benchmarked,
    label_edits,
    list_changed_files,
    outcome_rows,
    policy_rows,
    process_rows,
    render_judged_row,
    repository_key,
    shingle_diff,
    similarity,
    split_issues,
)
from pipeline.lab.render import table
from pipeline.models.metering import GOOD
from pipeline.store import Store, digest, load_or_run
from prompts.text import pluralize
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

    async def find_oracle(self, issue: SolvedIssue) -> Oracle | None:
        """Which of the developers' own tests their edit mends, and which pass without it too; None
        where somebody has said so, or there are none. Raises as `Sandbox.run`.
        """
        if issue.fail_to_pass or not issue.tests:
            return None

        async def find() -> Oracle:
            mended, kept = await self._build_grader(issue).find_tests()
            return Oracle(fail_to_pass=mended, pass_to_pass=kept)

        key = f"oracle/{digest(issue.model_dump_json())[:24]}"
        return await load_or_run(self.store, key, Oracle, find)

    async def execute(self, issue: SolvedIssue, attempt: Attempt) -> ExecutedChecks:
        """The results of the attempt's script on the unedited code, on the developers' edit and on
        its own, and of the benchmark's tests where there are any.

        Raises as `Sandbox.run`.
        """
        key = f"checks/{digest(issue.model_dump_json(), attempt.script, attempt.diff)[:24]}"
        return await load_or_run(
            self.store, key, ExecutedChecks, lambda: self._execute(issue, attempt)
        )

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


class CheckedIssue(Frozen):
    """What the executions showed of the attempts at one issue, in the form in which it is saved."""

    oracle: Oracle | None = None
    attempts: dict[str, ExecutedChecks] = Field(default_factory=dict[str, ExecutedChecks])
    """The counts by the attempt's source."""

    def complete(self, issue: SolvedIssue) -> SolvedIssue:
        """`issue` with the tests that decide, where they were found."""
        return replace(issue, **self.oracle.model_dump()) if self.oracle else issue

    def complete_attempt(self, attempt: Attempt) -> Attempt:
        """`attempt` with what its executions showed."""
        found = self.attempts.get(attempt.source, ExecutedChecks()).model_dump()
        known = {name: value for name, value in found.items() if value is not None}
        return replace(attempt, **known)


def to_located(issue: SolvedIssue) -> LocatedInstance:
    """The issue as an instance without its tests."""
    return LocatedInstance.model_validate(to_instance(issue).model_dump())


def to_instance(issue: SolvedIssue) -> GradedInstance:
    """The issue as an instance of a benchmark, whose tests decide if there are any."""
    return GradedInstance.model_validate(
        {
            "instance_id": issue.id,
            "repo": issue.repository,
            "problem_statement": f"{issue.title}\n\n{issue.body}",
            "image": issue.image,
            "base_commit": issue.base_commit,
            "patch": issue.reference,
            "test_patch": issue.tests,
            "FAIL_TO_PASS": issue.fail_to_pass,
            "PASS_TO_PASS": issue.pass_to_pass,
        }
    )


POLICY, PROCESS, OUTCOME = "policy.jsonl", "prm.jsonl", "orm.jsonl"
CANDIDATES, REPORT, SOLVED = "candidates.jsonl", "report.json", "solved.json"
ROW_FILES: Mapping[str, str] = MappingProxyType(
    {"policy": POLICY, "prm": PROCESS, "orm": OUTCOME, "candidates": CANDIDATES}
)
SIDES: tuple[Split, ...] = ("train", "test")
_DATA = "filtered"


class FilterSettings(Frozen):
    """What is kept, beside the checks."""

    until: str = Field(default="", coerce_numbers_to_str=True)
    """Training ends before this date; see `split_issues`."""
    accepted: int = Field(default=4, ge=1)
    """Accepted attempts of one issue that train the policy."""
    rejection: bool = True
    """Whether the policy learns only what passed the checks (false: the paper's ablation)."""
    thoughts: bool = True
    """Whether the policy's rows keep what the model thought (false: the paper's ablation)."""


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
    verdict: bool | None = None
    """`right`, where that is no word of the attempt's own script; a verifier is judged by it."""
    summary: str = ""
    """What its sample left."""


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
    one_repository: bool
    repositories: Mapping[str, int]
    benchmarked: Mapping[str, int] = {}
    """By repository of SWE-bench, or fork of one by its name: the issues that train."""
    settings: FilterSettings = FilterSettings()
    spared: int = 0
    """Accepted attempts whose replies are left out, so that easy issues do not outweigh others."""
    replies: int = 0
    """Replies of the policy's rows, equal ones counted each."""
    thoughtless: int = 0
    """Those of them that were written without a thought."""
    verdicts: Mapping[str, int] = {}
    """By verdict: the rows of the PRM that judge a whole edit."""
    rows: Mapping[str, Mapping[str, int]]
    """By kind of row: how many for training and for the test."""
    leaks: int
    """What both sides share; 0 or the data must not be used."""


@dataclass
class HeldOut:
    """The issues kept apart, and the labelled edits for them."""

    issues: list[SolvedIssue] = field(default_factory=list[SolvedIssue])
    candidates: list[CandidateRow] = field(default_factory=list[CandidateRow])


_DEFAULT = FilterSettings()


def filter_data(
    issues: Mapping[str, SolvedIssue],
    read: Callable[[], Iterable[Attempt]],
    out: Path,
    *,
    easy: frozenset[str] = frozenset(),
    settings: FilterSettings = _DEFAULT,
) -> FilterReport:
    """Check every attempt, split the issues, and write the rows of both sides and the report.

    `read` reads the attempts anew each time, those at one issue one after another; they are held in
    memory for one issue at a time. `easy` names issues that a base model solves in a single
    attempt: they do not train the policy.

    Raises:
        BadData: training and test share something, and the rows cannot be read.
        OSError: a file cannot be written.
    """
    split = split_issues(issues.values(), settings.until)
    apart = _keep_apart(issues, read(), split.sides)
    counts, solved = _Counts(settings), list[str]()
    out.mkdir(parents=True, exist_ok=True)
    with RowFiles.open(out) as files:
        for name, attempts in _list_groups(issues, read):
            checked = [(a, check_attempt(issues[name], a)) for a in attempts]
            for _, checks in checked:
                counts.add(checks)
            if any(checks.right for _, checks in checked):
                solved.append(name)
            side = split.sides.get(name)
            if side == "train" and (
                apart.resembles(issues[name]) or any(apart.resembles_edit(a.diff) for a in attempts)
            ):
                split.left_out["near duplicate of a test issue or edit"] += 1
            elif side:
                _write_issue(files, counts, issues[name], side, checked, name in easy)
    report = FilterReport(
        issues=len(issues),
        attempts=counts.attempts,
        checks={name: dict(count) for name, count in counts.checks.items()},
        accepted=counts.accepted,
        prefixes=counts.prefixes,
        easy=len(easy & issues.keys()),
        left_out=dict(split.left_out),
        until=split.until,
        one_repository=split.one_repository,
        repositories=dict(Counter(counts.repositories.values())),
        benchmarked={name: count for name, count in sorted(counts.benchmarked.items()) if count},
        settings=settings,
        spared=counts.spared,
        replies=counts.replies,
        thoughtless=counts.thoughtless,
        verdicts=dict(counts.verdicts),
        rows={name: {side: files.counts[name, side] for side in SIDES} for name in ROW_FILES},
        leaks=count_leaks(out),
    )
    (out / SOLVED).write_text(json.dumps(solved) + "\n", encoding="utf-8")
    (out / REPORT).write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    if report.leaks:
        raise BadData(
            f"Training and test share {pluralize(report.leaks, 'thing')}: {out} cannot be used."
        )
    write_manifest(out, _DATA, (ISSUES, REPORT, *ROW_FILES.values()))
    return report


def _keep_apart(
    issues: Mapping[str, SolvedIssue], attempts: Iterable[Attempt], sides: Mapping[str, Split]
) -> KeptApart:
    apart = KeptApart()
    for name, side in sides.items():
        if side == "test":
            apart.add(issues[name])
    for attempt in attempts:
        if sides.get(attempt.issue) == "test":
            apart.add_edit(attempt.diff)
    return apart


def _list_groups(
    issues: Mapping[str, SolvedIssue], read: Callable[[], Iterable[Attempt]]
) -> Iterator[tuple[str, list[Attempt]]]:
    """Every issue with the attempts at it."""
    left = dict.fromkeys(issues)
    for name, group in groupby(read(), key=lambda attempt: attempt.issue):
        if name in left:
            del left[name]
            yield name, list(group)
    yield from ((name, []) for name in left)


@dataclass(frozen=True)
class RowFiles:
    """The files of rows while they are written."""

    files: Mapping[str, BinaryIO]
    counts: Counter[tuple[str, Split]] = field(default_factory=Counter[tuple[str, Split]])

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> "Generator[RowFiles]":
        """New files in `folder`, which take the places of older ones at the end of the block."""
        (folder / MANIFEST).unlink(missing_ok=True)
        with ExitStack() as stack:
            names = {"issues": ISSUES, **ROW_FILES}
            yield cls(
                {
                    kind: stack.enter_context(replace_file(folder / name))
                    for kind, name in names.items()
                }
            )

    def add(self, kind: str, side: Split, rows: Iterable[Frozen]) -> None:
        for row in rows:
            self.files[kind].write(encode_row(row.model_dump(mode="json")))
            self.counts[kind, side] += 1


def _write_issue(
    files: RowFiles,
    counts: "_Counts",
    issue: SolvedIssue,
    side: Split,
    attempts: Sequence[tuple[Attempt, Checks]],
    is_easy: bool,
) -> None:
    policy = dict[PolicyRow, None]()  # all samples share rankings and search
    process = list[ProcessRow]()
    candidates = dict[str, CandidateRow]()
    questions: set[str] = set()
    named = is_benchmarked(issue.repository, issue.reference)
    counts.benchmarked[issue.repository] += side == "train" and named
    whole, settings = 0, counts.settings
    labels = label_edits(attempt for attempt, _ in attempts)
    for attempt, checks in attempts:
        chosen = select_replies(attempt, checks) if settings.rejection else attempt.replies
        replies = () if is_easy else chosen
        if replies and (checks.accepted or not settings.rejection):
            whole += 1
            if whole > settings.accepted:
                counts.spared, replies = counts.spared + 1, ()
        if not settings.thoughts:
            replies = tuple(replace(reply, thinking="") for reply in replies)
        counts.replies += len(replies)
        counts.thoughtless += sum(not reply.thinking.strip() for reply in replies)
        counts.prefixes += bool(replies) and not checks.accepted
        policy |= dict.fromkeys(policy_rows(issue.id, side, replies))
        for answer in attempt.judged:
            if answer.question not in questions:
                questions.add(answer.question)
                process.append(render_judged_row(issue.id, side, attempt.source, answer))
        if not attempt.diff or attempt.diff in candidates:
            continue
        files_found = _all_files(issue, attempt)
        label = labels.get(attempt.diff)
        process += process_rows(
            issue, side, attempt.source, attempt.diff,
            files=files_found, places=checks.places, right=label, summary=attempt.summary,
        )  # fmt: skip
        candidates[attempt.diff] = CandidateRow(
            issue=issue.id,
            repository=issue.repository,
            split=side,
            source=attempt.source,
            diff=attempt.diff,
            right=checks.right if label is None else label,
            files=files_found,
            places=checks.places,
            verdict=label,
            summary=attempt.summary,
        )
    right = [a.diff for a, c in attempts if c.right and a.diff]
    wrong = [a.diff for a, c in attempts if c.right is False and a.diff]
    counts.repositories[repository_key(issue.repository)] = side
    files.add("issues", side, [issue])
    files.add("policy", side, policy)
    process = list(_spare(process))
    verdicts = (row.completion[0].content for row in process if row.level == "edits")
    counts.verdicts.update("right" if verdict == GOOD else "wrong" for verdict in verdicts)
    files.add("prm", side, process)
    # Pairs of one issue, so that an issue with many edits does not outweigh the others.
    files.add("orm", side, outcome_rows(issue, side, right, wrong)[:8])
    files.add("candidates", side, candidates.values())


def _spare(rows: Iterable[ProcessRow]) -> Iterator[ProcessRow]:
    """At most eight of each verdict at each level, so that no issue outweighs the others."""
    alike = Counter[tuple[str, str]]()
    for row in rows:
        kind = (row.level, row.completion[0].content)
        alike[kind] += 1
        if alike[kind] <= 8:
            yield row


def _all_files(issue: SolvedIssue, attempt: Attempt) -> bool:
    """Whether the edit itself, as a process reward model sees it, has every file."""
    return check_attempt(issue, replace(attempt, shown=None)).files


@dataclass
class _Counts:
    settings: FilterSettings
    checks: dict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict[str, Counter[str]](Counter)
    )
    attempts: int = 0
    accepted: int = 0
    prefixes: int = 0
    spared: int = 0
    replies: int = 0
    thoughtless: int = 0
    verdicts: Counter[str] = field(default_factory=Counter[str])
    benchmarked: Counter[str] = field(default_factory=Counter[str])
    repositories: dict[str, Split] = field(default_factory=dict[str, Split])

    def add(self, checks: Checks) -> None:
        self.attempts += 1
        self.accepted += checks.accepted
        for name, value in checks.model_dump().items():
            self.checks[name]["no evidence" if value is None else "yes" if value else "no"] += 1


class _Side(BaseModel):
    issue: str
    split: Split


def count_leaks(folder: Path) -> int:
    """How many repositories, issues and near-duplicate edits are on both sides of the rows in
    `folder`. A single repository is on both, and kept apart by time."""
    sides: dict[str, Split] = {}
    crossing: set[str] = set()
    for name in ROW_FILES.values():
        for row in read_lines(folder / name, _Side):
            if sides.setdefault(row.issue, row.split) != row.split:
                crossing.add(row.issue)
    issues = [one for one in read_lines(folder / ISSUES, SolvedIssue) if one.id in sides]
    apart = KeptApart()
    for one in issues:
        if sides[one.id] == "test":
            apart.add(one)
    for row in read_lines(folder / CANDIDATES, CandidateRow):
        if row.split == "test":
            apart.add_edit(row.diff)
    train = [one for one in issues if sides[one.id] == "train"]
    repositories = {repository_key(one.repository) for one in train}
    leaking = {one.id for one in train if apart.resembles(one)} | {
        row.issue
        for row in read_lines(folder / CANDIDATES, CandidateRow)
        if row.split == "train" and apart.resembles_edit(row.diff)
    }
    single = len(repositories | apart.repositories) == 1
    shared = set[str]() if single else repositories & apart.repositories
    return len(crossing | leaking) + len(shared)


def read_held_out(folder: Path) -> HeldOut:
    """What was kept apart of the filtered data in `folder`, which are checked for leaks again.

    Raises:
        BadData: they are damaged, have another format, or training and test share something.
    """
    check_filtered(folder)
    candidates = [r for r in read_lines(folder / CANDIDATES, CandidateRow) if r.split == "test"]
    names = {row.issue for row in candidates}
    issues = [one for one in read_lines(folder / ISSUES, SolvedIssue) if one.id in names]
    return HeldOut(issues, candidates)


def check_filtered(folder: Path) -> None:
    """Raises BadData as `read_held_out`."""
    check_manifest(folder, _DATA)
    if leaks := count_leaks(folder):
        raise BadData(f"{folder} must not be used: training and test share {leaks} things.")


def _render_benchmarked(found: Mapping[str, int]) -> str:
    named = ", ".join(f"{name} ({count})" for name, count in sorted(found.items()))
    words = "SWE-bench holds these repositories, so it cannot measure what is trained on them"
    return f"{words}: {named}" if named else ""


def read_warning(folder: Path) -> str:
    """What may not be measured after training on the filtered data in `folder`; mostly empty."""
    train = {
        row.issue
        for name in ROW_FILES.values()
        for row in read_lines(folder / name, _Side)
        if row.split == "train"
    }
    found = Counter(
        one.repository
        for one in read_lines(folder / ISSUES, SolvedIssue)
        if one.id in train and is_benchmarked(one.repository, one.reference)
    )
    return _render_benchmarked(found)


_ONE_REPOSITORY = (
    "- one repository, split by time alone: a gain on its newer issues says that the models learnt "
    "this repository, and nothing about others"
)


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
        *([_ONE_REPOSITORY] if report.one_repository else []),
        *([f"- {_render_benchmarked(report.benchmarked)}"] if report.benchmarked else []),
        *(
            f"- set: {name}={value}"
            for name, value in report.settings
            if value != getattr(_DEFAULT, name)
        ),
        f"- accepted attempts beyond {report.settings.accepted} of one issue, left out: "
        f"{report.spared}",
        f"- replies of the policy without a thought: {report.thoughtless} of {report.replies}; a "
        "model that thinks is not trained on them",
        "- verdicts on whole edits, among the rows of the prm: "
        f"{report.verdicts.get('right', 0)} right, {report.verdicts.get('wrong', 0)} wrong",
        f"- leakage: {report.leaks}",
        "",
    ]
    return "\n".join(lines)
