"""Chooses the files of a codebase that the solver sees."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pipeline.codebase.commit import Codebase
from pipeline.concurrency import gather_all
from pipeline.context.files.sources import Sources
from pipeline.context.packing import FileBudget, fit_file, pack
from pipeline.context.ranking import RankingMachine, RankingState, merge
from pipeline.context.retrieval.mentions import find_named_files
from pipeline.context.retrieval.retrieve import (
    MOST_RANKED,
    ReadingList,
    Search,
    SearchResult,
    build_reading_list,
)
from pipeline.context.scan import OnScanProgress
from pipeline.context.scout import RelevanceVerdict, clip_issue
from pipeline.context.tokens import ESTIMATOR, TokenCounter, estimate_tokens
from pipeline.data.code_places import Context, Findings, ShownFile, SourceFile
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.machine import drive
from pipeline.models.base import Model
from pipeline.store import Store
from prompts.text import pluralize
from sandbox.frozen import Frozen, replace

CONTEXT_KEY = "context/files"
SECONDS_KEY = "context/seconds"

_TESTS = 4
"""If not all files can be ranked, at most one in this many is a test."""
_ISSUE_SHARE = 4
"""The divisor of the window that gives the issue's share of a ranking request."""
_SUMMARY = 1500
"""The most characters of a summary that a ranking request shows."""


class ContextSeconds(Frozen):
    seconds: float


@dataclass(frozen=True)
class _Ranking:
    order: list[str]
    invented: int = 0
    from_solver: bool = False
    listed: int = 0
    left_out: tuple[str, ...] = ()
    """The files that the solver was offered and left out."""
    unread: tuple[str, ...] = ()
    """Files that it named, and that are not read to choose among them."""


