"""Controls of the recorder: tests that must fail. One is beside the repository's own, under names
that an edit cannot know; others are the repository's own, made to fail under their own names. Where
one is recorded otherwise, nothing that ran with that edit counts."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.edits.external_tests import make_tests_fail
from pipeline.edits.patches import create_patch
from pipeline.edits.unified_diff import list_paths
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.store import SHARED, load_or_run
from pipeline.types import Frozen

CONTROL: Final = "a control test, which must fail and was recorded otherwise"
"""The name under which a forged result is reported, in place of a test's."""
LONGEST_SECONDS: Final = 60.0
"""Of the tests in a file that is made to fail."""
ENOUGH_TESTS: Final = 20
"""Which pass with an edit and lie in one file: to make more of them fail shows no more."""
_KINDS: Final = ("pytest", "unittest", "labels")
_CASE: Final = """\
import unittest


class Test{nonce}(unittest.TestCase):
    def test_{nonce}(self):
        self.fail("{nonce}")
"""
_FUNCTION: Final = """

def test_{nonce}():
    assert "{nonce}" == ""
"""


class ControlRun(Frozen):
    """How the control tests of one run were recorded."""

    failed: int = 0
    passed: int = 0
    told: bool = True
    """Whether the run ended by itself; else it shows nothing."""
    own_failed: tuple[str, ...] = ()
    """The repository's own tests that were made to fail, and did."""
    own_passed: tuple[str, ...] = ()


class ControlTests:
    """Runs control tests by one command, without and with edits. Each result is saved."""

    def __init__(self, runner: TestRunner, codebase: Codebase, base: TestRun) -> None:
        self._runner = runner
        self._codebase = codebase
        self._base = base

    async def are_forged(self, diff: str, names: Collection[str]) -> bool:
        """Whether control tests that are recorded as failed without `diff` are not so with it.

        `names`: the tests that are said to pass with it. Always false for a command of which no
        part can be run, or that does not run the control tests at all.
        """
        files = self._base.files
        beside = next((files[name] for name in self._base.suite.passed if files.get(name)), "")
        if self._runner.command.kind not in _KINDS or not self._runner.command.covers((beside,)):
            return False
        if not beside:
            return False
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
        return after.told and (after.passed > 0 or after.failed < before.failed)

    async def _load_or_run(self, beside: str, own: str, diff: str) -> ControlRun:
        parts = "\0".join([*self._runner.command.argv, beside, own, diff])
        digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        key = f"control/{digest}" if diff else f"{SHARED}control-{digest}"
        return await load_or_run(
            self._runner.store, key, ControlRun, lambda: self._run(beside, own, diff)
        )

    async def _run(self, beside: str, own: str, diff: str) -> ControlRun:
        nonce = f"c{secrets.token_hex(8)}"
        folder, _, name = beside.rpartition("/")
        name = f"{nonce}_test.py" if name.endswith("_test.py") else f"test_{nonce}.py"
        path = f"{folder}/{name}" if folder else name
        text = _CASE + (_FUNCTION if self._runner.command.kind == "pytest" else "")
        changes: dict[str, bytes | None] = {path: text.format(nonce=nonce).encode()}
        own_text = await self._codebase.read_text(own) if own else None
        if own_text and (failing := await make_tests_fail(own, own_text, nonce)):
            changes[own] = failing
        made = (await create_patch(self._codebase, changes)).diff
        run = await self._runner.run_changed(tuple(filter(None, (diff, made))), list(changes))
        mine = {name for name, file in run.files.items() if file == own and own in changes}
        return ControlRun(
            failed=sum(nonce in test for test in run.suite.failed),
            passed=sum(nonce in test for test in run.suite.passed),
            told=run.suite.execution.exit_code is not None,
            own_failed=tuple(name for name in run.suite.failed if name in mine),
            own_passed=tuple(name for name in run.suite.passed if name in mine),
        )


def list_quick_files(base: TestRun, names: Collection[str], diff: str) -> list[str]:
    """The files that `diff` leaves alone and that do not take long, the best one first: the
    quickest that holds enough of the tests `names`."""
    seconds: dict[str, float] = defaultdict(float)
    for name, path in base.files.items():
        seconds[path] += base.seconds.get(name, 0.0)
    # Of a file whose tests the time cut short, nobody knows how long it takes.
    cut_short = {base.files.get(name, "") for name in base.unfinished}
    unfit = {*list_paths(diff), *cut_short, ""}
    counts = Counter(base.files.get(name, "") for name in sorted(names))
    fit = [
        path
        for path, _ in counts.most_common()
        if path not in unfit and seconds[path] <= LONGEST_SECONDS
    ]
    enough = [path for path in fit if counts[path] >= min(ENOUGH_TESTS, counts[fit[0]])]
    return [*sorted(enough, key=lambda path: seconds[path]), *fit[len(enough) :]]
