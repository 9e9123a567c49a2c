"""The settings of a repository on GitHub: its organisation's defaults, then its own file."""

from __future__ import annotations

from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.repo_config.layers import Effective, Layer, LayerProblem, combined
from bot.repo_config.model import CANDIDATES
from bot.types import RepoRef


async def read_config(repo: Repository) -> Effective | LayerProblem:
    """The settings in force, by the files at the heads of the default branches.

    The organisation's are read where the App is installed on its `.github` repository.
    Raises as `Wire.send` does.
    """
    layers: list[Layer] = []
    if repo.ref.name.lower() != DEFAULTS_REPOSITORY:
        for path in CANDIDATES:
            text = await repo.defaults_text(*path.split("/"))
            if text is not None:
                layers.append(Layer(source_of_defaults(repo.ref, path), text))
                break
    for path in CANDIDATES:
        text = await repo.file_text(*path.split("/"))
        if text is not None:
            layers.append(Layer(path, text))
            break
    return combined(layers)


def source_of_defaults(ref: RepoRef, path: str) -> str:
    """How a file of the organisation is named to a person."""
    return f"{ref.owner}/{DEFAULTS_REPOSITORY}: {path}"
