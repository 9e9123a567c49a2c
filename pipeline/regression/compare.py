"""Compares two runs of the same tests; controls that must fail."""

import secrets
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import list_paths, remove_files
from pipeline.data.suite_reports import CutShort, SuiteReport, SuiteRun
from pipeline.edits.patches import create_patch
from pipeline.edits.suspicious import find_steering
from pipeline.languages.registry import main_language, make_suite_fail
from pipeline.regression.command import RequestedTests
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.store import SHARED, digest, load_or_run
from prompts.text import pluralize
from sandbox.frozen import Frozen, replace

CONTROL: Final = "a control test, which must fail and was recorded otherwise"
"""Reported in place of a test's name when results are forged."""


class ControlRun(Frozen):
    """How the control tests of one run were recorded."""

    failed: int = 0
    passed: int = 0
    ended: bool = True
    """Whether the run ended by itself; otherwise it shows nothing."""
    own_failed: tuple[str, ...] = ()
    """The repository's own tests that were made to fail, and did."""
    own_passed: tuple[str, ...] = ()


class ControlTests:
    """Runs control tests by one command, without and with edits. Each result is saved."""

    def __init__(
        self, runner: TestRunner, codebase: Codebase, base: TestRun, files: Collection[str] = ()
    ) -> None:
        """`files`: those whose tests were run; empty: all."""
        self._files = files
        self._runner = runner
        self._codebase = codebase
        self._base = base
        self._language = main_language(codebase)

    async def are_forged(self, diff: str, names: Collection[str]) -> bool | None:
        """Whether control tests that are recorded as failed without `diff` are not so with it; None
        where there is no control.

        `names`: the tests that are said to pass with it. In a language that can make its tests
        fail, the repository's own are the controls, all at once. Where that cannot be, an edit that
        changes how tests run is tested once more with what the repository has in place of that.
        """
        files = self._base.files
        if not files and self._base.suite.execution.own_seconds <= QUICK_SECONDS:
            forged = await self._passes_failing(diff)
            return await self._needs_own_ways(diff, names) if forged is None else forged
        beside = next((files[name] for name in self._base.suite.passed if files.get(name)), "")
        if not beside or not self._runner.command.covers((beside,)):
            return await self._needs_own_ways(diff, names)
        quick = list_quick_files(self._base, names, diff)
        own = next(iter(self._runner.command.covers(quick[:1])), "")
        before = await self._load_or_run(beside, own, "")
        if own and not before.failed:  # what is made to fail can break a runner
            own, before = "", await self._load_or_run(beside, "", "")
        if not before.failed or before.passed:
            return False
        after = await self._load_or_run(beside, own, diff)
        if set(before.own_failed) & set(after.own_passed):
            return True
        return after.ended and (after.passed > 0 or after.failed < before.failed)

    async def _load_or_run(self, beside: str, own: str, diff: str) -> ControlRun:
        name = digest(*self._runner.command.argv, beside, own, diff)
        key = f"control/{name}" if diff else f"{SHARED}control-{name}"
        return await load_or_run(
            self._runner.store, key, ControlRun, lambda: self._run(beside, own, diff)
        )

    async def _run(self, beside: str, own: str, diff: str) -> ControlRun:
        nonce = f"c{secrets.token_hex(8)}"
        control = self._language.write_control(self._runner.command.kind, beside, nonce)
        if control is None:
            return ControlRun()
        changes: dict[str, bytes | None] = dict([control])
        own_text = await self._codebase.read_text(own) if own else None
        if own_text and (failing := await self._language.make_tests_fail(own, own_text, nonce)):
            changes[own] = failing
        made = (await create_patch(self._codebase, changes)).diff
        run = await self._runner.run_changed(tuple(filter(None, (diff, made))), list(changes))
        mine = {name for name, file in run.files.items() if file == own and own in changes}
        return ControlRun(
            failed=sum(nonce in test for test in run.suite.failed),
            passed=sum(nonce in test for test in run.suite.passed),
            ended=run.suite.execution.exit_code is not None,
            own_failed=tuple(name for name in run.suite.failed if name in mine),
            own_passed=tuple(name for name in run.suite.passed if name in mine),
        )

    async def _needs_own_ways(self, diff: str, names: Collection[str]) -> bool | None:
        """Whether tests fail once the repository's own manifests and Makefiles take the place of
        those of `diff`; None where it changes none, or nothing comes of that."""
        rest = remove_files(diff, find_steering(diff))
        if rest == diff or not rest.strip():
            return None
        found = await self._runner.run(rest, RequestedTests())
        if not {*names} & {*found.suite.passed}:  # what it changes may be needed to build it
            return None
        return bool({*names} & {*found.suite.failed})

    async def _passes_failing(self, diff: str) -> bool | None:
        """Whether a test passes with `diff` that is made to fail, and does so without it; None if
        none can be made to."""
        failing = await make_suite_fail(self._codebase, f"c{secrets.token_hex(8)}")
        changed = list_paths(diff)
        changes: dict[str, bytes | None] = {
            path: data
            for path, data in failing.items()
            if path not in changed and (not self._files or path in self._files)
        }
        if not changes:
            return None
        made = (await create_patch(self._codebase, changes)).diff
        files = self._runner.command.covers(list(changes))

        async def run(diff: str) -> ControlRun:
            found = await self._runner.run_changed(tuple(filter(None, (diff, made))), files)
            return ControlRun(own_failed=found.suite.failed, own_passed=found.suite.passed)

        name = (*self._runner.command.argv, *changes)
        key = f"{SHARED}failing-{digest(*name)}"
        before = await load_or_run(self._runner.store, key, ControlRun, lambda: run(""))
        controls = set(before.own_failed) & set(self._base.suite.passed)
        if not controls:
            return None
        key = f"control/failing-{digest(*name, diff)}"
        after = await load_or_run(self._runner.store, key, ControlRun, lambda: run(diff))
        return not controls.isdisjoint(after.own_passed)


