"""The requests to the runner, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pipeline.budget import SharedBudget
from pipeline.codebase.commit import Codebase
from pipeline.edits.external import ExternalEdit
from pipeline.options import Options
from pipeline.select import Choice, ExternalTest
from pipeline.store import SharingStore, Store
from pipeline.types import Account, Context, Issue, NoFix, Selection
from pipeline.workflows.plan import Plan

R = TypeVar("R", covariant=True)
S = TypeVar("S")

OnProgress = Callable[[str], None]
"""Receives each sentence about what is done now."""


@dataclass(frozen=True)
class Job:
    """One issue at one commit, and the repository's options for it."""

    run_id: str
    issue: Issue
    codebase: Codebase
    options: Options
    setup: tuple[str, ...] = ()
    dockerfile: str = ""
    python: str = ""
    shared_budget: SharedBudget | None = None
    """The ceilings that this job shares with other runs; None: it has none."""
    environment_store: Callable[[str], Store] | None = None
    """From an environment image to the store of what jobs know about it; None: it is not kept."""

    def with_environment_store(self, store: Store, image: str) -> Store:
        """`store`, which also shares what jobs found out about the environment `image`."""
        return (
            SharingStore(store, self.environment_store(image)) if self.environment_store else store
        )


@dataclass(frozen=True)
class VerificationRequest:
    """A change of a job's codebase, and the reproduction test that it must make pass."""

    key: str
    """The store key of the result; each pair of base and head has its own."""
    changes: Mapping[str, bytes | None]
    """New contents by path; None deletes the file."""
    test: str
    """The path of the reproduction test."""
    command: tuple[str, ...]
    times: int


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """The result of one job, and what it took to get there."""

    result: R
    accounts: tuple[Account, ...]
    image: str = ""
    """The environment image that everything ran in; empty when nothing ran."""
    context: Context | None = None
    """What the solver read; None when the run ended before it read anything."""
    context_seconds: float = 0
    """How long it took to find the context, in the start of the run that found it."""
    sent_to: tuple[str, ...] = ()
    """The hosts that code was sent to, as in `Ledger`."""

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)

    def with_result(self, result: S) -> Outcome[S]:
        """The same outcome around another result."""
        return Outcome(
            result, self.accounts, self.image, self.context, self.context_seconds, self.sent_to
        )


SolveOutcome = Outcome[Selection | NoFix]
"""What solving an issue answers."""
PlanOutcome = Outcome[Plan | NoFix]
"""What a dry run answers."""
SelectOutcome = Outcome[Choice | NoFix]
"""What choosing among edits from anywhere answers; `NoFix` when no tests can run here."""


@dataclass(frozen=True)
class SelectionRequest:
    """The edits to choose from."""

    edits: Sequence[ExternalEdit]
    tests: Sequence[ExternalTest] = ()
    """Tests to choose by, in addition to those that the edits bring."""
