"""Which files an issue mentions, in stack traces, addresses and its text."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from pipeline.data.types import Issue

_LONGEST = 200
_PATH = re.compile(
    rf"\"(?P<quoted>[^\"\n]{{1,{_LONGEST}}}\.\w{{1,12}})\""
    rf"|(?P<plain>[\w./\\@+-]{{1,{_LONGEST}}}\.\w{{1,12}})\b"
)
_FRAME_OF_JVM = re.compile(r"\bat ([\w.$]{1,200})\.[\w$<>]{1,100}\((\w{1,100}\.\w{1,12}):\d")
_ROOTS = frozenset({"src", "lib", "app", "source", "python"})
"""Leading folders that an installed or copied tree drops from its paths."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""What follows these in a path is the module's own path."""


class Mentions(NamedTuple):
    named: tuple[str, ...]
    """Files that the issue names so that no other can be meant."""
    possible: tuple[str, ...]
    """Files of a name that the issue gives, where it does not say which of them is meant."""


class _Name(NamedTuple):
    parts: tuple[str, ...]
    kind: Literal["path", "frame", "address"] = "path"
    """A frame's path is one of another machine: how its first folders are called means nothing.
    Before a path in an address stand a host, a repository and a branch."""

    @property
    def base(self) -> str:
        return self.parts[-1]

    @property
    def bare(self) -> bool:
        return len(self.parts) == 1


def find_mentions(issue: Issue, paths: Iterable[str]) -> Mentions:
    """Those of `paths` that a stack trace in the issue mentions, and those that its text does.

    A frame's path may begin differently from the repository's (`/usr/lib/site-packages/pkg/a.py`
    is `src/pkg/a.py`): the file with the longest common suffix, including its folder, is meant.
    Of a path in the text all folders must agree. A bare name counts only where the issue does not
    say more precisely which file of that name it means.
    """
    names = list(_names("\n".join((issue.title, issue.body, *issue.discussion))))
    alike: defaultdict[str, list[str]] = defaultdict(list)
    bases = {name.base for name in names}
    for path in paths:
        base = path.rpartition("/")[2].casefold()
        if base in bases:
            alike[base].append(path)
    # `index.html` beside `_build/html/index.html` is the latter, even if no file agrees with it.
    explained = {name.base for name in names if not name.bare}
    found = [(name, _matching_files(name, alike[name.base])) for name in names]
    named = {
        files[0]: name.base
        for name, files in found
        if len(files) == 1 and not (name.bare and name.base in explained)
    }
    settled = set(named.values())
    possible = dict.fromkeys(
        path
        for name, files in found
        # A name that can mean more files mentions none of them.
        if name.base not in settled and len(files) <= 5
        for path in files
    )
    return Mentions(tuple(named), tuple(possible))


def find_named_files(issue: Issue, paths: Iterable[str]) -> list[str]:
    """Those of `paths` that the issue names beyond doubt. These never drop out of a ranking."""
    return list(find_mentions(issue, paths).named)


def _names(text: str) -> Iterator[_Name]:
    seen: set[_Name] = set()
    for name in _names_in(text):
        if name.parts and name not in seen:
            seen.add(name)
            yield name
        if len(seen) >= 2000:
            return


def _names_in(text: str) -> Iterator[_Name]:
    for frame in _FRAME_OF_JVM.finditer(text):
        package = frame[1].rpartition(".")[0].replace(".", "/")
        yield _read_name(f"/{package}/{frame[2]}")
    for path in _PATH.finditer(_FRAME_OF_JVM.sub(" ", text)):
        yield _read_name(path["quoted"] or path["plain"])


def _read_name(found: str) -> _Name:
    whole = found.replace("\\", "/").casefold()
    parts = [part for part in whole.split("/") if part not in ("", ".", "..")]
    installed = [at for at, part in enumerate(parts) if part in _INSTALLED]
    if installed:
        return _Name(tuple(parts[installed[-1] + 1 :]))
    # A colon ends the drive of Windows, or the scheme of an address.
    if "//" in whole.partition(":")[2] or whole.startswith("//"):
        return _Name(tuple(parts), "address")
    return _Name(tuple(parts), "frame" if whole.startswith("/") or ":" in whole else "path")


def _matching_files(name: _Name, candidates: list[str]) -> list[str]:
    """The files that a name can mean, among those with the same last part."""
    if name.bare:
        return candidates
    shared = {path: _common_parts(name.parts, path) for path in candidates}
    most = max(shared.values(), default=0)
    agreeing = [path for path in candidates if shared[path] == most and _agrees(name, path, most)]
    # `pkg/a.py` is that very file, if there is one, and not `tests/pkg/a.py`.
    return [path for path in agreeing if _is_whole(path, most)] or agreeing


def _common_parts(name: tuple[str, ...], path: str) -> int:
    """How many trailing parts both have in common."""
    parts = path.casefold().split("/")
    pairs = zip(reversed(name), reversed(parts), strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if one != other), min(len(name), len(parts))
    )


def _agrees(name: _Name, path: str, shared: int) -> bool:
    """Whether a file whose path ends in `shared` parts of the name is what the name says."""
    before = name.parts[:-shared]
    if not before:
        return True
    if name.kind == "frame" and shared > 1:
        return True
    # The name may begin with the folders around a checkout: then the whole path must follow.
    # A diff puts `a` and `b` before its paths.
    return _is_whole(path, shared) and (
        name.kind != "path" or shared > 1 or set(before) <= {"a", "b"}
    )


def _is_whole(path: str, shared: int) -> bool:
    """Whether the last `shared` parts of a path are all of it, but for a root of sources."""
    return all(part in _ROOTS for part in path.casefold().split("/")[:-shared])
