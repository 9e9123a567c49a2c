"""A word index in the content cache, and BM25 over it.

SQLite's own BM25 gives no weight to words that half of the files contain, which in a small
repository are most words; so its FTS5 only counts, and we compute the sum with Lucene's IDF.
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
from pipeline.context.search.words import split_words
from pipeline.types import SourceFile

_DEFINED = re.compile(
    r"\b(?:def|class|func|function|fn|struct|interface|trait|enum|type|module|namespace|impl|sub|"
    r"proc|const|let|var|macro_rules!|#define)[ \t]+\*?(?:self\.)?(\w{3,80})"
)
_DEFINITION_WEIGHT = 4.0
"""The extra weight of a word in the name of something that the file defines."""
_K1, _B = 1.2, 0.75
"""BM25's usual constants: saturation of term frequency, and normalisation of length."""
_MOST_WORDS = 80
"""How many words of an issue are searched for: the most informative ones."""
_STALE = 4
"""The index is rebuilt when it holds this many times the contents that a search needs."""
_AT_ONCE = 400


@dataclass(slots=True)
class Match:
    score: float = 0.0
    """The BM25 score: higher is better."""
    words: list[str] = field(default_factory=list[str])
    """The issue's words that it contains, most informative first."""


async def index_sources(sources: Sources, cache: ContentCache) -> None:
    """Add missing contents to the index."""
    blobs = {file.blob: file for file in sources.files}
    missing = await asyncio.to_thread(_find_missing, cache, blobs)
    for chunk in batches([blobs[blob] for blob in missing]):
        files = [file async for file in sources.stream(chunk)]
        await asyncio.to_thread(_insert, cache, chunk, files)


def search_index(cache: ContentCache, wanted: Counter[str]) -> dict[str, Match]:
    """The match of each content that shares a word with the issue, by blob."""
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
    """How often each content has a word, with definitions weighted."""
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
    """The most informative words first: frequent in the issue, rare in the contents."""
    spread: dict[str, int] = {}
    words = list(wanted)
    for start in range(0, len(words), _AT_ONCE):
        some = words[start : start + _AT_ONCE]
        marks = ",".join("?" * len(some))
        question = f"SELECT term, doc FROM spread WHERE term IN ({marks})"  # noqa: S608 - marks only
        spread.update(cache.db.execute(question, some))
    worth = {w: (1 + log(wanted[w])) * log(1 + pages / n) for w, n in spread.items()}
    return sorted(worth, key=lambda word: (-worth[word], word))[:_MOST_WORDS]
