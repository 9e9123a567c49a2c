"""Which files are worth ranking: by the scout, by shared words, or by both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pipeline.context.files.sources import Source, Sources
from pipeline.context.relevance.reader import Verdict
from pipeline.context.relevance.scan import Counted, scan
from pipeline.context.search.embeddings import Meaning
from pipeline.context.search.mentions import named_files
from pipeline.context.search.prefilter import prefilter
from pipeline.context.search.reading_list import Reading
from pipeline.context.tokens import ESTIMATE, TokenCounter
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.store import Store
from pipeline.types import Issue

NONE_RELEVANT = (
    "It took none to be relevant: those that share most words with the issue were ranked instead."
)
MOST_RANKED = 200
"""How many files are put before the solver for ranking, so that the question stays readable."""
_SHORTLISTED = 40
"""How many files are ranked when no scout has read them."""


@dataclass(frozen=True)
class Found:
    verdicts: tuple[Verdict, ...]
    """What is worth ranking: named files first, the relevant, then what could not be judged."""
    way: Literal["scout", "words, then scout", "words"]
    read: tuple[Source, ...]
    """What the scout was asked about."""
    meaning: str = ""
    """See `Prefiltered.meaning`; before it, that no file was relevant to the scout."""

    @cached_property
    def by_path(self) -> dict[str, Verdict]:
        return {verdict.path: verdict for verdict in self.verdicts}

    @property
    def paths(self) -> list[str]:
        return [verdict.path for verdict in self.verdicts]


class Search:
    def __init__(
        self,
        scout: Model | None,
        store: Store,
        options: Options,
        counted: Counted | None,
        *,
        counter: TokenCounter = ESTIMATE,
        meaning: Meaning | None = None,
    ) -> None:
        """`counter` counts as the scout does."""
        self._scout = scout
        self._store = store
        self._options = options
        self._counted = counted
        self._counter = counter
        self._meaning = meaning

    async def found(self, reading: Reading, issue: Issue) -> Found:
        """Raises as `scan` does."""
        sources = reading.sources
        if self._scout is None:
            found, said = await self._by_words(sources, issue)
            return Found(found, "words", (), said)
        verdicts = await scan(
            sources,
            reading.files,
            issue,
            scout=self._scout,
            store=self._store,
            threshold=self._options.scout_threshold,
            counted=self._counted,
            counter=self._counter,
        )
        named = set(named_files(issue, (file.path for file in sources.files)))
        worth = [v for v in verdicts if v.answer == "relevant" or v.path in named]
        said = reading.meaning
        if not worth:
            # A scout that finds nothing at all is more likely wrong than right.
            by_words, more = await self._by_words(sources, issue)
            worth, said = list(by_words), f"{NONE_RELEVANT} {more}".rstrip()
        listed = {verdict.path for verdict in worth}
        worth += [v for v in verdicts if v.answer == "unknown" and v.path not in listed]
        if len(worth) > MOST_RANKED and not reading.unread:
            said = await self._sort(worth, sources, issue)
        worth.sort(key=lambda v: (v.path not in named, v.answer == "unknown", _test(sources, v)))
        way = "words, then scout" if reading.unread else "scout"
        return Found(tuple(worth), way, reading.files, said)

    async def _by_words(self, sources: Sources, issue: Issue) -> tuple[tuple[Verdict, ...], str]:
        found = await prefilter(sources, issue, _SHORTLISTED, meaning=self._meaning)
        worth = [Verdict(path=h.path, answer="relevant", summary=h.summary) for h in found.kept]
        return tuple(sorted(worth, key=lambda verdict: _test(sources, verdict))), found.meaning

    async def _sort(self, worth: list[Verdict], sources: Sources, issue: Issue) -> str:
        """Most in common with the issue first: not all of them can be ranked."""
        every = len(sources.files)
        found = await prefilter(sources, issue, every, strangers=True, meaning=self._meaning)
        place = {hit.path: at for at, hit in enumerate(found.kept)}
        worth.sort(key=lambda verdict: place[verdict.path])
        return found.meaning


def _test(sources: Sources, verdict: Verdict) -> bool:
    return sources.by_path[verdict.path].test
