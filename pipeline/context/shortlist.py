"""Which files share words with the issue: in place of a scout, so that one model suffices."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from pipeline.context.relevance import Verdict
from pipeline.types import Issue, SourceFile

LENGTH = 40
"""How many files are put before the solver for ranking."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
_PATH = re.compile(r"[\w./\\-]{1,200}\.\w{1,5}\b")
_DEFINED = re.compile(r"^[ \t]*(?:async )?(?:def|class) +(\w+)", re.MULTILINE)
_COMMON = """
    the and for with not that this from are you have has was can when which should would will but
    issue bug error expected actual python version import class def self none true false return
    print code file line traceback most recent call last using use versions
"""
_IGNORED = frozenset(_COMMON.split())
_NAMED, _DEFINES, _CALLED = 20.0, 4.0, 2.0
"""Weights: the issue names the file's path; a word is defined in it; a word is its name."""


def shortlist(files: Sequence[SourceFile], issue: Issue) -> list[Verdict]:
    """The files with the most in common with the issue, best first; none that share nothing.

    A path in the issue (a stack trace's, say) counts most, then names that a file defines; a word
    counts the more, the fewer files hold it.
    """
    text = "\n".join((issue.title, issue.title, issue.body, *issue.discussion))
    wanted = Counter(word for word in _words(text) if word not in _IGNORED)
    mentioned = {path.replace("\\", "/").lstrip("./") for path in _PATH.findall(text)}
    held = {file.path: Counter(w for w in _words(file.text) if w in wanted) for file in files}
    spread = Counter(word for words in held.values() for word in words)
    rarity = {word: math.log(1 + len(files) / n) for word, n in spread.items()}
    scored: list[tuple[float, str, Verdict]] = []
    for file in files:
        score, shared = _score(file, held[file.path], wanted, rarity)
        named = any(_same(file.path, path) for path in mentioned)
        score += _NAMED * named
        if score > 0:
            summary = _summary(shared, named)
            verdict = Verdict(path=file.path, answer="relevant", summary=summary)
            scored.append((-score, file.path, verdict))
    return [verdict for _, _, verdict in sorted(scored, key=lambda s: s[:2])[:LENGTH]]


def _score(
    file: SourceFile, words: Counter[str], wanted: Counter[str], rarity: dict[str, float]
) -> tuple[float, list[str]]:
    defined = {name.lower() for name in _DEFINED.findall(file.text)}
    called = set(_words(file.path))
    weights = {
        word: rarity[word]
        * (1 + math.log(1 + wanted[word]))
        * (1 + _DEFINES * (word in defined) + _CALLED * (word in called))
        for word in words
    }
    shared = sorted(weights, key=lambda word: (-weights[word], word))
    # A long file holds many words by chance.
    return sum(weights.values()) / math.log(20 + len(file.text) / 200, 20), shared


def _words(text: str) -> list[str]:
    """Identifiers in lower case, and the parts of those made of several words."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found.append(word.lower())
        parts = re.findall(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}", word)
        if len(parts) > 1:
            found += [part.lower() for part in parts]
    return found


def _same(path: str, mentioned: str) -> bool:
    """Whether a path in the issue may mean this file; installed files have other beginnings."""
    if path == mentioned or path.endswith(f"/{mentioned}") or mentioned.endswith(f"/{path}"):
        return True
    tail = mentioned.split("/")[-2:]
    return len(tail) == 2 and path.endswith("/".join(tail))


def _summary(shared: Sequence[str], named: bool) -> str:
    words = ", ".join(shared[:12])
    first = "The issue names this file. " if named else ""
    return f"{first}It shares these words with the issue: {words}." if words else first.strip()
