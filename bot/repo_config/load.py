"""Reads a repository's settings from GitHub: the organisation's defaults, then its own file."""

from __future__ import annotations

from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.repo_config.layers import EffectiveConfig, Layer, LayerProblem, merge_layers
from bot.repo_config.model import CONFIG_PATHS
from bot.types import RepoRef


async def read_config(repo: Repository) -> EffectiveConfig | LayerProblem:
    """Merge the files at the heads of the default branches.

    The organisation's file is read if the App is installed on its `.github` repository.

    Raises:
        GitHubError: GitHub did not answer the reads.
    """
    layers: list[Layer] = []
    if repo.ref.name.lower() != DEFAULTS_REPOSITORY:
        for path in CONFIG_PATHS:
            text = await repo.read_defaults_file(*path.split("/"))
            if text is not None:
                layers.append(Layer(defaults_source(repo.ref, path), text))
                break
    for path in CONFIG_PATHS:
        text = await repo.read_file(*path.split("/"))
        if text is not None:
            layers.append(Layer(path, text))
            break
    return merge_layers(layers)


def defaults_source(ref: RepoRef, path: str) -> str:
    """The name of the organisation's file for people."""
    return f"{ref.owner}/{DEFAULTS_REPOSITORY}: {path}"
