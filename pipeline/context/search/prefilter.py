"""Which files have the most in common with the issue: in place of a scout, or before it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, pstdev

from pipeline.context.files.cache import Shelf, on_shelf
from pipeline.context.files.sources import Source, Sources
from pipeline.context.search.bm25 import Match, indexed, search
from pipeline.context.search.embeddings import Meaning, likeness
from pipeline.context.search.mentions import named_files, split, words_of
from pipeline.models.embedding import NotEmbedded
from pipeline.options import Options
from pipeline.types import Issue

_CALLED = 2.0
"""How much more a word counts in a path than once in a text."""
_SAID = 12
_ALIKE = "A part of it is like the issue by {:.2f}, on a scale from 0 to 1."


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    score: float
    """By words; of those that an embedding model was asked about, by words and meaning."""
    summary: str
    """What it has in common with the issue, in a sentence for the ranking."""
    named: bool
    """The issue names it; see `named_files`."""


@dataclass(frozen=True)
class Prefiltered:
    kept: tuple[Hit, ...]
    """Best first; those that the issue names come before all others, and are always in it."""
    unread: tuple[str, ...]
    """The paths of the other files, in the order of their worth."""
    meaning: str = ""
    """What an embedding model had to do with the order, in a sentence; empty without one."""
    joined: bool = False
    """Whether it had its say."""


def needed(options: Options, files: int) -> bool:
    """Whether a repository of so many source files is read in part only."""
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
    strangers: bool = False,
    meaning: Meaning | None = None,
) -> Prefiltered:
    """The `keep` files with the most in common with the issue.

    BM25 over the words of texts and, counted the more, of what they define; plus the words of
    their paths. With a `meaning`, the first so many by that are put in order anew, by the sum
    of the z-scores of it and of their best part's likeness to the issue; when the embedding model
    fails, words alone decide. Fewer when fewer have anything in common, unless `strangers` may
    fill up.

    Raises:
        BudgetSpent: by what the embedding model costs.
    """

    async def work(shelf: Shelf) -> Prefiltered:
        await indexed(sources, shelf)
        hits = await asyncio.to_thread(_ordered, sources, issue, shelf)
        worth = {hit.path for hit in hits if hit.score > 0}
        hits, said, joined = await _joined(hits, sources, issue, meaning, shelf)
        named = [hit for hit in hits if hit.named]
        rest = [hit for hit in hits if not hit.named]
        room = max(0, keep - len(named))
        fit = [hit for hit in rest[:room] if strangers or hit.summary or hit.path in worth]
        unread = tuple(hit.path for hit in rest[len(fit) :])
        return Prefiltered((*named, *fit), unread, said, joined)

    return await on_shelf(sources.codebase.git_dir, work)


async def _joined(
    hits: list[Hit], sources: Sources, issue: Issue, meaning: Meaning | None, shelf: Shelf
) -> tuple[list[Hit], str, bool]:
    """The hits in the order that words and meaning give together, a sentence on it, and whether
    meaning had its say."""
    some = [hit for hit in hits if not hit.named][: meaning.files if meaning else 0]
    if meaning is None or not some:
        return hits, "", False
    title = meaning.embedder.title
    files = [sources.by_path[hit.path] for hit in some]
    try:
        near = await likeness(sources, files, issue, meaning.embedder, shelf)
    except NotEmbedded as why:
        said = f"The embedding model {title} was not used, as {why}: words alone decided."
        return hits, said, False
    by_words = _standard({hit.path: hit.score for hit in some})
    by_meaning = _standard(near)
    joined = [
        replace(
            hit,
            score=by_words[hit.path] + by_meaning[hit.path],
            summary=f"{hit.summary} {_ALIKE.format(near[hit.path])}".strip(),
        )
        for hit in some
    ]
    joined.sort(key=lambda hit: (-hit.score, hit.path))
    named = [hit for hit in hits if hit.named]
    said = f"The embedding model {title} had a say in the order of {len(some)} files."
    return [*named, *joined, *hits[len(named) + len(some) :]], said, True


def _standard(scores: Mapping[str, float]) -> dict[str, float]:
    """z-scores: how many standard deviations above the mean."""
    if not scores:
        return {}
    mean, spread = fmean(scores.values()), pstdev(scores.values())
    return {path: (score - mean) / spread if spread else 0.0 for path, score in scores.items()}


def _ordered(sources: Sources, issue: Issue, shelf: Shelf) -> list[Hit]:
    """All files by their words; those that the issue names before all others."""
    wanted = words_of(issue)
    matches = search(shelf, wanted)
    called = _called(sources.files, wanted)
    named = dict.fromkeys(named_files(issue, (file.path for file in sources.files)))
    none = Match()
    hits = {
        file.path: Hit(
            path=file.path,
            score=(match := matches.get(file.blob, none)).score + called.get(file.path, 0),
            summary=_sentence(match.words[:_SAID], file.path in named),
            named=file.path in named,
        )
        for file in sources.files
    }
    rest = sorted((p for p in hits if p not in named), key=lambda p: (-hits[p].score, p))
    return [hits[path] for path in (*named, *rest)]


def _called(files: Sequence[Source], wanted: Counter[str]) -> dict[str, float]:
    """What the words of each path are worth, as a rare word in a text is."""
    words = {file.path: set(split(file.path.replace("_", " "))) & wanted.keys() for file in files}
    spread = Counter(word for held in words.values() for word in held)
    worth = {
        w: _CALLED * (1 + log(wanted[w])) * max(0.0, log(len(files) / n)) for w, n in spread.items()
    }
    return {path: sum(worth[word] for word in held) for path, held in words.items() if held}


def _sentence(words: Sequence[str], named: bool) -> str:
    first = "The issue names this file. " if named else ""
    told = f"It shares these words with the issue: {', '.join(words)}." if words else ""
    return f"{first}{told}".strip()
