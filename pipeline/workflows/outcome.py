"""The saved outcome of a run, and the models it worked with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.context.finder import CONTEXT_KEY, ContextFinder
from pipeline.context.scan import OnScanProgress
from pipeline.context.tokens import ESTIMATOR, TokenCounter
from pipeline.data.code_places import Context, SearchRecord
from pipeline.data.options import Options
from pipeline.data.types import NoFix, Selection
from pipeline.localisation.process_reward import ProcessReward
from pipeline.localisation.tree_search import SEARCH_END_KEY, SEARCH_KEY
from pipeline.models.base import Model, ModelProfile, Reward
from pipeline.store import Store
from sandbox.frozen import Frozen, replace

EFFECTIVE_KEY = "effective"


@dataclass(frozen=True)
class Models:
    """The models of a run; each but the solver is optional."""

    solver: Model
    scout: Model | None
    """Reads every file; None: files are found by the words they share with the issue."""
    counter: TokenCounter = ESTIMATOR
    orm: Reward | None = None
    """Scores edits that the executions leave tied; None: they stay tied."""
    prm: ProcessReward | None = None
    """Scores the answers of a search; None: it is not guided."""
    scout_counter: TokenCounter = ESTIMATOR
    solvers: Mapping[str, Model] = field(default_factory=dict[str, Model])
    """Further solvers of a mixture, by the names that its generators give them."""


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
    )


OUTCOME_KEY = "outcome"
"""The key of the outcome; absent while a restart of the same run could end better."""
END_KEY = "end"
"""The key of the last outcome of such a run."""


class SolveResult(Frozen):
    """The document that `solve` saves at its end."""

    result: Selection | NoFix


async def load_end(store: Store) -> Selection | NoFix | None:
    """The outcome of the run of `store`, final or not; None if it has not ended."""
    for key in (OUTCOME_KEY, END_KEY):
        if saved := await store.load(key, SolveResult):
            return saved.result
    return None


async def load_context(store: Store) -> Context | None:
    """What the models of the run of `store` saw, with what a search added; None before that."""
    context = await store.load(CONTEXT_KEY, Context)
    search = await store.load(SEARCH_KEY, SearchRecord)
    search = search or await store.load(SEARCH_END_KEY, SearchRecord)
    return replace(context, search=search) if context and search else context


async def save_end(store: Store, result: Selection | NoFix) -> None:
    """Save the outcome of the run of `store`; see `OUTCOME_KEY`."""
    # With a higher ceiling or a lower threshold, a restarted run continues.
    final = isinstance(result, Selection) or result.is_final
    await store.save(OUTCOME_KEY if final else END_KEY, SolveResult(result=result))
