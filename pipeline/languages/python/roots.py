"""Where a tree's Python projects lie: at its root, in a folder below, in members of a workspace."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.languages.manifests import strings, table
from pipeline.languages.python.metadata import project_of
from pipeline.languages.roots import find_folder, list_members

_NAMES: Final = re.compile(r"pyproject\.toml|setup\.(?:py|cfg)|Pipfile|requirements[\w.-]*\.txt")


def find_root(names: Iterable[str], stated: str = "") -> str:
    """The folder of a tree's one Python project: the one that its maintainers state, if any."""
    return stated or find_folder(names, _NAMES.fullmatch, (".py",))


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
