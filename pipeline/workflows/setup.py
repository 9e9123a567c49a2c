"""The models of a run, the context finder over them, and the record of what the run goes by."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.context.finder import ContextFinder, OnScanProgress
from pipeline.context.search.embeddings import EmbeddingRanker
from pipeline.context.tokens import ESTIMATOR, TokenCounter
from pipeline.models.base import Model, ModelProfile
from pipeline.models.likelihood import Reward
from pipeline.options import Options
from pipeline.store import Store
from pipeline.types import Frozen

EFFECTIVE_KEY = "effective"


@dataclass(frozen=True)
class Models:
    """The models that a run may ask; each but the solver is optional."""

    solver: Model
    scout: Model | None
    """Reads every file; None: files are found by the words they share with the issue."""
    counter: TokenCounter = ESTIMATOR
    """Counts tokens as the solver does."""
    orm: Reward | None = None
    """Scores edits that the executions leave tied; None: they stay tied."""
    scout_counter: TokenCounter = ESTIMATOR
    """Counts tokens as the scout does."""
    embedding_ranker: EmbeddingRanker | None = None
    """Helps to order the files by likeness to the issue; None: their words alone decide."""


class EffectiveSetup(Frozen):
    """The options of a run, and the profiles under which it asks its models."""

    options: Options
    solver: ModelProfile
    scout: ModelProfile | None
    temperature: float | None
    """Of testing and editing; None where the solver takes none."""


def effective_setup(models: Models, options: Options) -> EffectiveSetup:
    """What a run with `models` and `options` goes by."""
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
    """Finds the files that matter to an issue, with those of `models` that it needs."""
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
