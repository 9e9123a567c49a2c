"""SWE-bench verdicts in our own environments; edits of known worth."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pydantic import ConfigDict, Field

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import parse_diff, split_diff
from pipeline.edits.suspicious import find_forgery
from pipeline.lab.dataset import Dataset, LocatedInstance, TestNames, read_outcomes
from pipeline.languages.registry import is_runnable, is_source
from pipeline.languages.test_command import TestCommand
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.selection.scoring.canonical import BaseText, normalise
from pipeline.store import Store
from prompts.text import agree, join_names, pluralize
from sandbox.base import Sandbox
from sandbox.errors import PatchRejected
from sandbox.frozen import Frozen, replace


@dataclass(frozen=True)
class DrawnEdit:
    """One edit for an instance, and its label."""

    member: str
    diff: str
    right: bool


class ExecutedEdit(Frozen):
    instance_id: str
    repo: str
    member: str
    """One member that sent the edit; others may have sent an equal one."""
    right: bool
    """What the labels say, whatever ran here."""
    fixed: tuple[bool, ...]
    """Whether each test that the reference edit fixes passes with it; empty: unknown."""
    broken: tuple[str, ...] | None
    """The near tests, as they were before the reference edit, that it breaks; None: they told
    nothing."""

    @property
    def halves(self) -> tuple[bool, ...]:
        """Whether all tests of each half pass: stand-ins for two scripts, or one."""
        return tuple(all(half) for half in (self.fixed[::2], self.fixed[1::2]) if half)


def draw_edits(
    data: Dataset, instance_id: str, base: BaseText | None = None, most: int = 4
) -> list[DrawnEdit]:
    """At most `most` right and `most` wrong edits, no two equal after normalisation; right and
    wrong ones by turns. The same each time."""
    found: dict[str, DrawnEdit] = {}
    for member in data.members:
        diff = data.patches[member].get(instance_id, "")
        form = normalise(diff, base=base)
        if not form.empty:
            edit = DrawnEdit(member, diff, data.is_right(member, instance_id))
            found.setdefault(form.key, edit)
    edits = list(found.values())
    random.Random(instance_id).shuffle(edits)  # noqa: S311
    right, wrong = ([e for e in edits if e.right is kind][:most] for kind in (True, False))
    return [edit for pair in zip_longest(right, wrong) for edit in pair if edit]


_MOST_NAMED = 5


class GradedInstance(LocatedInstance):
    """A SWE-bench instance with its tests, in the dataset's own fields."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    test_patch: str
    fail_to_pass: TestNames = Field(alias="FAIL_TO_PASS")
    pass_to_pass: TestNames = Field(alias="PASS_TO_PASS")


class InstanceGrade(Frozen):
    """The verdict over one edit for one instance."""

    instance_id: str
    resolved: bool = False
    cannot_tell: str = ""
    """Why this environment cannot tell, as a sentence; empty where it can. Untrusted."""
    note: str = ""
    """Why the edit does not resolve the instance. Untrusted."""
    fixed: int = 0
    """How many of the tests that should be fixed pass with the edit."""
    to_fix: int = 0
    kept: int = 0
    """How many of the tests that should stay pass with the edit, of those that pass without."""
    to_keep: int = 0
    aside: int = 0
    """Tests that should pass without the edit, and do not here: they say nothing."""
    environment: str = ""
    """How the environment was made, and how healthy it is. Untrusted."""
    command: tuple[str, ...] = ()
    seconds: float = 0.0
    """Wall time, environment included."""


@dataclass(frozen=True)
class JudgedEdit:
    """A verdict, and what it is made of."""

    grade: InstanceGrade
    to_fix: tuple[str, ...] = ()
    """Tests that should be fixed; empty where nothing ran with the edit."""
    left: frozenset[str] = frozenset()
    """Tests that should pass with the edit, and do not."""


def drop_files(diff: str, paths: Iterable[str]) -> str:
    """`diff` without what it does to `paths`: the benchmark's tests take their place."""
    dropped = set(paths)
    _, kept = split_diff(diff, lambda file: bool({file.old, file.new} & dropped))
    return kept if kept.endswith("\n") or not kept else kept + "\n"