def list_quick_files(base: TestRun, names: Collection[str], diff: str) -> list[str]:
    """The files that `diff` leaves alone and that do not take long, the best one first: the
    quickest that holds enough of the tests `names`."""
    seconds: dict[str, float] = defaultdict(float)
    for name, path in base.files.items():
        seconds[path] += base.seconds.get(name, 0.0)
    # How long a file takes is unknown if its tests were cut short.
    cut_short = {base.files.get(name, "") for name in base.unfinished}
    unfit = {*list_paths(diff), *cut_short, ""}
    counts = Counter(base.files.get(name, "") for name in sorted(names))
    fit = [
        path
        for path, _ in counts.most_common()
        if path not in unfit and seconds[path] <= QUICK_SECONDS
    ]
    # Making more tests fail shows no more.
    enough = [path for path in fit if counts[path] >= min(20, counts[fit[0]])]
    return [*sorted(enough, key=lambda path: seconds[path]), *fit[len(enough) :]]


QUICK_SECONDS: Final = 60
"""How long tests that are run again as controls may take."""
REPEATS = 2
"""The maximum of further runs, both with and without the edit."""


@dataclass(frozen=True)
class RerunResult:
    """The results of running apparently broken tests again."""

    passed: tuple[str, ...] = ()
    """Tests that passed with the edit in a further run."""
    flaky: tuple[str, ...] = ()
    """Tests that did not always pass without the edit."""


