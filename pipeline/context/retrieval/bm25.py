"""A word index and BM25 over it.

SQLite's own BM25 gives no weight to words that half of the files contain, which in a small
repository are most words; so its FTS5 only counts, and we compute the sum with Lucene's IDF.
"""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log

from pipeline.context.files.cache import ContentCache
from pipeline.context.files.sources import Source, Sources, batches
from pipeline.data.code_places import SourceFile
from pipeline.data.types import Issue

_WORD = re.compile(r"[^\W\d]\w{2,79}")
_PART = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_COMMON = """
    the and for with not that this from are you have has was can when which should would will but
    issue bug error expected actual python version import class def self none true false return
    print code file line traceback most recent call last using use versions
"""
_IGNORED = frozenset(_COMMON.split())
_ENGLISH = """
    about actually after again all almost already also although always another any anyone anything
    aren because been before being below between both cannot com could couldn did didn does doesn
    doing don during each either else even ever every everything few first get gets getting given
    going got had hadn hasn haven having help hence her here him his how however into isn its itself
    just know least less like looks make makes many may maybe might more much must need needed needs
    neither never new next non nor nothing now off often once one only onto other others otherwise
    our ours out over own perhaps please possible probably put quite rather really run said same say
    says see seem seems set sets several shall she shouldn show since some someone something
    sometimes still such sure take than thank thanks their theirs them then there therefore these
    they thing things think those though through thus too took tried try trying two under unless
    until upon used uses usually very want wants wasn way well went were weren what whatever
    whenever where whether while who whole whom whose why within without won work works wouldn www
    yet your yours
"""
_UNTELLING = frozenset(_ENGLISH.split())
"""Words of every English text. They count, since some are names in code (`where`, `set`) and files
without any of them are rarely meant, but they explain nothing."""
_ADDRESS = re.compile(
    r"\b(?:https?|ftp|git|ssh)://[^\s/<>\"'`()\[\]]{1,300}(?P<rest>/[^\s<>\"'`()\[\]]{0,2000})?"
)
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp)\Z", re.IGNORECASE)
_ENDING = re.compile(r"\.(?:html?|php|aspx?|git)\b", re.IGNORECASE)
_FURNITURE = re.compile(
    r"/(?:blame|blob|commits?|compare|en|issues|latest|main|master|pulls?|raw|stable|tree|wiki)"
    r"(?=/|\Z)"
)
"""Folders of addresses that say where a page lies, not what it is about."""
_CALL_OF_GIT = re.compile(r"[$>#%\s]{0,20}git (?:clone|checkout|pull|fetch|switch|submodule)\b.*")
_PACKAGE = re.compile(
    r"[ \t>|*-]{0,8}[A-Za-z][\w.-]{0,80}(?:[ \t]{0,4}[=@<>~]=?=?[ \t]{0,4}|[ \t]{1,60})"
    r"v?\d[\w.+!-]{0,60}(?:[ \t]+[\w./:()-]{1,200}){0,3}"
)
"""A line of `pip list`, `pip freeze` or `conda list`."""
_LOG_LINES = 40
_TITLE = 2
"""The weight of a word in the title."""


def count_words(issue: Issue) -> Counter[str]:
    """The weight of each word of the issue."""
    text = _drop_pasted("\n".join((issue.body, *issue.discussion)))
    found = Counter(split_words(_strip_addresses(text)))
    for word in split_words(_strip_addresses(issue.title)):
        found[word] += _TITLE
    return Counter({word: n for word, n in found.items() if word not in _IGNORED})


def is_telling(word: str) -> bool:
    """Whether it explains anything that an issue and a file share this word."""
    return word not in _UNTELLING


def _strip_addresses(text: str) -> str:
    """`text` with only those words of its addresses that say what their pages are about."""
    return _ADDRESS.sub(_read_address, text)


def _read_address(found: re.Match[str]) -> str:
    rest = found["rest"] or ""
    return " " if _PICTURE.search(rest) else _FURNITURE.sub(" ", _ENDING.sub(" ", rest))


def _drop_pasted(text: str) -> str:
    """`text` without lists of installed packages, calls of git and the middle of long logs."""
    kept: list[str] = []
    run: list[str] = []
    for line in (*text.split("\n"), ""):
        if _CALL_OF_GIT.fullmatch(line):
            continue
        if _PACKAGE.fullmatch(line.rstrip()):
            run.append(line)
            continue
        # More such lines in a row list what is installed, which says nothing about the code.
        kept += [*(run if len(run) < 5 else ()), line]
        run = []
    return "\n".join(_cut_logs(kept))


def _cut_logs(lines: list[str]) -> Iterator[str]:
    """The first and the last lines of a long fenced block: the error is at an end."""
    block: list[str] | None = None
    for line in lines:
        fence = line.lstrip().startswith(("```", "~~~"))
        if block is None:
            block = [] if fence else None
            yield line
        elif fence:
            yield from _cut_block(block)
            yield line
            block = None
        else:
            block.append(line)
    yield from _cut_block(block or [])


def _cut_block(block: list[str]) -> list[str]:
    return block if len(block) <= 2 * _LOG_LINES else block[:_LOG_LINES] + block[-_LOG_LINES:]


def split_words(text: str) -> Iterator[str]:
    """Identifiers and words in lower case, and the parts of compound ones."""
    for word in _WORD.findall(text):
        yield word.lower()
        parts = _PART.findall(word)
        if len(parts) > 1:
            for part in parts:
                yield part.lower()


_DEFINED = re.compile(
    r"\b(?:def|class|func|function|fn|struct|interface|trait|enum|type|module|namespace|impl|sub|"
    r"proc|const|let|var|macro_rules!|#define)[ \t]+\*?(?:self\.)?(\w{3,80})"
)
_K1, _B = 1.2, 0.75
"""BM25's usual constants: saturation of term frequency, and normalisation of length."""
_MOST_WORDS = 80
"""How many words of an issue are searched for: the most informative ones."""
_AT_ONCE = 400


@dataclass(slots=True)
class Match:
    score: float = 0.0
    words: list[str] = field(default_factory=list[str])
    """The issue's words that it contains, most informative first."""


async def index_sources(sources: Sources, cache: ContentCache) -> None:
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
        # The extra weight of a word in the name of something that the file defines.
        counts[page] += n * (4.0 if column == "defined" else 1)
    return counts


def _find_missing(cache: ContentCache, blobs: dict[str, Source]) -> list[str]:
    there: set[str] = {blob for (blob,) in cache.db.execute("SELECT blob FROM page")}
    # The index is rebuilt when it holds this many times the contents that a search needs.
    if len(there) > 4 * len(blobs) + _AT_ONCE:
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
