"""The models of a run, its context finder, and the record of its effective setup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.codebase.commit import Codebase
from pipeline.context.finder import ContextFinder, OnScanProgress
from pipeline.context.search.embeddings import EmbeddingRanker
from pipeline.context.tokens import ESTIMATOR, TokenCounter
from pipeline.models.base import Model, ModelProfile
from pipeline.models.likelihood import Reward
from pipeline.options import Options
from pipeline.resources import Progress, Resources
from pipeline.search.reward import ProcessReward
from pipeline.store import Store
from pipeline.types import Frozen
from sandbox.base import Sandbox

EFFECTIVE_KEY = "effective"


@dataclass(frozen=True)
class Models:
    """The models of a run; each but the solver is optional."""

    solver: Model
    scout: Model | None
    """Reads every file; None: files are found by the words they share with the issue."""
    counter: TokenCounter = ESTIMATOR
    """Counts tokens with the solver's tokenizer."""
    orm: Reward | None = None
    """Scores edits that the executions leave tied; None: they stay tied."""
    prm: ProcessReward | None = None
    """Scores the answers of a search; None: it is not guided."""
    scout_counter: TokenCounter = ESTIMATOR
    """Counts tokens with the scout's tokenizer."""
    solvers: Mapping[str, Model] = field(default_factory=dict[str, Model])
    """Further solvers of a mixture, by the names that its generators give them."""
    embedding_ranker: EmbeddingRanker | None = None
    """Helps to order the files by similarity to the issue; None: words alone decide."""

    def to_resources(
        self,
        sandbox: Sandbox,
        codebase: Codebase,
        store: Store,
        options: Options,
        progress: Progress | None = None,
    ) -> Resources:
        """What the steps of a run work with."""
        return Resources(
            self.solver,
            sandbox,
            codebase,
            store,
            options,
            progress=progress,
            solvers=self.solvers,
        )


class EffectiveSetup(Frozen):
    """The options of a run, and the profiles of its models."""

    options: Options
    solver: ModelProfile
    scout: ModelProfile | None
    temperature: float | None
    """The temperature of testing and editing; None if the solver accepts none."""


def effective_setup(models: Models, options: Options) -> EffectiveSetup:
    """The setup of a run with `models` and `options`."""
    solver, scout = models.solver.profile, models.scout
    return EffectiveSetup(
        options=options,
        solver=solver,
        scout=scout.profile if scout else None,
        temperature=options.temperature if solver.sampling else None,
    )


def context_finder(
    models: Models, store: Store, options: Options, on_progress: OnScanProgress | None = None
) -> ContextFinder:
    """A finder of the files relevant to an issue, with those of `models` that it needs."""
    return ContextFinder(
        solver=models.solver,
        scout=models.scout,
        store=store,
        options=options,
        on_progress=on_progress,
        counter=models.counter,
        scout_counter=models.scout_counter,
        embedding_ranker=models.embedding_ranker,
    )
