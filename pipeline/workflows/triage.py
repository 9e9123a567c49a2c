"""Says no before any edit is written, if the tests alone show that there is nothing to fix.

    tests of two samples ─▶ both see nothing to fix ─▶ the wave's other tests ─▶ all agree ─▶ NoFix

Where scripts already pass, the commit that fixed the issue is looked for: without it, nothing is
claimed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pipeline.codebase.text import pluralize
from pipeline.concurrency import gather_all
from pipeline.generation.nothing_to_fix import NothingToFix
from pipeline.generation.testing import NOT_FIXED, TestingState
from pipeline.models.base import ModelUnavailable
from pipeline.resources import Resources
from pipeline.state import Phase
from pipeline.types import FixedSince, Frozen, NoFix, NoFixReason
from pipeline.workflows.lineage import Ancestor, Lineage
from sandbox.errors import SandboxUnavailable

TRIAGE_KEY = "triage"
_FIRST = 2
"""So many tests are written before any edit; the others only if these see nothing to fix."""
_REASONS: dict[NothingToFix, NoFixReason] = {
    "question": "question",
    "wish": "unclear wish",
    "elsewhere": "not this repository",
}


class Triage(Frozen):
    """The saved result."""

    result: NoFix | None


WriteTest = Callable[[int], Awaitable[TestingState]]
"""Writes the test of a sample, or loads it."""


async def find_nothing_to_fix(resources: Resources, write_test: WriteTest) -> NoFix | None:
    """Why there is nothing to fix, by the tests of the first samples; None if there may be.

    Those tests are saved as the samples' own, so that they are paid once. One sample alone decides
    nothing, nor does one whose services do not answer: the sampler tells that, and tries again.

    Raises:
        ModelMisconfigured, SandboxError: call again to resume.
    """
    options, store = resources.options, resources.store
    count = min(options.samples, max(options.first_wave, _FIRST))
    if count < _FIRST:
        return None
    if saved := await store.load(TRIAGE_KEY, Triage):
        return saved.result
    await resources.report("context", f"writing {_FIRST} scripts that reproduce the issue")
    written = await _write_tests(write_test, range(_FIRST))
    if all(state and _sees_nothing(state) for state in written):
        written += await _write_tests(write_test, range(_FIRST, count))
    states = [state for state in written if state and state.phase is not Phase.OUT_OF_BUDGET]
    if len(states) < len(written):
        return None
    result: NoFix | None = None
    if all(map(_sees_nothing, states[:_FIRST])) and not any(map(_reports, states)):
        result = _answer(states) or await _find_fix(states, resources)
    await store.save(TRIAGE_KEY, Triage(result=result))
    return result


async def _write_tests(write_test: WriteTest, samples: range) -> list[TestingState | None]:
    """The tests; None for a sample whose services do not answer."""

    async def write(sample: int) -> TestingState | None:
        try:
            return await write_test(sample)
        except (ModelUnavailable, SandboxUnavailable):
            return None

    return await gather_all(write(sample) for sample in samples)


def _reports(state: TestingState) -> bool:
    return any(run.exit_code == NOT_FIXED for run in state.runs)


def _passes(state: TestingState) -> bool:
    """Whether its last script says that the issue is fixed already, and none says otherwise."""
    return bool(state.runs) and state.runs[-1].passed and not _reports(state)


def _sees_nothing(state: TestingState) -> bool:
    return state.nothing is not None or _passes(state)


def _answer(states: Sequence[TestingState]) -> NoFix | None:
    """The answer that more than half of the samples give."""
    for kind, reason in _REASONS.items():
        answers = [state.why for state in states if state.nothing == kind]
        if 2 * len(answers) > len(states):
            return NoFix(reason=reason, details=tuple(filter(None, answers[:1])))
    return None


async def _find_fix(states: Sequence[TestingState], resources: Resources) -> NoFix | None:
    """The commit since which the scripts of most samples pass; None if they do not agree on one."""
    scripts = [state.scripts[-1] for state in states if _passes(state)]
    if len(scripts) < _FIRST or 2 * len(scripts) <= len(states):
        return None
    seconds = resources.options.execution_seconds
    lineage = Lineage(resources.codebase, resources.sandbox, seconds)
    await lineage.read()
    for script in dict.fromkeys(scripts):
        fix = await lineage.find_fix(script)
        if fix is None:
            continue
        showing = {other: await lineage.confirms(other, fix) for other in dict.fromkeys(scripts)}
        shown = sum(showing[other] for other in scripts)
        if showing[script] and shown >= _FIRST and 2 * shown > len(states):
            return _tell_fix(lineage.commits, fix, script, shown, len(states))
    return None


def _tell_fix(
    commits: Sequence[Ancestor], fix: int, script: str, shown: int, samples: int
) -> NoFix:
    at = commits[fix]
    ago = "the commit that I started from" if not fix else f"{pluralize(fix, 'commit')} ago"
    return NoFix(
        reason="already fixed",
        details=(
            f"{shown} of {samples} scripts, written independently from the issue's text, fail on "
            "its parent and pass on it, each time that they were run.",
            f"It is {at.commit}, {ago}: {at.subject}",
        ),
        script=script,
        fixed_since=FixedSince(commit=at.commit, subject=at.subject),
    )
