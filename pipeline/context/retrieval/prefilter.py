"""Finds the files that have most in common with the issue: instead of a scout, or before it."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log

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
from pipeline.context.retrieval.mentions import find_mentions
from pipeline.data.options import Options
from pipeline.data.types import Issue

_MOST_WORDS = 6
_NAMED = "The issue names this file."


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    score: float
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
    sources: Sources, issue: Issue, keep: int, *, fill_up: bool = False
) -> PrefilterResult:
    """The `keep` files that have most in common with the issue.

    BM25 over the words of texts, with definitions weighted, plus the words of paths. Returns fewer
    files if fewer have anything in common, unless `fill_up`.
    """

    async def work(cache: ContentCache) -> PrefilterResult:
        await index_sources(sources, cache)
        hits = await asyncio.to_thread(_rank_by_words, sources, issue, cache)
        worth = {hit.path for hit in hits if hit.score > 0}
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
        return PrefilterResult(kept, unread)

    return await run_with_cache(sources.codebase.git_dir, work)


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
    shared = f"It shares with the issue: {', '.join(telling)}." if telling else ""
    return f"{said} {shared}".strip()
