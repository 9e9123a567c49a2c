"""A control of the recorder: a test that must fail, beside the repository's own, under names that
an edit cannot know. Where it is recorded otherwise, nothing that ran with that edit counts."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from pipeline.regression.runner import TestRun, TestRunner
from pipeline.store import SHARED, load_or_run
from pipeline.types import Frozen

CONTROL: Final = "a control test, which must fail and was recorded otherwise"
"""The name under which a forged result is reported, in place of a test's."""
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


async def is_forged(runner: TestRunner, base: TestRun, diff: str) -> bool:
    """Whether control tests that are recorded as failed without `diff` are not so with it.

    Always false for a command of which no part can be run, or that does not run them at all.
    """
    beside = next((base.files[n] for n in base.suite.passed if base.files.get(n)), "")
    if runner.command.kind not in _KINDS or not runner.command.covers((beside,)) or not beside:
        return False
    before = await _load_or_run(runner, beside, "")
    if not before.failed or before.passed:
        return False
    after = await _load_or_run(runner, beside, diff)
    return after.told and (after.passed > 0 or after.failed < before.failed)


async def _load_or_run(runner: TestRunner, beside: str, diff: str) -> ControlRun:
    parts = "\0".join([*runner.command.argv, beside, diff])
    digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    key = f"control/{digest}" if diff else f"{SHARED}control-{digest}"
    return await load_or_run(runner.store, key, ControlRun, lambda: _run(runner, beside, diff))


async def _run(runner: TestRunner, beside: str, diff: str) -> ControlRun:
    nonce = f"c{secrets.token_hex(8)}"
    folder, _, name = beside.rpartition("/")
    name = f"{nonce}_test.py" if name.endswith("_test.py") else f"test_{nonce}.py"
    path = f"{folder}/{name}" if folder else name
    text = _CASE + (_FUNCTION if runner.command.kind == "pytest" else "")
    run = await runner.run_added(diff, path, text.format(nonce=nonce))
    return ControlRun(
        failed=sum(nonce in test for test in run.suite.failed),
        passed=sum(nonce in test for test in run.suite.passed),
        told=run.suite.execution.exit_code is not None,
    )