class Grader:
    """Grades edits of one instance in one environment. Every run is saved."""

    def __init__(
        self,
        instance: GradedInstance,
        codebase: Codebase,
        sandbox: Sandbox,
        store: Store,
    ) -> None:
        self._instance = instance
        self._codebase = codebase
        self._sandbox = sandbox
        self._store = store
        self._tests = {p for file in parse_diff(instance.test_patch) for p in (file.old, file.new)}

    async def find_tests(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The tests that fail without the reference edit and pass with it, and those that pass with
        both; two runs with the edit must agree. Raises as `Sandbox.run`."""
        one = self._instance
        try:
            for command in await find_commands(self._codebase):
                wanted = RequestedTests(files=command.covers(self._files()))
                if not wanted.files:
                    continue
                runner = self._runner(command)
                both = one.patch + one.test_patch
                passed = set((await runner.run(both, wanted)).suite.passed)
                passed &= set((await runner.run(both, wanted, 1)).suite.passed)
                if passed:
                    before = set((await runner.run(one.test_patch, wanted)).suite.passed)
                    return tuple(sorted(passed - before)), tuple(sorted(passed & before))
        except PatchRejected:
            pass
        return (), ()

    def _runner(self, command: TestCommand) -> TestRunner:
        # The limit is of processor time.
        return TestRunner(command, sandbox=self._sandbox, store=self._store, seconds=900.0)

    async def grade(self, diff: str) -> InstanceGrade:
        """The verdict over `diff`. One that does not resolve the instance counts against the edit
        only where the reference edit resolves it here.

        Raises as `Sandbox.run`, but for an edit that does not apply.
        """
        return (await self.judge(diff)).grade

    async def judge(self, diff: str) -> JudgedEdit:
        """Like `grade`, test by test."""
        one = self._instance
        failed = InstanceGrade(instance_id=one.instance_id)
        try:
            runner, before = await self._find_runner()
        except PatchRejected as error:
            why = f"The benchmark's tests do not apply. {error}"
            return JudgedEdit(_cannot_tell(failed, why))
        if runner is None:
            return JudgedEdit(_cannot_tell(failed, str(before)))
        assert isinstance(before, TestRun)
        found = await self._judge(runner, before, diff)
        verdict = found.grade
        if verdict.resolved or verdict.cannot_tell:
            return found
        if diff == one.patch:
            return JudgedEdit(_cannot_tell(verdict, verdict.note))
        reference = (await self._judge(runner, before, one.patch)).grade
        if reference.resolved:
            return found
        return JudgedEdit(_cannot_tell(verdict, reference.cannot_tell or reference.note))

    async def _find_runner(self) -> tuple[TestRunner | None, TestRun | str]:
        """The first command that reports any of the benchmark's tests, and their outcomes."""
        why = "No command of the repository runs its tests."
        for command in await find_commands(self._codebase):
            files = command.covers(self._files())
            if not files:
                continue
            runner = self._runner(command)
            run = await runner.run(self._instance.test_patch, RequestedTests(files=files))
            if run.suite.passed or run.suite.failed:
                return runner, run
            how = run.problem or f"no test ran ({run.suite.execution.ending.value})."
            why = f"`{' '.join(command.argv)}`: {how}"
        return None, why

    def _files(self) -> tuple[str, ...]:
        """The benchmark's test files: those that its tests are named after, and what looks so."""
        there = {f.new for f in parse_diff(self._instance.test_patch) if f.new}
        python = sorted(path for path in there if is_source(path))
        names = (*self._instance.fail_to_pass, *self._instance.pass_to_pass)
        named = {name.partition("::")[0] for name in names}
        if not there:  # the tests are in the commit
            return tuple(sorted(named & self._codebase.files.keys()))
        chosen = [path for path in python if path in named or is_runnable(path)]
        return tuple(chosen or python)

    async def _judge(self, runner: TestRunner, before: TestRun, diff: str) -> JudgedEdit:
        one = self._instance
        told_before = read_outcomes(before, bare=runner.command.kind == "files")
        grade = InstanceGrade(
            instance_id=one.instance_id,
            to_fix=len(one.fail_to_pass),
            command=runner.command.argv,
        )
        pass_already = [name for name in one.fail_to_pass if told_before.passes(name)]
        if len(pass_already) == len(one.fail_to_pass):
            why = f"Passes without any edit: {_list(pass_already)}."
            return JudgedEdit(_cannot_tell(grade, why))
        keep = [name for name in one.pass_to_pass if told_before.passes(name)]
        aside = len(one.pass_to_pass) - len(keep)
        # The benchmark also lists tests that its reader of logs took for failed, such as the one
        # that follows a failed subtest of Django's: they must go on to pass.
        keep += pass_already
        to_fix = len(one.fail_to_pass) - len(pass_already)
        grade = replace(grade, to_fix=to_fix, to_keep=len(keep), aside=aside)
        if aside > 0.1 * len(one.pass_to_pass):
            lost = [name for name in one.pass_to_pass if name not in set(keep)]
            tests, do = pluralize(len(one.pass_to_pass), "test"), agree(aside, "does", "do")
            words = f"{aside} of {tests} {do} not pass here without any edit"
            why = f"{words}: {_list(lost)}. {before.problem}".strip()
            return JudgedEdit(_cannot_tell(grade, why))
        own = drop_files(diff, filter(None, self._tests))
        if not own.strip():
            return JudgedEdit(replace(grade, kept=len(keep), note="The edit is empty."))
        both = own + one.test_patch
        try:
            return await self._compare(runner, grade, both, keep)
        except PatchRejected as error:
            return JudgedEdit(replace(grade, note=f"The edit does not apply: {error}"))

    async def _compare(
        self, runner: TestRunner, grade: InstanceGrade, diff: str, keep: Sequence[str]
    ) -> JudgedEdit:
        wanted = RequestedTests(files=runner.command.covers(self._files()))
        left = {*self._instance.fail_to_pass, *keep}
        problem = ""
        for attempt in range(2):  # some tests fail by chance
            run = await runner.run(diff, wanted, attempt)
            problem = run.problem
            told = read_outcomes(run, bare=runner.command.kind == "files")
            left = {name for name in left if not told.passes(name)}
            if not left:
                break
        to_fix = tuple(name for name in self._instance.fail_to_pass if name not in keep)
        kept = [name for name in keep if name not in left]
        # SWE-bench takes it as resolved.
        forged = sorted(
            find_forgery(diff) - find_forgery(self._instance.patch + self._instance.test_patch)
        )
        note = f"The tests pass, but the edit {forged[0]}" if forged else ""
        note = f"Does not pass with the edit: {_list(sorted(left))}. {problem}" if left else note
        grade = replace(
            grade,
            fixed=len({*to_fix} - left),
            kept=len(kept),
            note=note.strip(),
            resolved=not left and not forged,
        )
        return JudgedEdit(grade, to_fix, frozenset(left))


def _cannot_tell(grade: InstanceGrade, why: str) -> InstanceGrade:
    return replace(grade, cannot_tell=why, note="", resolved=False)


def _list(names: Sequence[str]) -> str:
    return join_names([name[:200] for name in names], _MOST_NAMED)


class GradeReport(Frozen):
    """What `capuchin evaluate --grade` prints as JSON."""

    instances: int
    resolved: tuple[str, ...]
    unresolved: dict[str, str]
    """Instance to why."""
    cannot_tell: dict[str, str]
    """Instance to why its environment cannot tell."""
    score: float | None
    """Per cent resolved of the instances that can be graded; None without any."""
    dollars: float = 0.0
    seconds: float
    """Total for all instances, earlier starts included."""
    grades: tuple[InstanceGrade, ...]


def build_grade_report(grades: Sequence[InstanceGrade]) -> GradeReport:
    told = [grade for grade in grades if not grade.cannot_tell]
    right = tuple(grade.instance_id for grade in told if grade.resolved)
    return GradeReport(
        instances=len(grades),
        resolved=right,
        unresolved={g.instance_id: g.note for g in told if not g.resolved},
        cannot_tell={g.instance_id: g.cannot_tell for g in grades if g.cannot_tell},
        score=round(100 * len(right) / len(told), 1) if told else None,
        seconds=round(sum(grade.seconds for grade in grades), 1),
        grades=tuple(grades),
    )


def choose_edits(
    instances: Sequence[GradedInstance], predictions: Mapping[str, str] | str
) -> dict[str, str]:
    """The edit of each instance: from `predictions`, or of all the reference (`gold`) or none."""
    if predictions == "gold":
        return {one.instance_id: one.patch for one in instances}
    if isinstance(predictions, str):
        return {one.instance_id: "" for one in instances}
    return {one.instance_id: predictions.get(one.instance_id, "") for one in instances}
