"""Reads a repository's settings from GitHub: the organisation's defaults, then its own file."""

import asyncio
from collections.abc import Awaitable, Callable

from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.repo_config.model import (
    CONFIG_PATHS,
    ConfigProblem,
    EffectiveConfig,
    LayerProblem,
    RepoConfig,
    merge_layers,
    parse_config,
)


async def read_config(repo: Repository) -> EffectiveConfig | LayerProblem:
    """Merge the files at the heads of the default branches.

    The organisation's file is read if the App is installed on its `.github` repository.

    Raises:
        GitHubError: GitHub did not answer the reads.
    """
    layers: list[tuple[str, RepoConfig | ConfigProblem]] = []
    places: list[tuple[str, Callable[..., Awaitable[str | None]]]] = [("", repo.read_file)]
    if repo.ref.name.lower() != DEFAULTS_REPOSITORY:
        places.insert(0, (f"{repo.ref.owner}/{DEFAULTS_REPOSITORY}: ", repo.read_defaults_file))
    for place, read in places:
        for path in CONFIG_PATHS:
            text = await read(*path.split("/"))
            if text is not None:
                layers.append((f"{place}{path}", await asyncio.to_thread(parse_config, text)))
                break
    return merge_layers(layers)