async def compare_runs(
    runner: TestRunner,
    codebase: Codebase,
    base: TestRun,
    after: TestRun,
    *,
    diff: str,
    names: Collection[str],
    repeats: int = REPEATS,
    files: Collection[str] = (),
) -> SuiteReport:
    """Compare the tests `names`, which pass on `base`, with their results `after` applying `diff`;
    `files` are those whose tests were run, empty for all.

    Apparently broken tests run again, with and without `diff`: those that pass in a further run
    with it are not broken; those that fail in one without it are flaky, and left out. Where none
    is broken, control tests must fail, or count as broken (`pipeline.regression.compare`).
    """
    broken = set(names) - set(after.suite.passed)
    found = await confirm_broken(runner, diff, broken, base, repeats)
    flaky = set(found.flaky)
    passed = {*after.suite.passed, *found.passed} - flaky
    counted = set(names) - flaky
    hung = counted.intersection(after.unfinished)
    failed = hung.union(after.suite.failed) - passed - flaky
    seen = passed.union(after.suite.failed, after.suite.skipped)
    forged: bool | None = False
    if not counted - passed and diff:
        forged = await ControlTests(runner, codebase, base, files).are_forged(diff, counted)
        counted |= {CONTROL} if forged else set()
    return SuiteReport(
        command=runner.command.argv,
        before=replace(
            base.suite,
            passed=tuple(sorted(counted)),
            failed=tuple(name for name in base.suite.failed if name in seen),
            errors=tuple(name for name in base.suite.errors if name in seen),
            skipped=tuple(name for name in base.suite.skipped if name in seen),
        ),
        after=replace(
            after.suite,
            passed=tuple(sorted(passed)),
            failed=tuple(sorted(failed)),
            errors=tuple(name for name in after.suite.errors if name in failed),
        ),
        failing=tuple(name for name in base.suite.failed if name not in seen | flaky),
        flaky=found.flaky,
        passed_again=tuple(name for name in found.passed if name in after.suite.failed),
        uncontrolled=forged is None,
    )


def join_reports(near: SuiteReport, rest: SuiteReport) -> SuiteReport:
    """Join what two runs of the same command say of an edit.

    A test that breaks in one of them is broken. The outputs are those of `rest`, unless tests break
    in the other run alone.
    """
    flaky = {*near.flaky, *rest.flaky}
    broken = {*near.broken, *rest.broken} - flaky
    before = tuple(sorted({*near.before.passed, *rest.before.passed} - flaky))
    passed = {*near.after.passed, *rest.after.passed} - broken - flaky
    joined = _join_runs(near.before, rest.before, set(before))
    shown = near if near.broken and not rest.broken else rest
    failing = {*near.failing, *rest.failing} - {*joined.failed, *joined.passed} - flaky
    others = f", of the others, {rest.chosen}" if rest.chosen else " the others"
    return replace(
        rest,
        before=joined,
        after=replace(_join_runs(near.after, rest.after, passed), execution=shown.after.execution),
        failing=tuple(sorted(failing)),
        flaky=tuple(sorted(flaky)),
        passed_again=tuple(sorted({*near.passed_again, *rest.passed_again} - broken - flaky)),
        unreached=near.unreached and rest.unreached,
        uncontrolled=near.uncontrolled and rest.uncontrolled,
        chosen=f"{near.chosen}, and then{others}",
        near=len(near.before.passed),
    )


def count_places(places: Collection[str]) -> str:
    """How many test files `places` are, or folders, whose names end in a slash."""
    noun = "folder" if any(place.endswith("/") for place in places) else "test file"
    return f"the {noun if len(places) == 1 else pluralize(len(places), noun)}"


def join_near(nearest: SuiteReport, others: SuiteReport) -> SuiteReport:
    """Join two runs of tests near an edit, of which the nearest came first."""
    joined = join_reports(nearest, others)
    files = (*nearest.files, *others.files)
    which = f"those in {count_places({*files})} nearest to the edit"
    return replace(
        joined,
        before=replace(joined.before, cut=_join_cuts(nearest.before, others.before)),
        after=replace(joined.after, cut=_join_cuts(nearest.after, others.after)),
        chosen=which,
        near=0,
        files=files,
    )


def _join_cuts(*runs: SuiteRun) -> CutShort | None:
    """How far runs of different tests came together; None if time cut none of them."""
    if not any(run.cut for run in runs):
        return None
    cuts = [
        run.cut or CutShort(ran=run.count, skipped=len(run.skipped), selected=run.count)
        for run in runs
    ]
    return CutShort(
        ran=sum(one.ran for one in cuts),
        skipped=sum(one.skipped for one in cuts),
        selected=sum(one.selected for one in cuts) if all(one.selected for one in cuts) else 0,
    )


