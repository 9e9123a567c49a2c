"""Requirements that a tree does not take from the package index: a stranger's package may have
their names there."""

import re
from collections.abc import Iterable, Iterator, Mapping
from posixpath import normpath, relpath
from typing import Any, Final

from pipeline.languages.manifests import parse_toml, strings, table, tables
from pipeline.languages.python.metadata import project_of
from pipeline.languages.roots import list_projects
from sandbox.guest.installer.requirements import is_public_index, normalise_name

_MANIFESTS: Final = ("pyproject.toml", "setup.py", "setup.cfg")
_MOST_SIBLINGS: Final = 50
OWN_FOLDER = "it is a part of this repository"
OWN_SOURCE = "it comes from an address of its own"
OTHER_INDEX = "it comes from another package index"


def find_elsewhere(texts: Mapping[str, str]) -> dict[str, str]:
    """By normalised name: why a requirement is never asked of the package index, as a clause.

    https://docs.astral.sh/uv/concepts/projects/dependencies/#dependency-sources
    https://python-poetry.org/docs/repositories/#explicit-package-sources
    """
    projects = [parse_toml(texts[path]) for path in texts if path.endswith("pyproject.toml")]
    indexes = {
        str(one.get("name")): str(one.get("url"))
        for project in projects
        for at in (("uv", "index"), ("poetry", "source"))
        for one in tables(table(project, "tool", at[0]).get(at[1]))
    }
    found: dict[str, str] = {}
    for name, stated in (pair for project in projects for pair in list_stated(project)):
        for one in tables(stated) if isinstance(stated, list) else [table({"": stated}, "")]:
            index = one.get("index") or one.get("source")
            if one.get("workspace") or "path" in one:
                found[normalise_name(name)] = OWN_FOLDER
            elif "git" in one or "url" in one:
                found[normalise_name(name)] = OWN_SOURCE
            elif isinstance(index, str) and not is_public_index(indexes.get(index, "")):
                found[normalise_name(name)] = OTHER_INDEX
    return found


def find_siblings(texts: Mapping[str, str], root: str) -> tuple[str, ...]:
    """The folders, from `root`, of the packages of a tree that the project there takes by a path or
    from a workspace around it, and that these take; `texts` are the tree's manifests."""
    named = {
        normalise_name(str(table(parse_toml(text), "project").get("name"))): path.rpartition("/")[0]
        for path, text in texts.items()
        if path.endswith("/pyproject.toml")
    }
    found, waiting = {root or "."}, [root or "."]
    while waiting:
        folder = waiting.pop()
        project = parse_toml(texts.get(normpath(f"{folder}/pyproject.toml"), ""))
        for name, stated in list_stated(project):
            for one in tables(stated) if isinstance(stated, list) else [table({"": stated}, "")]:
                there = normpath(f"{folder}/{one.get('path')}") if one.get("path") else ""
                there = named.get(normalise_name(name), "") if one.get("workspace") else there
                is_package = any(f"{there}/{name}" in texts for name in _MANIFESTS)
                if is_package and there not in found and len(found) < _MOST_SIBLINGS:
                    found.add(there)
                    waiting.append(there)
    return tuple(sorted(relpath(one, root or ".") for one in found - {root or "."}))


def find_others(names: Iterable[str], root: str) -> tuple[str, ...]:
    """The folders, from `root`, of a tree's other packages, where none lies at its root."""
    packages = "|".join(map(re.escape, _MANIFESTS))
    found = [one for one in list_projects(names, packages) if one != root]
    return tuple(relpath(one, root) for one in found) if root and "" not in found else ()


def list_stated(project: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What uv's and poetry's tables say of each requirement."""
    yield from table(project, "tool", "uv", "sources").items()
    poetry = table(project, "tool", "poetry")
    groups = [
        table(table({"": one}, ""), "dependencies") for one in table(poetry, "group").values()
    ]
    for listed in (table(poetry, "dependencies"), table(poetry, "dev-dependencies"), *groups):
        yield from listed.items()


def direct_references(texts: Mapping[str, str]) -> list[str]:
    """uv's sources at an address, as requirements of PEP 508."""
    found: list[str] = []
    for name, stated in table(project_of(texts), "tool", "uv", "sources").items():
        for one in tables(stated) if isinstance(stated, list) else [table({"": stated}, "")]:
            if isinstance(one.get("git"), str):
                at = next(filter(None, map(one.get, ("rev", "tag", "branch"))), "")
                found.append(f"{name} @ git+{one['git']}" + (f"@{at}" if at else ""))
            found += [f"{name} @ {url}" for url in strings([one.get("url")])]
    return found
