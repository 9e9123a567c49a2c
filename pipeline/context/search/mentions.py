"""Which files an issue mentions, in stack traces, addresses and its text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pipeline.types import Issue

_LONGEST = 200
_PATH = re.compile(
    rf"\"(?P<quoted>[^\"\n]{{1,{_LONGEST}}}\.\w{{1,12}})\""
    rf"|(?P<plain>[\w./\\@+-]{{1,{_LONGEST}}}\.\w{{1,12}})\b"
)
_FRAME_OF_JVM = re.compile(r"\bat ([\w.$]{1,200})\.[\w$<>]{1,100}\((\w{1,100}\.\w{1,12}):\d")
_ROOTS = frozenset({"src", "lib", "app", "source", "python"})
"""Leading folders that an installed or copied tree drops from its paths."""
_MOST_ALIKE = 5
"""A bare file name that more files than this share counts for none of them."""
_MOST_NAMES = 2000
"""The most names of an issue that are looked up."""


def find_named_files(issue: Issue, paths: Iterable[str]) -> list[str]:
    """Those of `paths` that a stack trace in the issue names, then those that its text names.

    These never drop out of a ranking. A frame's path may begin differently from the repository's
    (`/usr/lib/site-packages/pkg/a.py` is `src/pkg/a.py`): the file with the longest common suffix,
    including its folder, is meant. A bare name counts if few files have it.
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


Name = tuple[str, ...]
"""The parts of a path, case-folded."""


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
    """The files that a name can mean, among those with the same last part."""
    if len(name) == 1:
        return candidates if len(candidates) <= _MOST_ALIKE else []
    shared = {path: _common_parts(name, path) for path in candidates}
    most = max(shared.values(), default=0)
    return [path for path in candidates if shared[path] == most and _is_enough(path, most)]


def _common_parts(name: Name, path: str) -> int:
    """How many trailing parts both have in common."""
    parts = path.casefold().split("/")
    pairs = zip(reversed(name), reversed(parts), strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if one != other), min(len(name), len(parts))
    )


def _is_enough(path: str, shared: int) -> bool:
    front = path.casefold().split("/")[:-shared]
    return shared > 1 or all(part in _ROOTS for part in front)