def _join_runs(near: SuiteRun, rest: SuiteRun, passed: set[str]) -> SuiteRun:
    failed = {*near.failed, *rest.failed} - passed
    return replace(
        rest,
        passed=tuple(sorted(passed)),
        failed=tuple(sorted(failed)),
        offline=tuple(sorted({*near.offline, *rest.offline} - passed)),
        errors=tuple(sorted({*near.errors, *rest.errors} & failed)),
        skipped=tuple(sorted({*near.skipped, *rest.skipped} - passed - failed)),
        raised={**near.raised, **rest.raised},
    )


def merge_runs(base: TestRun, more: TestRun) -> TestRun:
    """Merge both runs into one with the first's clock. Functions are the first's, and the second's
    under their own numbers."""
    shift = len(base.names)
    ran = {place: list(numbers) for place, numbers in base.ran.items()}
    for place, numbers in more.ran.items():
        ran.setdefault(place, []).extend(number + shift for number in numbers)
    failed = {*base.suite.failed, *more.suite.failed}
    passed = {*base.suite.passed, *more.suite.passed} - failed
    suite = _join_runs(more.suite, base.suite, passed)
    results = {*suite.passed, *suite.failed, *suite.offline, *suite.skipped}
    counts = {"ran": len(results), "skipped": len(suite.skipped)}
    cut = base.suite.cut and replace(base.suite.cut, **counts)
    return replace(
        base,
        suite=replace(suite, cut=cut),
        unfinished={**base.unfinished, **more.unfinished},
        files={**base.files, **more.files},
        seconds={**base.seconds, **more.seconds},
        ran=ran,
        names=base.names + more.names,
    )


def keep_measured(names: Collection[str], base: TestRun, after: TestRun) -> tuple[str, ...]:
    """Those of `names` that have a result in the run `after`: all, unless its time ran out.

    The test that ran when the time was over has no result, unless it hangs; where the start of all
    tests hangs, none passes.
    """
    if after.suite.cut is None:
        return tuple(names)
    began = {*after.files, *after.suite.passed, *after.suite.failed, *after.suite.skipped}
    if not began:
        execution = after.suite.execution
        usual = base.start or base.suite.execution.seconds
        hangs = execution.limit == "idle" or _is_endless(execution.seconds, usual)
        return tuple(names) if hangs else ()
    cut_off = {
        name
        for name, seconds in after.unfinished.items()
        if not _is_endless(seconds, base.seconds.get(name, 0.0))
    }
    return tuple(name for name in names if name in began - cut_off)


def _is_endless(seconds: float, usual: float) -> bool:
    """Whether a test that ran for `seconds` hangs, by its usual time without an edit."""
    return seconds >= max(10.0, 10 * usual)


async def confirm_broken(
    runner: TestRunner, diff: str, broken: Collection[str], base: TestRun, repeats: int
) -> RerunResult:
    """Run the files of the `broken` tests again, with `diff` and, if they stay broken, without.

    Runs whole files, because a test may depend on its neighbours.
    """
    left = set(broken)
    # More broken tests than this are not due to chance; they do not run again.
    if not left or len(left) > 2000:
        return RerunResult()
    files = {base.files.get(name, "") for name in left}
    wanted = RequestedTests() if "" in files else RequestedTests(files=tuple(sorted(files)))
    passed: set[str] = set()
    for attempt in range(1, repeats + 1):
        again = await runner.run(diff, wanted, attempt)
        passed |= left & set(again.suite.passed)
        left -= passed
        if not left:
            return RerunResult(passed=tuple(sorted(passed)))
    flaky: set[str] = set()
    for attempt in range(1, repeats + 1):
        again = await runner.run("", wanted, attempt)
        # A test that the time did not allow again is not flaky.
        flaky |= set(keep_measured(left, base, again)) - set(again.suite.passed)
        left -= flaky
        if not left:
            break
    return RerunResult(passed=tuple(sorted(passed)), flaky=tuple(sorted(flaky)))
