"""A word index of contents on the shelf, and BM25 over it.

SQLite's own BM25 takes a word that half of the contents hold for worthless, which in a small
repository most are; so its FTS5 only counts, and the sum is made here, with Lucene's rarity.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log

from pipeline.context.files.cache import ContentCache
from pipeline.context.files.sources import Source, Sources, batches
from pipeline.context.search.mentions import split_words
from pipeline.types import SourceFile

_DEFINED = re.compile(
    r"\b(?:def|class|func|function|fn|struct|interface|trait|enum|type|module|namespace|impl|sub|"
    r"proc|const|let|var|macro_rules!|#define)[ \t]+\*?(?:self\.)?(\w{3,80})"
)
_DEFINITION_WEIGHT = 4.0
"""How much more a word counts in the name of something that the file defines."""
_K1, _B = 1.2, 0.75
"""The usual constants: how soon more of a word says no more, how much a long text is held down."""
_MOST_WORDS = 80
"""Words of an issue that are looked for: those that say most."""
_STALE = 4
"""The index is made anew when it holds so many times what is asked for."""
_AT_ONCE = 400


@dataclass(slots=True)
class Match:
    score: float = 0.0
    """BM25: the more, the better."""
    words: list[str] = field(default_factory=list[str])
    """Those of the issue that it holds, the most telling first."""


async def index_sources(sources: Sources, cache: ContentCache) -> None:
    """Put the contents into the index that it does not hold."""
    blobs = {file.blob: file for file in sources.files}
    missing = await asyncio.to_thread(_find_missing, cache, blobs)
    for chunk in batches([blobs[blob] for blob in missing]):
        files = [file async for file in sources.stream(chunk)]
        await asyncio.to_thread(_insert, cache, chunk, files)


def search_index(cache: ContentCache, wanted: Counter[str]) -> dict[str, Match]:
    """The match of each content that shares a word, by blob."""
    pages: dict[int, tuple[str, int]] = {
        page: (blob, size) for page, blob, size in cache.db.execute("SELECT * FROM page")
    }
    mean = sum(size for _, size in pages.values()) / max(1, len(pages)) or 1
    found: defaultdict[int, Match] = defaultdict(Match)
    for word in _informative_words(cache, wanted, len(pages)):
        counts = _counts(cache, word)
        rarity = log(1 + (len(pages) - len(counts) + 0.5) / (len(counts) + 0.5))
        worth = rarity * (1 + log(wanted[word])) * (_K1 + 1)
        for page, n in counts.items():
            match = found[page]
            match.score += worth * n / (n + _K1 * (1 - _B + _B * pages[page][1] / mean))
            match.words.append(word)
    return {pages[page][0]: match for page, match in found.items()}


def _counts(cache: ContentCache, word: str) -> dict[int, float]:
    """How often each page holds a word, its definitions counted the more."""
    counts: defaultdict[int, float] = defaultdict(float)
    question = "SELECT doc, col, count(*) FROM place WHERE term = ? GROUP BY doc, col"
    for page, column, n in cache.db.execute(question, (word,)):
        counts[page] += n * (_DEFINITION_WEIGHT if column == "defined" else 1)
    return counts


def _find_missing(cache: ContentCache, blobs: dict[str, Source]) -> list[str]:
    there: set[str] = {blob for (blob,) in cache.db.execute("SELECT blob FROM page")}
    if len(there) > _STALE * len(blobs) + _AT_ONCE:
        with cache.db:
            cache.db.execute("INSERT INTO word(word) VALUES ('delete-all')")
            cache.db.execute("DELETE FROM page")
        there = set()
    return [blob for blob in blobs if blob not in there]


def _insert(cache: ContentCache, chunk: Sequence[Source], files: Sequence[SourceFile]) -> None:
    with cache.db:
        for source, file in zip(chunk, files, strict=True):
            held = list(split_words(file.text))
            new = cache.db.execute(
                "INSERT OR IGNORE INTO page(blob, size) VALUES (?, ?)", (source.blob, len(held))
            )
            if not new.rowcount:  # another process was first
                continue
            defined = " ".join(split_words(" ".join(_DEFINED.findall(file.text))))
            cache.db.execute(
                "INSERT INTO word(rowid, defined, held) VALUES (?, ?, ?)",
                (new.lastrowid, defined, " ".join(held)),
            )


def _informative_words(cache: ContentCache, wanted: Counter[str], pages: int) -> list[str]:
    """The words that say most: often in the issue, in few contents. The most telling first."""
    spread: dict[str, int] = {}
    words = list(wanted)
    for start in range(0, len(words), _AT_ONCE):
        some = words[start : start + _AT_ONCE]
        marks = ",".join("?" * len(some))
        question = f"SELECT term, doc FROM spread WHERE term IN ({marks})"  # noqa: S608 - marks only
        spread.update(cache.db.execute(question, some))
    worth = {w: (1 + log(wanted[w])) * log(1 + pages / n) for w, n in spread.items()}
    return sorted(worth, key=lambda word: (-worth[word], word))[:_MOST_WORDS]
