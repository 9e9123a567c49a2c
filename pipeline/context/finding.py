"""From a codebase to the files that are shown to the solver."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pipeline.codebase import Codebase
from pipeline.context.ranking import Ranked, RankingMachine, merge, pack
from pipeline.context.relevance import Verdict, judge
from pipeline.context.shortlist import shortlist
from pipeline.context.sources import Sources, sources_of
from pipeline.conventions import is_test
from pipeline.machine import drive
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.store import Store
from pipeline.together import together
from pipeline.types import Context, Issue

_MOST_RANKED = 200
"""How many files are put before the solver for ranking, so that the question stays readable."""


class ContextFinder:
    """Relevance by the scout (or by shared words without one), ranking by the solver, packing."""

    def __init__(
        self, *, solver: Model, scout: Model | None, store: Store, options: Options
    ) -> None:
        self._solver = solver
        self._scout = scout
        self._store = store
        self._options = options

    async def find(self, codebase: Codebase, issue: Issue) -> Context | None:
        """The context, saved under `context/files`; None when no file that fits concerns the issue.

        Raises what models raise, and BudgetSpent.
        """
        saved = await self._store.load("context/files", Context)
        if saved:
            return saved
        sources = await sources_of(codebase)
        verdicts = await self._relevant(sources, issue)
        if not verdicts:
            return None
        context = await self._pack(sources, verdicts, issue)
        if not context.files:
            return None
        await self._store.save("context/files", context)
        return context

    async def _relevant(self, sources: Sources, issue: Issue) -> list[Verdict]:
        """What is worth ranking: the relevant, then what could not be judged; tests last."""
        found: list[Verdict] = []
        if self._scout is not None:
            verdicts = await judge(sources.files, issue, scout=self._scout, store=self._store)
            found = [v for v in verdicts if v.answer == "relevant"]
            found += [
                v.model_copy(update={"summary": "The scout could not say what is in it."})
                for v in verdicts
                if v.answer == "unknown"
            ]
        if not found:
            # No scout; or one that finds nothing at all, and is more likely wrong than right.
            found = await asyncio.to_thread(shortlist, sources.files, issue)
        return sorted(found, key=lambda verdict: is_test(verdict.path))

    async def _pack(self, sources: Sources, verdicts: Sequence[Verdict], issue: Issue) -> Context:
        files = {file.path: file for file in sources.files}
        tokens = {path: file.tokens for path, file in files.items()}
        # The other half of the window is for the conversation and the replies.
        half = self._solver.profile.window // 2
        budget = min(self._options.context_tokens, half)
        ranked = await self._rank(verdicts[:_MOST_RANKED], tokens, issue, budget)
        order = sorted(ranked, key=is_test)
        taken, left = pack(order, tokens, budget)
        if not taken:
            taken, left = pack(order, tokens, half)
        unranked = [v.path for v in verdicts if v.path not in set(order)]
        return Context(
            files=tuple(files[path] for path in taken),
            dropped=(*left, *unranked, *sources.dropped),
            scanned=len(sources.files),
        )

    async def _rank(
        self, verdicts: Sequence[Verdict], tokens: dict[str, int], issue: Issue, budget: int
    ) -> list[str]:
        """The merged order; the verdicts' own when there is nothing to order or no order came."""
        paths = [verdict.path for verdict in verdicts]
        if len(paths) == 1:
            return paths
        rows = [
            {
                "path": v.path,
                "summary": v.summary,
                "tokens": tokens[v.path],
                "test": is_test(v.path),
            }
            for v in verdicts
        ]
        states = await together(
            self._order(rows, issue, budget, number) for number in range(self._options.rankings)
        )
        return merge([state.order for state in states]) or paths

    async def _order(
        self, rows: Sequence[Mapping[str, object]], issue: Issue, budget: int, number: int
    ) -> Ranked:
        machine = RankingMachine(self._solver, issue, rows, budget=budget, number=number)
        return await drive(machine, Ranked, self._store, f"context/ranking-{number}")
