"""Where a tree's Python projects lie: at its root, in a folder below, in members of a workspace."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from pipeline.languages.manifests import Manifests, strings, table
from pipeline.languages.python.metadata import project_of

_NAMES: Final = re.compile(r"pyproject\.toml|setup\.(?:py|cfg)|Pipfile|requirements[\w.-]*\.txt")
_NOT_PROJECTS: Final = re.compile(
    r"(?:^|/)(?:tests?|testing|docs?|examples?|samples?|demos?|benchmarks?|tools?|scripts|ci|vendor"
    r"|third_party|fixtures|build|templates?|requirements)(?:/|$)",
    re.IGNORECASE,
)


def find_root(names: Iterable[str]) -> str:
    """The folder of the one Python project of a tree with these paths: empty for the root, which it
    is wherever a manifest lies there.

    Of several folders, the shallowest counts, and of these the one with most Python files.
    """
    there = list(names)
    found: set[str] = set()
    for path in there:
        folder, _, name = path.rpartition("/")
        if _NAMES.fullmatch(name) and folder.count("/") < 2:
            found.add(folder)
    if "" in found or not found:
        return ""
    fit = [folder for folder in found if not _NOT_PROJECTS.search(folder)]
    sizes = {
        folder: sum(p.startswith(f"{folder}/") for p in there if p.endswith(".py"))
        for folder in fit
    }
    return min(fit, key=lambda folder: (folder.count("/"), -sizes[folder], folder), default="")


def below(manifests: Manifests, root: str) -> Manifests:
    """The files of the folder `root`, by their paths from there; those of CI stay beside them."""
    if not root:
        return manifests
    start = f"{root}/"
    inside = {
        p.removeprefix(start): text for p, text in manifests.texts.items() if p.startswith(start)
    }
    shared = {path: text for path, text in manifests.texts.items() if path.startswith(".")}
    names = tuple(path.removeprefix(start) for path in manifests.names if path.startswith(start))
    return dataclasses.replace(manifests, names=names, texts={**shared, **inside})


def find_members(names: Iterable[str], texts: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of a uv workspace's members; https://docs.astral.sh/uv/concepts/projects/workspaces/"""
    workspace = table(project_of(texts), "tool", "uv", "workspace")
    wanted, left_out = strings(workspace.get("members")), strings(workspace.get("exclude"))

    def is_one_of(folder: str, patterns: list[str]) -> bool:
        return any(
            folder.count("/") == pattern.strip("/").count("/")
            and fnmatchcase(folder, pattern.removeprefix("./").rstrip("/"))
            for pattern in patterns
        )

    folders = (
        path.removesuffix("/pyproject.toml") for path in names if path.endswith("/pyproject.toml")
    )
    found = (one for one in folders if is_one_of(one, wanted) and not is_one_of(one, left_out))
    return tuple(sorted(found))[:50]
