"""What the steps of a run work with, passed whole; a machine driven on a budget."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipeline import reasons
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.progress import Doing, Event, OnProgress, Stage, StageBegan
from pipeline.data.types import NOT_FIXED
from pipeline.languages.language import PromptLanguage
from pipeline.languages.registry import main_language, name_language
from pipeline.machine import Machine, drive
from pipeline.models.base import Model, Price
from pipeline.models.wrappers import UNLIMITED, RunClock
from pipeline.run_errors import BudgetSpent
from pipeline.state import Phase, S
from pipeline.store import Store
from sandbox.base import Sandbox
from sandbox.frozen import replace
from sandbox.program import NO_ENV, Execution, Program

_SPOILT_SECONDS: Final = 10.0
"""Processor time that a script has at least with a spoilt edit."""


@dataclass(frozen=True)
class Workspace:
    """What a step needs that asks no model.

    `sandbox` holds `codebase`, and one `store` is for one issue at one commit.
    """

    sandbox: Sandbox
    codebase: Codebase
    store: Store
    options: Options
    clock: RunClock = UNLIMITED
    on_progress: OnProgress | None = None
    listen: Callable[[], Awaitable[Sequence[str]]] | None = None
    """What trusted people have said on the issue since the run read it; untrusted. None: nobody
    can say anything."""

    async def run_script(
        self, script: str, diff: str = "", *, env: Mapping[str, str] = NO_ENV
    ) -> Execution:
        """Run a script of the language in a fresh checkout with `diff`. Raises as `Sandbox.run`."""
        seconds = self.options.execution_seconds
        diffs = (diff,) if diff else ()
        language = main_language(self.codebase)
        return await self.sandbox.run(
            language.script_program(script, diffs=diffs, seconds=seconds, env=env)
        )

    async def run_spoilt(self, script: str, diff: str, like: Execution) -> Execution:
        """Run a script with a spoilt version of the edit with which it ended as `like`: for thrice
        that time at most, and without a build where it compiles what it needs. Raises as
        `Sandbox.run`."""
        seconds = min(self.options.execution_seconds, _SPOILT_SECONDS + 3 * like.own_seconds)
        language = main_language(self.codebase)
        program = language.script_program(script, diffs=(diff,), seconds=seconds)
        if language.compiles(script):
            found = await self.sandbox.run(dataclasses.replace(program, built=False))
            if found.exit_code in (0, NOT_FIXED, None):
                return found
            # It may not compile, which is no verdict: the build says so.
        return await self.sandbox.run(program)

    def describe_language(self) -> PromptLanguage:
        """What templates need of the language of scripts."""
        facts = main_language(self.codebase).facts
        told = facts.to_prompt(f"{self.options.execution_seconds:g}")
        return told._replace(name=name_language(self.codebase) or told.name)

    async def run(
        self, command: Sequence[str], *diffs: str, env: Mapping[str, str] = NO_ENV
    ) -> Execution:
        """Run a command in a fresh checkout with `diffs`. Raises as `Sandbox.run`."""
        applied = [diff for diff in diffs if diff]
        seconds = self.options.execution_seconds
        return await self.sandbox.run(Program(command, diffs=applied, seconds=seconds, env=env))

    def report(self, event: Event) -> None:
        if self.on_progress:
            self.on_progress(event)

    def say(self, text: str) -> None:
        """Report what the run does now; see `Doing`."""
        self.report(Doing(text))

    def with_model(self, model: Model, solvers: Mapping[str, Model] | None = None) -> "Resources":
        """The same with models; see `Resources`."""
        return Resources(**vars(self), model=model, solvers=solvers or {})

    async def begin(self, stage: Stage, text: str) -> None:
        """Report that `stage` begins, and save how long the run has taken."""
        await self.clock.save(self.store)
        self.report(StageBegan(stage, text))


@dataclass(frozen=True, kw_only=True)
class Resources(Workspace):
    """What a step works with that asks models."""

    model: Model
    """The solver: it writes tests and edits."""
    solvers: Mapping[str, Model] = field(default_factory=dict[str, Model])
    """Further solvers, by the names that generators give them."""

    @property
    def ceiling(self) -> float:
        """What the run may cost, in US dollars; 0 where the solver is free."""
        return self.options.dollars if self.model.profile.price != Price() else 0

    async def start_clock(self) -> "Resources":
        """The same with the clock of the run in the store."""
        clock = await RunClock.open(self.store, self.options.minutes)
        return dataclasses.replace(self, clock=clock)


async def drive_on_budget(machine: Machine[S], kind: type[S], store: Store, key: str) -> S:
    """As `drive`, but a spent budget ends the machine in OUT_OF_BUDGET instead of raising.

    Raises:
        ModelError, SandboxError: call again to resume from the last checkpoint.
    """
    try:
        return await drive(machine, kind, store, key)
    except BudgetSpent as spent:
        state = await store.load(key, kind) or machine.start()
        await machine.finish(state)
        return replace(
            state,
            phase=Phase.OUT_OF_BUDGET,
            ceiling=reasons.budget_sentence(spent),
            reached=spent.of,
        )
