"""Where a tree's project lies: at its root, or in a folder below."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from pipeline.languages.manifests import Manifests

_NOT_PROJECTS: Final = re.compile(
    r"(?:^|/)(?:tests?(?:[-_]?(?:data|files|cases|fixtures|inputs?|outputs?))?|testing"
    r"|docs?|examples?|samples?|demos?|bench(?:marks?)?|tools?|scripts|ci|vendor|third_party"
    r"|fixtures?|snap(?:shot)?s?(?:[-_]tests?)?|build|templates?|requirements|_[^/]*)(?:/|$)",
    re.IGNORECASE,
)

IS_DATA: Final = re.compile(r"(?:^|/)(?:test[-_]?data|_*fixtures?_*|snap(?:shot)?s?[-_]tests?)/")
"""Matches paths of what tests read, with tests among it that nobody runs."""


def find_folder(
    names: Iterable[str], is_mark: Callable[[str], object], suffixes: tuple[str, ...]
) -> str:
    """The folder of the one project of a tree with these paths: empty for the root, which it is
    wherever a file whose name is a mark lies there.

    Of several folders, the shallowest counts, and of these the one with most files that end in
    `suffixes`.
    """
    there = list(names)
    found: set[str] = set()
    for path in there:
        folder, _, name = path.rpartition("/")
        if folder.count("/") < 2 and is_mark(name):
            found.add(folder)
    if "" in found or not found:
        return ""
    fit = [folder for folder in found if not is_no_project(folder)]
    sizes = {
        folder: sum(p.startswith(f"{folder}/") for p in there if p.endswith(suffixes))
        for folder in fit
    }
    return min(fit, key=lambda folder: (folder.count("/"), -sizes[folder], folder), default="")


def is_no_project(folder: str) -> bool:
    """Whether what lies in a folder serves a project, as its documentation and examples do."""
    return bool(_NOT_PROJECTS.search(folder))


def list_projects(paths: Iterable[str], manifest: str, root: str = "") -> list[str]:
    """The folders from `root` with a file whose name fits the pattern `manifest`; none that serves
    another project, but `root`."""
    start = f"{root}/" if root else ""
    found = {
        folder
        for path in paths
        for folder, _, name in [path.rpartition("/")]
        if re.fullmatch(manifest, name) and folder.count("/") < 4
        if folder == root or (folder.startswith(start) and not is_no_project(folder))
    }
    return sorted(found)


def list_members(
    folders: Iterable[str], wanted: Sequence[str], left_out: Sequence[str]
) -> list[str]:
    """Those of `folders`, sorted, that the patterns of a workspace take: globs, level by level."""

    def is_in(folder: str, pattern: str) -> bool:
        pattern = pattern.removeprefix("./").rstrip("/")
        if pattern.endswith("**"):
            return folder.startswith(pattern.removesuffix("**"))
        return folder.count("/") == pattern.count("/") and fnmatchcase(folder, pattern)

    return [
        one
        for one in sorted(folders)
        if any(is_in(one, pattern) for pattern in wanted)
        if not any(is_in(one, pattern) for pattern in left_out)
    ]


def cut_root(paths: Iterable[str], root: str) -> tuple[str, ...]:
    """The paths in the folder `root`, as they are from there."""
    if not root:
        return tuple(paths)
    start = f"{root}/"
    return tuple(path.removeprefix(start) for path in paths if path.startswith(start))


def below(manifests: Manifests, root: str) -> Manifests:
    """The files of the folder `root`, by their paths from there; those of CI stay beside them."""
    if not root:
        return manifests
    start = f"{root}/"
    inside = {
        p.removeprefix(start): text for p, text in manifests.texts.items() if p.startswith(start)
    }
    shared = {path: text for path, text in manifests.texts.items() if path.startswith(".")}
    names = cut_root(manifests.names, root)
    return dataclasses.replace(manifests, names=names, texts={**shared, **inside})
