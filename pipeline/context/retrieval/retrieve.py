"""The files worth ranking: by scout, by words, or both."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pipeline.codebase.commit import Codebase
from pipeline.context.files.sources import Source, Sources, find_sources
from pipeline.context.retrieval.mentions import find_named_files
from pipeline.context.retrieval.prefilter import prefilter, should_prefilter
from pipeline.context.scan import OnScanProgress, scan
from pipeline.context.scout import RelevanceVerdict
from pipeline.context.tokens import ESTIMATOR, TokenCounter
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.models.base import Model
from pipeline.store import Store


@dataclass(frozen=True)
class ReadingList:
    sources: Sources
    files: tuple[Source, ...]
    """The files to read: all sources, or those that the prefilter kept, most promising first."""
    unread: tuple[str, ...]
    missed: tuple[str, ...] = ()
    """Sentences on files that the issue names but that are left out. Untrusted."""

    def explain_unread(self) -> tuple[str, ...]:
        """Sentences that say how many files were not read and why, the most frequent first."""
        counts = Counter(entry.why for entry in self.sources.skipped)
        sentences = [
            f"{_files_were(n)} not read to choose among them: {why}."
            for why, n in counts.most_common()
        ]
        if self.unread:
            share = "less in common with the issue than those that were read"
            sentences.insert(0, f"{_files_were(len(self.unread))} not read: {share}.")
        return (*self.missed, *sentences)


async def build_reading_list(codebase: Codebase, issue: Issue, options: Options) -> ReadingList:
    """What to read of `codebase` for `issue`, under the repository's options.

    Raises:
        GitFailed: the repository is damaged.
    """
    sources = await find_sources(codebase, options.exclude)
    if "other files" in options.without:
        sources = sources.keep_code()
    missed = _explain_missed(sources, issue)
    if not should_prefilter(options, len(sources.files)):
        return ReadingList(sources, sources.files, (), missed)
    found = await prefilter(sources, issue, options.prefilter_keep, fill_up=True)
    files = tuple(sources.by_path[hit.path] for hit in found.kept)
    return ReadingList(sources, files, found.unread, missed)


def _explain_missed(sources: Sources, issue: Issue) -> tuple[str, ...]:
    out = {entry.path: entry.why for entry in sources.skipped}
    named = find_named_files(issue, [*sources.by_path, *out])
    missed = [path for path in named if path in out][:5]
    return tuple(f"{path}, which the issue names, was not read: {out[path]}." for path in missed)


def _files_were(count: int) -> str:
    return "1 file was" if count == 1 else f"{count} files were"


NONE_RELEVANT = (
    "It found none relevant: those that share most words with the issue were ranked instead."
)
MOST_RANKED = 200
"""The most files in one ranking request, so that it stays readable."""
_BY_WORDS, _TESTS_BY_WORDS = 75, 25
"""The most files, and test files, that are ranked where only shared words say that they matter."""


@dataclass(frozen=True)
class SearchResult:
    verdicts: tuple[RelevanceVerdict, ...]
    """The files worth ranking: named ones, then relevant ones, then those without a verdict."""
    way: Literal["scout", "words, then scout", "words"]
    read: tuple[Source, ...]
    """The files that the scout was asked about."""
    meaning: str = ""
    """That no file was relevant to the scout; else empty."""

    @cached_property
    def by_path(self) -> dict[str, RelevanceVerdict]:
        return {verdict.path: verdict for verdict in self.verdicts}

    @property
    def paths(self) -> list[str]:
        return [verdict.path for verdict in self.verdicts]


@dataclass(frozen=True)
class Search:
    """Finds the files worth ranking by the scout, or by words without one."""

    scout: Model | None
    store: Store
    options: Options
    on_progress: OnScanProgress | None = None
    scout_counter: TokenCounter = ESTIMATOR

    async def find(self, reading_list: ReadingList, issue: Issue) -> SearchResult:
        """Find the files worth ranking.

        Raises:
            ModelError: the scout failed. BudgetSpent: the ceiling is reached."""
        sources = reading_list.sources
        if self.scout is None:
            return SearchResult(await self._search_by_words(sources, issue), "words", ())
        verdicts = await scan(
            sources,
            reading_list.files,
            issue,
            scout=self.scout,
            store=self.store,
            on_progress=self.on_progress,
            counter=self.scout_counter,
        )
        named = set(find_named_files(issue, (file.path for file in sources.files)))
        worth = [v for v in verdicts if v.answer == "relevant" or v.path in named]
        note = ""
        if not worth:
            # A scout that finds nothing at all is probably wrong.
            worth, note = list(await self._search_by_words(sources, issue)), NONE_RELEVANT
        listed = {verdict.path for verdict in worth}
        worth += [v for v in verdicts if v.answer == "unknown" and v.path not in listed]
        if len(worth) > MOST_RANKED and not reading_list.unread:
            await self._sort(worth, sources, issue)
        by_path = sources.by_path
        worth.sort(key=lambda v: (v.path not in named, v.answer == "unknown", by_path[v.path].test))
        way = "words, then scout" if reading_list.unread else "scout"
        return SearchResult(tuple(worth), way, reading_list.files, note)

    async def _search_by_words(
        self, sources: Sources, issue: Issue
    ) -> tuple[RelevanceVerdict, ...]:
        found = await prefilter(sources, issue, MOST_RANKED)
        tests = [hit for hit in found.kept if sources.by_path[hit.path].test]
        rest = [hit for hit in found.kept if not sources.by_path[hit.path].test]
        worth = [
            hit
            for hits, most in ((rest, _BY_WORDS), (tests, _TESTS_BY_WORDS))
            for at, hit in enumerate(hits)
            if at < most or hit.possible
        ]
        return tuple(
            RelevanceVerdict(path=h.path, answer="relevant", summary=h.summary) for h in worth
        )

    async def _sort(self, worth: list[RelevanceVerdict], sources: Sources, issue: Issue) -> None:
        """Sort by what they share with the issue, since not all of them can be ranked."""
        found = await prefilter(sources, issue, len(sources.files), fill_up=True)
        place = {hit.path: at for at, hit in enumerate(found.kept)}
        worth.sort(key=lambda verdict: place[verdict.path])
