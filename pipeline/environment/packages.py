"""The packages that a repository provides, by the names in its tree."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pipeline.codebase.commit import Codebase
from sandbox.environment.manifests import distribution_name, guess_name

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


def find_packages(paths: Iterable[str], texts: Mapping[str, str]) -> tuple[str, ...]:
    """Find importable names: packages by their `__init__.py`, else modules named in the manifests.

    `texts` are the manifests. The shortest names come first: the main package has no suffix.
    """
    there = set(paths)
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
    """The texts of the manifests at the root, by path."""
    return await codebase.read_texts(MANIFESTS)


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
