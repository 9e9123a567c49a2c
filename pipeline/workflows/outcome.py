"""The saved outcome of a run."""

from __future__ import annotations

from pipeline.context.finder import CONTEXT_KEY
from pipeline.search.tree import SEARCH_END_KEY, SEARCH_KEY
from pipeline.store import Store
from pipeline.types import Context, Frozen, NoFix, SearchRecord, Selection, replace

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
