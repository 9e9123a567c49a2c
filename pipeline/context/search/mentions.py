"""What an issue names: the files of stack traces and of its text, and the words it uses."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from pipeline.types import Issue

_LONGEST = 200
_PATH = re.compile(
    rf"\"(?P<quoted>[^\"\n]{{1,{_LONGEST}}}\.\w{{1,12}})\""
    rf"|(?P<plain>[\w./\\@+-]{{1,{_LONGEST}}}\.\w{{1,12}})\b"
)
_FRAME_OF_JVM = re.compile(r"\bat ([\w.$]{1,200})\.[\w$<>]{1,100}\((\w{1,100}\.\w{1,12}):\d")
_ROOTS = frozenset({"src", "lib", "app", "source", "python"})
"""Folders that an installed or copied tree loses from the front of its paths."""
_MOST_ALIKE = 5
"""A bare file name that more files have than this names none of them."""
_MOST_NAMES = 2000
"""A longer issue's further names are not looked at."""

_WORD = re.compile(r"[^\W\d]\w{2,79}")
_PART = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_COMMON = """
    the and for with not that this from are you have has was can when which should would will but
    issue bug error expected actual python version import class def self none true false return
    print code file line traceback most recent call last using use versions
"""
_IGNORED = frozenset(_COMMON.split())
_TITLE = 2
"""How often a word of the title counts."""


def find_named_files(issue: Issue, paths: Iterable[str]) -> list[str]:
    """Those of `paths` that a stack trace of the issue or its text names, in that order.

    These never fall out of a ranking. A frame's path may begin otherwise than the repository's
    (`/usr/lib/site-packages/pkg/a.py` is `src/pkg/a.py`): the file that shares most of its end is
    meant, its folder included. A bare name counts where few files have it.
    """
    names = list(_names("\n".join((issue.title, issue.body, *issue.discussion))))
    alike: defaultdict[str, list[str]] = defaultdict(list)
    bases = {name[-1] for name in names}
    for path in paths:
        base = path.rpartition("/")[2].casefold()
        if base in bases:
            alike[base].append(path)
    return list(
        dict.fromkeys(path for name in names for path in _matching_files(name, alike[name[-1]]))
    )


def count_words(issue: Issue) -> Counter[str]:
    """How much each word of the issue counts."""
    found = Counter(split_words("\n".join((issue.body, *issue.discussion))))
    for word in split_words(issue.title):
        found[word] += _TITLE
    return Counter({word: n for word, n in found.items() if word not in _IGNORED})


def split_words(text: str) -> Iterator[str]:
    """Identifiers and words in lower case, and the parts of those made of several words."""
    for word in _WORD.findall(text):
        yield word.lower()
        parts = _PART.findall(word)
        if len(parts) > 1:
            for part in parts:
                yield part.lower()


Name = tuple[str, ...]
"""The parts of a path in folded case."""


def _names(text: str) -> Iterator[Name]:
    seen: set[Name] = set()
    for found in _paths_in(text):
        parts = found.replace("\\", "/").casefold().split("/")
        name = tuple(part for part in parts if part not in ("", ".", ".."))
        if name and name not in seen:
            seen.add(name)
            yield name
        if len(seen) >= _MOST_NAMES:
            return


def _paths_in(text: str) -> Iterator[str]:
    for frame in _FRAME_OF_JVM.finditer(text):
        package = frame[1].rpartition(".")[0].replace(".", "/")
        yield f"{package}/{frame[2]}"
    for path in _PATH.finditer(_FRAME_OF_JVM.sub(" ", text)):
        yield path["quoted"] or path["plain"]


def _matching_files(name: Name, candidates: list[str]) -> list[str]:
    """Which of the files with its last part a name means."""
    if len(name) == 1:
        return candidates if len(candidates) <= _MOST_ALIKE else []
    shared = {path: _common_parts(name, path) for path in candidates}
    most = max(shared.values(), default=0)
    return [path for path in candidates if shared[path] == most and _is_enough(path, most)]


def _common_parts(name: Name, path: str) -> int:
    """How many parts the ends of both have in common."""
    parts = path.casefold().split("/")
    pairs = zip(reversed(name), reversed(parts), strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if one != other), min(len(name), len(parts))
    )


def _is_enough(path: str, shared: int) -> bool:
    front = path.casefold().split("/")[:-shared]
    return shared > 1 or all(part in _ROOTS for part in front)
