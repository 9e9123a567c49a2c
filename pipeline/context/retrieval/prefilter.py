"""Finds the files that have most in common with the issue: instead of a scout, or before it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, pstdev

from pipeline.codebase.text import pluralize
from pipeline.context.files.cache import ContentCache, run_with_cache
from pipeline.context.files.sources import Source, Sources
from pipeline.context.retrieval.bm25 import (
    Match,
    count_words,
    index_sources,
    is_telling,
    search_index,
    split_words,
)
from pipeline.context.retrieval.embeddings import EmbeddingRanker, compute_similarity
from pipeline.context.retrieval.mentions import find_mentions
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.models.base import EmbeddingFailed

_MOST_WORDS = 12
_NAMED = "The issue names this file."


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    score: float
    """By words; for files that were embedded, by words and meaning."""
    summary: str
    """What it has in common with the issue, as a sentence for the ranking request."""
    named: bool
    """The issue names it; see `Mentions`."""
    possible: bool = False
    """The issue may name it; see `Mentions`."""


@dataclass(frozen=True)
class PrefilterResult:
    kept: tuple[Hit, ...]
    """Best first. Files that the issue names come first; those that it may name are in it, too."""
    unread: tuple[str, ...]
    """The paths of the other files, best first."""
    meaning: str = ""
    """One sentence on the embedding model's part in the order; empty without one."""
    embedding_used: bool = False


def should_prefilter(options: Options, files: int) -> bool:
    """Whether to read only some files of a repository of this many source files."""
    match options.prefilter:
        case "always":
            return True
        case "never":
            return False
        case "auto":
            return files > options.prefilter_above


async def prefilter(
    sources: Sources,
    issue: Issue,
    keep: int,
    *,
    fill_up: bool = False,
    embedding_ranker: EmbeddingRanker | None = None,
) -> PrefilterResult:
    """The `keep` files that have most in common with the issue.

    BM25 over the words of texts, with definitions weighted, plus the words of paths. An
    `embedding_ranker` reorders the best of these by the sum of two z-scores: that of BM25 and that
    of their best part's similarity to the issue. If the embedding model fails, words alone decide.
    Returns fewer files if fewer have anything in common, unless `fill_up`.

    Raises:
        BudgetSpent: the embedding calls reach the ceiling.
    """

    async def work(cache: ContentCache) -> PrefilterResult:
        await index_sources(sources, cache)
        hits = await asyncio.to_thread(_rank_by_words, sources, issue, cache)
        worth = {hit.path for hit in hits if hit.score > 0}
        hits, note, joined = await _rerank(hits, sources, issue, embedding_ranker, cache)
        named = [hit for hit in hits if hit.named]
        rest = [hit for hit in hits if not hit.named]
        room = max(0, keep - len(named))
        fit = [
            hit
            for place, hit in enumerate(rest)
            if hit.possible or (place < room and (fill_up or hit.summary or hit.path in worth))
        ]
        kept = (*named, *fit)
        taken = {hit.path for hit in kept}
        unread = tuple(hit.path for hit in rest if hit.path not in taken)
        return PrefilterResult(kept, unread, note, joined)

    return await run_with_cache(sources.codebase.git_dir, work)


async def _rerank(
    hits: list[Hit],
    sources: Sources,
    issue: Issue,
    embedding_ranker: EmbeddingRanker | None,
    cache: ContentCache,
) -> tuple[list[Hit], str, bool]:
    """The hits ordered by words and meaning together, a sentence about it, and whether the
    embedding model was used."""
    some = [hit for hit in hits if not hit.named][
        : embedding_ranker.files if embedding_ranker else 0
    ]
    if embedding_ranker is None or not some:
        return hits, "", False
    title = embedding_ranker.embedder.title
    files = [sources.by_path[hit.path] for hit in some]
    try:
        near = await compute_similarity(sources, files, issue, embedding_ranker.embedder, cache)
    except EmbeddingFailed as why:
        note = f"The embedding model {title} was not used, as {why}: words alone decided."
        return hits, note, False
    by_words = _z_scores({hit.path: hit.score for hit in some})
    by_meaning = _z_scores(near)
    joined = [
        replace(
            hit,
            score=by_words[hit.path] + by_meaning[hit.path],
            summary=f"{hit.summary} A part of it is similar to the issue: {near[hit.path]:.2f} on "
            "a scale from 0 to 1.".lstrip(),
        )
        for hit in some
    ]
    joined.sort(key=lambda hit: (-hit.score, hit.path))
    named = [hit for hit in hits if hit.named]
    note = f"The embedding model {title} helped to order {pluralize(len(some), 'file')}."
    return [*named, *joined, *hits[len(named) + len(some) :]], note, True


def _z_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """z-scores: how many standard deviations above the mean."""
    if not scores:
        return {}
    mean, spread = fmean(scores.values()), pstdev(scores.values())
    return {path: (score - mean) / spread if spread else 0.0 for path, score in scores.items()}


def _rank_by_words(sources: Sources, issue: Issue, cache: ContentCache) -> list[Hit]:
    """All files ranked by words; those that the issue names come first."""
    wanted = count_words(issue)
    matches = search_index(cache, wanted)
    called = _path_scores(sources.files, wanted)
    mentions = find_mentions(issue, (file.path for file in sources.files))
    named, possible = dict.fromkeys(mentions.named, _NAMED), frozenset(mentions.possible)
    said = {**dict.fromkeys(possible, "The issue mentions a file of this name."), **named}
    none = Match()
    noise = {"test", "tests", "setup", *split_words(issue.repository.replace("_", " "))}
    spread = Counter(word for match in matches.values() for word in match.words)
    # What a quarter of many files say tells none of them apart.
    noise |= {word for word, held in spread.items() if held > max(10, len(sources.files) / 4)}
    hits = {
        file.path: Hit(
            path=file.path,
            score=(match := matches.get(file.blob, none)).score + called.get(file.path, 0),
            summary=_sentence(match.words, said.get(file.path, ""), noise),
            named=file.path in named,
            possible=file.path in possible,
        )
        for file in sources.files
    }
    rest = sorted((p for p in hits if p not in named), key=lambda p: (-hits[p].score, p))
    return [hits[path] for path in (*named, *rest)]


def _path_scores(files: Sequence[Source], wanted: Counter[str]) -> dict[str, float]:
    """The score of each path's words, on the scale of rare words in texts."""
    words = {
        file.path: set(split_words(file.path.replace("_", " "))) & wanted.keys() for file in files
    }
    spread = Counter(word for held in words.values() for word in held)
    worth = {
        # The weight of a word in a path, relative to one occurrence in a text.
        w: 2.0 * (1 + log(wanted[w])) * max(0.0, log(len(files) / n))
        for w, n in spread.items()
    }
    return {path: sum(worth[word] for word in held) for path, held in words.items() if held}


def _sentence(words: Sequence[str], said: str, noise: Collection[str]) -> str:
    """`noise`: words that say nothing in this repository, its own name among them."""
    telling = [word for word in words if is_telling(word) and word not in noise][:_MOST_WORDS]
    shared = f"It shares these words with the issue: {', '.join(telling)}." if telling else ""
    return f"{said} {shared}".strip()
