"""Where a tree's Python projects lie: at its root, in a folder below, in members of a workspace."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.languages.manifests import strings, table
from pipeline.languages.python.metadata import project_of
from pipeline.languages.roots import find_folder, is_no_project, list_members, list_projects

_PROJECT: Final = r"pyproject\.toml|setup\.(?:py|cfg)|Pipfile"
_NAMES: Final = re.compile(rf"{_PROJECT}|requirements[\w.-]*\.txt")


def find_root(names: Iterable[str], stated: str = "") -> str:
    """The folder of a tree's one Python project: the one that its maintainers state, if any. A list
    of requirements makes none where all code lies in projects below it."""
    known = list(names)
    found = stated or find_folder(known, _NAMES.fullmatch, (".py",))
    inner = "" if found else find_folder(known, re.compile(_PROJECT).fullmatch, (".py",))
    below = tuple(f"{one}/" for one in list_projects(known, _PROJECT))
    code = (one for one in known if one.endswith(".py") and not one.startswith(below))
    is_own = not all(is_no_project(one.rpartition("/")[0]) for one in code)
    return found if found or is_own else inner


async def read_below(
    codebase: Codebase, root: str, names: Iterable[str], **limits: int
) -> dict[str, str]:
    """The texts of the files `names` of the folder `root`, by these names."""
    start = f"{root}/" if root else ""
    read = await codebase.read_texts([f"{start}{name}" for name in names], **limits)
    return {path.removeprefix(start): text for path, text in read.items()}


def find_members(names: Iterable[str], texts: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of a uv workspace's members; https://docs.astral.sh/uv/concepts/projects/workspaces/"""
    workspace = table(project_of(texts), "tool", "uv", "workspace")
    wanted, left_out = strings(workspace.get("members")), strings(workspace.get("exclude"))

    folders = (
        path.removesuffix("/pyproject.toml") for path in names if path.endswith("/pyproject.toml")
    )
    return tuple(list_members(folders, wanted, left_out))[:50]
