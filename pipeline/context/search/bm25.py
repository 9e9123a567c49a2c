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

from pipeline.context.files.cache import Shelf
from pipeline.context.files.sources import Source, Sources, chunks
from pipeline.context.search.mentions import split
from pipeline.types import SourceFile

_DEFINED = re.compile(
    r"\b(?:def|class|func|function|fn|struct|interface|trait|enum|type|module|namespace|impl|sub|"
    r"proc|const|let|var|macro_rules!|#define)[ \t]+\*?(?:self\.)?(\w{3,80})"
)
_DEFINES = 4.0
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


async def indexed(sources: Sources, shelf: Shelf) -> None:
    """Put the contents into the index that it does not hold."""
    blobs = {file.blob: file for file in sources.files}
    missing = await asyncio.to_thread(_missing, shelf, blobs)
    for chunk in chunks([blobs[blob] for blob in missing]):
        files = [file async for file in sources.stream(chunk)]
        await asyncio.to_thread(_put, shelf, chunk, files)


def search(shelf: Shelf, wanted: Counter[str]) -> dict[str, Match]:
    """The match of each content that shares a word, by blob."""
    pages: dict[int, tuple[str, int]] = {
        page: (blob, size) for page, blob, size in shelf.db.execute("SELECT * FROM page")
    }
    mean = sum(size for _, size in pages.values()) / max(1, len(pages)) or 1
    found: defaultdict[int, Match] = defaultdict(Match)
    for word in _telling(shelf, wanted, len(pages)):
        counts = _counts(shelf, word)
        rarity = log(1 + (len(pages) - len(counts) + 0.5) / (len(counts) + 0.5))
        worth = rarity * (1 + log(wanted[word])) * (_K1 + 1)
        for page, n in counts.items():
            match = found[page]
            match.score += worth * n / (n + _K1 * (1 - _B + _B * pages[page][1] / mean))
            match.words.append(word)
    return {pages[page][0]: match for page, match in found.items()}


def _counts(shelf: Shelf, word: str) -> dict[int, float]:
    """How often each page holds a word, its definitions counted the more."""
    counts: defaultdict[int, float] = defaultdict(float)
    question = "SELECT doc, col, count(*) FROM place WHERE term = ? GROUP BY doc, col"
    for page, column, n in shelf.db.execute(question, (word,)):
        counts[page] += n * (_DEFINES if column == "defined" else 1)
    return counts


def _missing(shelf: Shelf, blobs: dict[str, Source]) -> list[str]:
    there: set[str] = {blob for (blob,) in shelf.db.execute("SELECT blob FROM page")}
    if len(there) > _STALE * len(blobs) + _AT_ONCE:
        with shelf.db:
            shelf.db.execute("INSERT INTO word(word) VALUES ('delete-all')")
            shelf.db.execute("DELETE FROM page")
        there = set()
    return [blob for blob in blobs if blob not in there]


def _put(shelf: Shelf, chunk: Sequence[Source], files: Sequence[SourceFile]) -> None:
    with shelf.db:
        for source, file in zip(chunk, files, strict=True):
            held = list(split(file.text))
            new = shelf.db.execute(
                "INSERT OR IGNORE INTO page(blob, size) VALUES (?, ?)", (source.blob, len(held))
            )
            if not new.rowcount:  # another process was first
                continue
            defined = " ".join(split(" ".join(_DEFINED.findall(file.text))))
            shelf.db.execute(
                "INSERT INTO word(rowid, defined, held) VALUES (?, ?, ?)",
                (new.lastrowid, defined, " ".join(held)),
            )


def _telling(shelf: Shelf, wanted: Counter[str], pages: int) -> list[str]:
    """The words that say most: often in the issue, in few contents. The most telling first."""
    spread: dict[str, int] = {}
    words = list(wanted)
    for start in range(0, len(words), _AT_ONCE):
        some = words[start : start + _AT_ONCE]
        marks = ",".join("?" * len(some))
        question = f"SELECT term, doc FROM spread WHERE term IN ({marks})"  # noqa: S608 - marks only
        spread.update(shelf.db.execute(question, some))
    worth = {w: (1 + log(wanted[w])) * log(1 + pages / n) for w, n in spread.items()}
    return sorted(worth, key=lambda word: (-worth[word], word))[:_MOST_WORDS]
