"""Which files the scout reads for one issue, and sentences on those it does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pipeline.codebase.commit import Codebase
from pipeline.context.files.discover import Rules, find_sources
from pipeline.context.files.sources import Source, Sources
from pipeline.context.search.embeddings import EmbeddingRanker
from pipeline.context.search.mentions import find_named_files
from pipeline.context.search.prefilter import prefilter, should_prefilter
from pipeline.options import Options
from pipeline.types import Issue

_MOST_MISSED = 5


@dataclass(frozen=True)
class ReadingList:
    sources: Sources
    files: tuple[Source, ...]
    """The files to read: all sources, or those that the prefilter kept, most promising first."""
    unread: tuple[str, ...]
    """The paths that the prefilter dropped."""
    missed: tuple[str, ...] = ()
    """Sentences on files that the issue names but that are left out. Untrusted."""
    meaning: str = ""
    """See `PrefilterResult.meaning`."""

    def explain_unread(self) -> tuple[str, ...]:
        """Sentences that say how many files were not read and why, the most frequent first."""
        counts = Counter(entry.why for entry in self.sources.skipped)
        sentences = [f"{_files_were(n)} not read: {why}." for why, n in counts.most_common()]
        if self.unread:
            share = "less in common with the issue than those that were read"
            sentences.insert(0, f"{_files_were(len(self.unread))} not read: {share}.")
        return (*self.missed, *sentences)


async def build_reading_list(
    codebase: Codebase,
    issue: Issue,
    options: Options,
    embedding_ranker: EmbeddingRanker | None = None,
) -> ReadingList:
    """What to read of `codebase` for `issue`, under the repository's options.

    Raises:
        GitFailed: the repository is damaged.
        BudgetSpent: the embedding calls reach the ceiling.
    """
    sources = await find_sources(codebase, Rules(options.include, options.exclude))
    missed = _explain_missed(sources, issue)
    if not should_prefilter(options, len(sources.files)):
        return ReadingList(sources, sources.files, (), missed)
    found = await prefilter(
        sources, issue, options.prefilter_keep, fill_up=True, embedding_ranker=embedding_ranker
    )
    files = tuple(sources.by_path[hit.path] for hit in found.kept)
    return ReadingList(sources, files, found.unread, missed, found.meaning)


def _explain_missed(sources: Sources, issue: Issue) -> tuple[str, ...]:
    out = {entry.path: entry.why for entry in sources.skipped}
    named = find_named_files(issue, [*sources.by_path, *out])
    missed = [path for path in named if path in out][:_MOST_MISSED]
    return tuple(f"{path}, which the issue names, was not read: {out[path]}." for path in missed)


def _files_were(count: int) -> str:
    return "1 file was" if count == 1 else f"{count} files were"
