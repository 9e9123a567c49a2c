"""The packages that a repository provides; what pytest collects."""

import keyword
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.languages.language import Collected
from pipeline.languages.python.metadata import distribution_name, guess_name
from pipeline.languages.python.roots import find_root, read_below

ROOTS: Final = ("src/", "", "lib/", "python/")
"""Folders that may contain packages; the first that contains one decides."""
NOT_OFFERED: Final = frozenset(
    {"test", "tests", "testing", "testsuite", "doc", "docs", "example", "examples", "sample"}
    | {"samples", "demo", "demos", "benchmark", "benchmarks", "bench", "tools", "tool", "scripts"}
    | {
        "script",
        "ci",
        "build",
        "dist",
        "utils",
        "vendor",
        "setup",
        "conftest",
        "tasks",
        "tutorials",
    }
    | {"asv_bench", "release", "contrib", "packaging", "requirements", "migrations"}
)
MANIFESTS: Final = ("pyproject.toml", "setup.cfg", "setup.py", "PKG-INFO")
VERSION_TOOLS: Final = re.compile(
    r"setuptools[_-]scm|hatch-vcs|versioneer|versioningit|\bpbr\b|dunamai|dynamic-versioning"
    r"|setuptools[_-]git|miniver|flit_scm|source\s*=\s*[\"'](vcs|scm)|git describe"
)
MODULES: Final = re.compile(r"py[_-]modules\W{1,4}\[?([^\]\n]{1,500})")


def find_packages(
    paths: Iterable[str], texts: Mapping[str, str], members: Sequence[str] = ()
) -> tuple[str, ...]:
    """Find importable names: packages by their `__init__.py`, else modules named in the manifests;
    with `members` of a workspace, theirs.

    `texts` are the manifests. The shortest names come first: the main package has no suffix.
    """
    there = set(paths)
    if members:
        own = (
            find_packages([p.removeprefix(f"{m}/") for p in there if p.startswith(f"{m}/")], {})
            for m in members
        )
        return tuple(dict.fromkeys(name for names in own for name in names))
    for root in ROOTS:
        found = {
            path.removeprefix(root).split("/")[0]
            for path in there
            if path.startswith(root)
            and path.removeprefix(root).count("/") == 1
            and path.endswith("/__init__.py")
        }
        if offered := sorted(filter(_is_offered, found), key=lambda name: (len(name), name)):
            return tuple(offered)
    named = [
        name for name in _list_modules(texts) if f"{name}.py" in there or f"src/{name}.py" in there
    ]
    return tuple(filter(_is_offered, dict.fromkeys(named)))


async def reads_version_from_git(codebase: Codebase) -> bool:
    """Whether the package appears to take its version from git's tags."""
    return any(map(VERSION_TOOLS.search, (await read_manifests(codebase)).values()))


async def find_distribution_name(codebase: Codebase) -> str:
    """The name that the manifests give the package; empty without one, or for no name at all."""
    name = guess_name(await read_manifests(codebase))
    return name if re.fullmatch(r"[\w.-]{1,100}", name) else ""


async def read_manifests(codebase: Codebase) -> dict[str, str]:
    """The texts of the manifests, by their paths from the project's folder."""
    return await read_below(codebase, find_root(codebase.files, codebase.root), MANIFESTS)


def _list_modules(texts: Mapping[str, str]) -> Iterator[str]:
    for text in texts.values():
        for match in MODULES.finditer(text):
            yield from re.findall(r"\w+", match[1])
    name = distribution_name(texts)
    if name:
        yield re.sub(r"[-.]+", "_", name)


def _is_offered(name: str) -> bool:
    usable = name.isidentifier() and not keyword.iskeyword(name)
    return usable and name.lower() not in NOT_OFFERED and not name.startswith(("test_", "_"))


_COUNTED: Final = re.compile(
    r"^(?:collected (?:.{1,99} / )?(\d{1,7}) (?:selected|items?\b(?!.{0,99} selected))"
    r"|(\d{1,7})(?:/\d+)? tests? collected)",
    re.M,
)
_COLLECTED: Final = re.compile(
    r"(?:ERROR (?:collecting )?)?(?P<path>[^\s:<]+\.py)(?:::|: \d+$| - |$)"
    r"|(?P<indent> *)<(?P<kind>Module|Package|Dir|DoctestModule) ['\"]?(?P<name>[^'\">]+)"
)
_LONGEST: Final = 1000
"""Characters of a line, or of a path, that are read."""
_MOST_FOLDERS: Final = 100


def parse_collection(output: str, paths: Iterable[str]) -> Collected:
    """Parse `pytest --collect-only`: the number of tests, and which of `paths` contain them.

    Depending on the version, a module is printed with its path from the root, or with its name
    below its folders, all of them or the last; with `-q`, each test has a line; modules that fail
    to collect follow ERROR.
    """
    found = _COUNTED.search(output)
    known = _Paths(paths)
    files: set[str] = set()
    folders: list[tuple[int, str]] = []
    for line in output.splitlines()[:200_000]:
        match = _COLLECTED.match(line[:_LONGEST])
        if not match:
            continue
        if match["path"]:
            files.add(match["path"])
            continue
        depth, name = len(match["indent"]), match["name"]
        while folders and folders[-1][0] >= depth:
            folders.pop()
        if match["kind"] in ("Dir", "Package"):
            folders.append((depth, name.removesuffix("/__init__.py")))
            continue
        whole = "/".join([*(folder for _, folder in folders[-_MOST_FOLDERS:]), name])
        if len(whole) <= _LONGEST:
            files.update(known.find(whole))
    files.update(known.list_below())
    return Collected(int(found[1] or found[2]) if found else None, known.all & files)


class _Paths:
    """The files of a codebase, found by what pytest prints of their paths.

    The time for one printed module must not depend on how many files have its name: both the output
    and the files are as a hostile repository likes.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.all = frozenset(paths)
        self._below: set[tuple[int, int]] = set()

    @cached_property
    def _backwards(self) -> list[tuple[str, str]]:
        """Each path by its parts from the last to the first; few forms of the output need it."""
        return sorted((_reverse(path), path) for path in self.all)

    def find(self, whole: str) -> list[str]:
        """The files whose paths `whole` ends with; without any, note those that end with it."""
        parts = whole.rsplit("/", _MOST_FOLDERS)
        ends = ("/".join(parts[first:]) for first in range(len(parts)))
        found = [end for end in ends if end in self.all]
        if not found and len(parts) > 1:  # any folder may have a file of that last name
            begin = _reverse(whole)
            first = bisect_left(self._backwards, (begin,))
            last = bisect_left(self._backwards, (begin[:-1] + chr(ord("/") + 1),))
            self._below.add((first, last))
        return found

    def list_below(self) -> Iterator[str]:
        """The files noted by `find`, each once."""
        end = 0
        for first, last in sorted(self._below):
            for _, path in self._backwards[max(first, end) : last]:
                yield path
            end = max(end, last)


def _reverse(path: str) -> str:
    """The parts from the last to the first, a slash after each: `b.py/a/` for `a/b.py`."""
    return "/".join(path.split("/")[::-1]) + "/"
