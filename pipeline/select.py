"""The selector alone: an issue, a codebase and edits from anywhere in; the choice, or a no, out.

edits ─▶ Adopted ─▶ their tests, given ones, or else written ones ─▶ Judge ─▶ Choice
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from pipeline.codebase.commit import Codebase
from pipeline.codebase.conventions import detect
from pipeline.concurrency import bounded
from pipeline.edits.external import Adopted, ForeignEdit, adopt
from pipeline.edits.external_tests import given_test
from pipeline.generation.testing import TestingMachine, TestingState
from pipeline.machine import Phase, drive_on_budget
from pipeline.models.base import Model
from pipeline.models.likelihood import Reward
from pipeline.options import Options
from pipeline.selection.judge import Judge
from pipeline.selection.verdict import Judged
from pipeline.store import Store
from pipeline.types import Issue, NoFix, TestScript
from pipeline.workflows import abstain
from sandbox.base import Sandbox

ADOPTED_KEY = "adopted"
_SIDE_BY_SIDE = 4
NOT_RED = "No test fails on the code as it is, so none shows that the issue is fixed."

Progress = Callable[[str], Awaitable[None]]
"""Told what is done now, in plain words for a person."""


@dataclass(frozen=True)
class GivenTest:
    """A test that somebody brings: a script that ends itself, or a test file."""

    name: str
    text: str


@dataclass(frozen=True)
class Choice:
    """What selecting came to."""

    judged: Judged
    no: NoFix | None
    """Why none may be taken; None: `judged.chosen` is the edit."""
    written: int = 0
    """How many of the tests testing machines wrote."""


class Selector:
    """Chooses for one issue in one codebase. One `store` is for one set of edits."""

    def __init__(
        self,
        *,
        model: Model | None,
        reward: Reward | None,
        sandbox: Sandbox,
        codebase: Codebase,
        store: Store,
        options: Options,
        progress: Progress,
    ) -> None:
        """Without a `model` no test is written, and the last word is the executions'."""
        self._model = model
        self._reward = reward
        self._sandbox = sandbox
        self._codebase = codebase
        self._store = store
        self._options = options
        self._progress = progress

    async def select(
        self, issue: Issue, edits: Sequence[ForeignEdit], given: Sequence[GivenTest] = ()
    ) -> Choice:
        """The choice among `edits`. Tests are written only where none at hand fails without them.

        An edit must pass a test that fails on the unedited code, if there is such a test.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: call again to go on.
        """
        adopted = await self._adopted(edits)
        tests = await self._given(given)
        if not adopted.candidates:
            return _told(await self._judged(issue, adopted, (), reproduced=False), adopted)
        judged: Judged | None = None
        if tests or any(c.test for c in adopted.candidates):
            judged = _red(await self._judged(issue, adopted, tests, reproduced=True))
        written: list[TestScript] = []
        if judged is None and self._model is not None:
            written, spent = await self._written(self._model, issue)
            if written:
                tests = (*tests, *written)
                judged = _red(await self._judged(issue, adopted, tests, reproduced=True))
            elif spent:
                left = await self._judged(issue, adopted, tests, reproduced=False)
                return Choice(left, NoFix(reason="out of budget"))
        if judged is None:
            judged = await self._judged(issue, adopted, tests, reproduced=False)
            judged = _noting(judged, NOT_RED)
        choice = _told(_noting(judged, *adopted.notes), adopted, self._options.confidence)
        return replace(choice, written=len(written))

    async def _adopted(self, edits: Sequence[ForeignEdit]) -> Adopted:
        saved = await self._store.load(ADOPTED_KEY, Adopted)
        if saved is None:
            saved = await adopt(self._codebase, edits, await detect(self._codebase))
            await self._store.save(ADOPTED_KEY, saved)
        return saved

    async def _given(self, given: Sequence[GivenTest]) -> tuple[TestScript, ...]:
        conventions = await detect(self._codebase)
        taken = frozenset(self._codebase.files)
        return tuple(given_test(test.name, test.text, conventions, taken) for test in given)

    async def _judged(
        self,
        issue: Issue,
        adopted: Adopted,
        tests: Sequence[TestScript],
        *,
        reproduced: bool,
    ) -> Judged:
        count = len(adopted.candidates)
        await self._progress(f"running every test on {count} edits and choosing among them")
        judge = Judge(
            self._model,
            self._sandbox,
            self._codebase,
            self._store,
            self._options,
            reward=self._reward,
        )
        return await judge.judge(issue, adopted.candidates, tests=tests, reproduced=reproduced)

    async def _written(self, model: Model, issue: Issue) -> tuple[list[TestScript], bool]:
        """Scripts that report the issue, from one wave of testing machines; whether money ended."""
        count = min(self._options.samples, self._options.first_wave)
        await self._progress(f"writing {count} tests, as none at hand fails on the code as it is")

        async def one(number: int) -> TestingState:
            machine = TestingMachine(model, self._sandbox, issue, self._options, sample=number)
            return await drive_on_budget(machine, TestingState, self._store, f"testing/{number}")

        states = await bounded(_SIDE_BY_SIDE, (one(number) for number in range(count)))
        scripts = dict.fromkeys(best[0] for state in states if (best := state.best()))
        return list(scripts), any(state.phase is Phase.OUT_OF_BUDGET for state in states)


def _told(judged: Judged, adopted: Adopted, least: float = 0.0) -> Choice:
    table = judged.table
    rejected = (*adopted.rejected, *table.rejected)
    judged = Judged(table.model_copy(update={"rejected": rejected}), judged.verdict)
    kept_back = judged.verdict.chosen is None or judged.verdict.confidence < least
    return Choice(judged, abstain.kept_back(judged, least) if kept_back else None)


def _red(judged: Judged) -> Judged | None:
    """The verdict, if it rests on a test that fails on the unedited code."""
    return None if judged.verdict.reason == "no reproduction" else judged


def _noting(judged: Judged, *notes: str) -> Judged:
    said = (*judged.verdict.notes, *notes)
    return Judged(judged.table, judged.verdict.model_copy(update={"notes": said}))
