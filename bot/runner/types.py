"""What the runner is asked for and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.budget import SharedBudget
from pipeline.codebase.commit import Codebase
from pipeline.edits.external import ExternalEdit
from pipeline.options import Options
from pipeline.select import Choice, ExternalTest
from pipeline.store import SharingStore, Store
from pipeline.types import Account, Context, Issue, NoFix, Selection
from pipeline.workflows.plan import Plan

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What is to be solved."""

    run_id: str
    issue: Issue
    codebase: Codebase
    options: Options
    setup: tuple[str, ...] = ()
    dockerfile: str = ""
    python: str = ""
    shared_budget: SharedBudget | None = None
    """Ceilings that it shares with other runs."""
    environment_store: Callable[[str], Store] | None = None
    """Where what is true of an environment image is kept, beyond this job."""

    def with_environment_store(self, store: Store, image: str) -> Store:
        """`store`, and what other jobs in the same environment found out."""
        return (
            SharingStore(store, self.environment_store(image)) if self.environment_store else store
        )


@dataclass(frozen=True)
class VerificationRequest:
    """What is to be shown of a change upon a job's codebase."""

    key: str
    """Under which it is saved; another for another base or head."""
    changes: Mapping[str, bytes | None]
    """As in `pipeline.edits.patches.create_patch`."""
    test: str
    """The reproduction test's path."""
    command: tuple[str, ...]
    times: int


@dataclass(frozen=True)
class Outcome:
    result: Selection | NoFix
    accounts: tuple[Account, ...]
    image: str = ""
    """The environment image that everything ran in."""
    context: Context | None = None
    """What the solver was shown; None when the run did not get so far."""
    context_seconds: float = 0
    """How long finding it took, for the start of the run that ended it."""
    sent_to: tuple[str, ...] = ()
    """As in `Ledger`."""

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)


@dataclass(frozen=True)
class PlanOutcome:
    """What a dry run came to."""

    plan: Plan
    accounts: tuple[Account, ...]

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)


@dataclass(frozen=True)
class SelectionRequest:
    """What is to be chosen among, and by which tests beside those that the edits bring."""

    edits: Sequence[ExternalEdit]
    tests: Sequence[ExternalTest] = ()


@dataclass(frozen=True)
class SelectionOutcome:
    """What choosing among edits from anywhere came to."""

    choice: Choice
    accounts: tuple[Account, ...]
    image: str

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)
