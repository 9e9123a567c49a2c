"""The runner's requests and results."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date
from typing import Final, Generic, TypeVar, cast

from bot.data.run import RunId
from pipeline.budget import SharedBudget
from pipeline.codebase.commit import Codebase
from pipeline.data.code_places import Context
from pipeline.data.options import Options
from pipeline.data.types import Account, Issue, NoFix, Selection
from pipeline.environment.record import EnvironmentRecord
from pipeline.select import Choice
from pipeline.store import Store
from pipeline.workflows.plan import Plan
from sandbox.engine import EnvironmentSpec

R = TypeVar("R", covariant=True)
S = TypeVar("S")


@dataclass(frozen=True)
class Job:
    run_id: RunId
    issue: Issue
    codebase: Codebase
    options: Options
    scope: str
    """Jobs share environment images only within it; no stranger may be able to choose it."""
    environment: EnvironmentSpec = EnvironmentSpec()  # noqa: RUF009 - frozen
    image: str = ""
    """A published image that is tried first; see `EnvironmentRequest`."""
    shared_budget: SharedBudget | None = None
    """The ceilings that this job shares with other runs; None: it has none."""
    environment_store: Callable[[str], Store] | None = None
    """From an environment image to the store of what jobs know about it; None: each job has
    its own."""
    repository_store: Store | None = None
    """The store shared by the jobs of a repository; None: they share nothing."""
    as_of: date | None = None
    """The day as of which packages are installed; None: the day of the commit."""
    billable: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Surrounds every call that costs money."""
    listen: Callable[[], Awaitable[Sequence[str]]] | None = None
    describe: Callable[[], Awaitable[str]] | None = None
    """`git describe` of the commit, where `codebase` lacks the history; asked when needed."""


EVIDENCE_RUNS: Final = 3
"""How often the reproduction test runs on base and on head; results that vary are no evidence."""


@dataclass(frozen=True)
class VerificationRequest:
    """A change of a job's codebase, and the reproduction test that it must make pass."""

    key: str
    """The store key of the result; each pair of base and head has its own."""
    changes: Mapping[str, bytes | None]
    """New contents by path; None deletes the file."""
    test: str
    """The path of the reproduction test; empty when the command runs a script."""
    test_files: tuple[str, ...]
    """All files that belong to the test, and not to the change."""
    command: tuple[str, ...]
    near: bool = False
    """Whether to run the tests near the change, too, where the test shows it."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """The result of one job, with its costs and circumstances."""

    result: R
    accounts: tuple[Account, ...]
    image: str = ""
    """The environment image that everything ran in; empty when nothing ran."""
    environment: EnvironmentRecord | None = None
    """The attempts that led to that image, and its health; None if nothing ran."""
    context: Context | None = None
    """What the solver read; None if the run ended before it read anything."""
    context_seconds: float = 0
    """How long it took to find the context, in the start of the run that found it."""
    sent_to: tuple[str, ...] = ()
    """The hosts that received code (see `Ledger`)."""

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)

    def with_result(self, result: S) -> "Outcome[S]":
        return cast("Outcome[S]", replace(self, result=result))


SolveOutcome = Outcome[Selection | NoFix]
PlanOutcome = Outcome[Plan | NoFix]
SelectOutcome = Outcome[Choice | NoFix]
"""The result of choosing among edits from any source; `NoFix` if no tests can run here."""