class ContextFinder:
    """Relevance by the scout (or by shared words without one), ranking by the solver, packing."""

    def __init__(
        self,
        *,
        solver: Model,
        scout: Model | None,
        store: Store,
        options: Options,
        on_progress: OnScanProgress | None = None,
        counter: TokenCounter = ESTIMATOR,
        scout_counter: TokenCounter = ESTIMATOR,
    ) -> None:
        self._solver = solver
        self._search = Search(scout, store, options, on_progress, scout_counter)
        self._store = store
        self._options = options
        self._counter = counter

    async def find(self, codebase: Codebase, issue: Issue) -> Context | None:
        """The context, saved under `context/files`; None when no file that fits is relevant.

        The duration is saved apart, under `context/seconds`: equal runs have equal contexts.

        Raises:
            ModelError: a model call failed.
            BudgetSpent: the ceiling is reached.
        """
        saved = await self._store.load(CONTEXT_KEY, Context)
        if saved:
            return saved
        began = time.monotonic()
        read = await build_reading_list(codebase, issue, self._options)
        found = await self._search.find(read, issue)
        if not found.verdicts:
            return None
        context = await self._build_context(read, found, issue)
        if not context.files:
            return None
        await self._store.save(SECONDS_KEY, ContextSeconds(seconds=time.monotonic() - began))
        await self._store.save(CONTEXT_KEY, context)
        return context

    async def _build_context(self, read: ReadingList, found: SearchResult, issue: Issue) -> Context:
        sources = read.sources
        tokens = {file.path: file.tokens for file in sources.files}
        tests = frozenset(file.path for file in sources.files if file.test)
        named = frozenset(find_named_files(issue, tokens))
        # Count exactly where the count decides what fits; elsewhere an estimate is enough.
        close = [*found.paths[:MOST_RANKED], *sorted(named)]
        tokens.update(await sources.count_tokens(close, self._counter))
        # The other half of the window is for the conversation and the replies.
        half = self._solver.profile.window // 2
        cap = min(self._options.context_cap, half)
        asked = min(self._options.context_tokens, cap)
        tree = sources.codebase.files
        ranking = await self._rank(found, tokens, tests, issue, tree, asked, cap)
        # Files in a stack trace are always shown, whatever the scout and the solver say.
        order = list(dict.fromkeys((*ranking.order, *sorted(named & set(found.paths)))))
        order += _unknown_that_fit(found, order, tokens, asked)
        budget = cap if ranking.from_solver else asked
        budgets, left = pack(order, tokens, budget, tests=tests, named=named)
        files = [
            await self._fit_file(sources, room, tokens[room.path], found, issue) for room in budgets
        ]
        ranked = frozenset(order)
        unranked = [path for path in found.paths if path not in ranked]
        return Context(
            files=tuple(files),
            dropped=(*left, *unranked),
            unneeded=tuple(path for path in ranking.left_out if path not in ranked),
            scanned=len(read.files),
            not_read=(
                *_explain_window(half, budget, left),
                *(f"{path}, which the ranking names, was not read." for path in ranking.unread),
                *read.explain_unread(),
            ),
            findings=_findings(sources, found, ranking, files),
        )

    async def _fit_file(
        self, sources: Sources, room: FileBudget, tokens: int, found: SearchResult, issue: Issue
    ) -> SourceFile:
        verdict = found.by_path.get(room.path)
        texts = (issue.title, issue.body, *issue.discussion, verdict.summary if verdict else "")
        lines = verdict.lines if verdict else ()
        file = replace(await sources.read(room.path), tokens=tokens)
        return await fit_file(file, room.tokens, about="\n".join(texts), lines=lines)

    async def _rank(
        self,
        found: SearchResult,
        tokens: Mapping[str, int],
        tests: frozenset[str],
        issue: Issue,
        tree: Collection[str],
        budget: int,
        cap: int,
    ) -> _Ranking:
        """The merged ranking, sources and tests apart; without a ranking, the verdicts' order."""
        verdicts = _files_to_rank(found, tests, self._solver.profile.window // 2)
        paths = [verdict.path for verdict in verdicts]
        if len(paths) == 1:
            return _Ranking(paths)
        rows = [
            {
                "path": v.path,
                "summary": v.summary,
                "tokens": tokens[v.path],
                "test": v.path in tests,
            }
            for v in verdicts
        ]
        short = clip_issue(issue, self._solver.profile.window // _ISSUE_SHARE)
        # Where every file fits, the order decides little.
        differ = not self._solver.profile.sampling and sum(tokens[path] for path in paths) > budget
        states = await gather_all(
            drive(
                RankingMachine(
                    self._solver,
                    short,
                    rows,
                    there=tokens,
                    tree=tree,
                    budget=budget,
                    cap=cap,
                    number=number,
                ),
                RankingState,
                self._store,
                f"context/ranking-{number}",
            )
            for number in range(self._options.rankings or (3 if differ else 1))
        )
        orders = [state.order for state in states]
        merged = [
            path
            for apart in (False, True)
            for path in merge([[p for p in order if (p in tests) == apart] for order in orders])
        ]
        invented = sum(state.invented for state in states)
        unread = tuple(dict.fromkeys(path for state in states for path in state.unread))[:5]
        if not merged:
            return _Ranking(paths, invented, listed=len(paths), unread=unread)
        taken = frozenset(merged)
        left_out = tuple(path for path in paths if path not in taken)
        listed = len(paths)
        return _Ranking(merged, invented, True, listed, left_out=left_out, unread=unread)


def _files_to_rank(found: SearchResult, tests: frozenset[str], room: int) -> list[RelevanceVerdict]:
    """What is ranked: as many as stay readable and fit into `room` tokens, sources before tests."""
    apart = [verdict for verdict in found.verdicts if verdict.path in tests]
    sources = [verdict for verdict in found.verdicts if verdict.path not in tests]
    kept = min(len(apart), MOST_RANKED // _TESTS)
    share = room - room // _TESTS if apart else room
    listed = _first_that_fit(sources, MOST_RANKED - kept, share)
    taken = sum(map(_row_tokens, listed))
    return listed + _first_that_fit(apart, MOST_RANKED - len(listed), room - taken)


def _first_that_fit(
    verdicts: Sequence[RelevanceVerdict], most: int, room: int
) -> list[RelevanceVerdict]:
    """The first files that fit; at least one if there is any."""
    filled = accumulate(map(_row_tokens, verdicts))
    fit = sum(tokens <= room for tokens in filled)
    return list(verdicts[: min(most, max(1, fit))])


def _row_tokens(verdict: RelevanceVerdict) -> int:
    # Tokens around a file's summary in a ranking request.
    return 30 + estimate_tokens(verdict.path) + estimate_tokens(verdict.summary[:_SUMMARY])


def _unknown_that_fit(
    found: SearchResult, order: Sequence[str], tokens: Mapping[str, int], budget: int
) -> list[str]:
    """Files without a verdict that fit beside `order`: they may matter.

    Empty if most files have no verdict: then the scout failed, and words have chosen.
    """
    unknown = [verdict.path for verdict in found.verdicts if verdict.answer == "unknown"]
    if len(unknown) > len(found.read) // 2:
        return []
    free = budget - sum(tokens[path] for path in order)
    fit: list[str] = []
    for path in unknown:
        if path not in order and tokens[path] <= free:
            fit.append(path)
            free -= tokens[path]
    return fit


def _explain_window(half: int, budget: int, left: Sequence[str]) -> tuple[str, ...]:
    """Whether files are missing because the model's window is small."""
    if budget < half or not left:
        return ()
    files = pluralize(len(left), "file")
    return (f"Half of the model's window, {half:,} tokens, had no room for {files} more.",)


def _findings(
    sources: Sources, found: SearchResult, ranking: _Ranking, files: Sequence[SourceFile]
) -> Findings:
    searched = sources.files if found.way == "words" else found.read
    return Findings(
        way=found.way,
        files=len(sources.files),
        read=len(found.read),
        read_tokens=sum(file.tokens for file in searched),
        unknown=sum(verdict.answer == "unknown" for verdict in found.verdicts),
        listed=ranking.listed,
        invented=ranking.invented,
        meaning=found.meaning,
        shown=tuple(
            ShownFile(
                path=file.path,
                tokens=file.tokens,
                partial=file.partial,
                why=found.by_path[file.path].summary[:400] if file.path in found.by_path else "",
            )
            for file in files
        ),
    )
