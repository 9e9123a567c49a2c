"""Reads a repository's settings from GitHub: the organisation's defaults, then its own file."""

import asyncio

from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.repo_config.model import (
    CONFIG_PATHS,
    ConfigProblem,
    EffectiveConfig,
    LayerProblem,
    RepoConfig,
    merge_parsed,
    parse_config,
)


async def read_config(repo: Repository) -> EffectiveConfig | LayerProblem:
    """Merge the files at the heads of the default branches.

    The organisation's file is read if the App is installed on its `.github` repository.

    Raises:
        GitHubError: GitHub did not answer the reads.
    """
    layers: list[tuple[str, RepoConfig | ConfigProblem]] = []
    if repo.ref.name.lower() != DEFAULTS_REPOSITORY:
        for path in CONFIG_PATHS:
            text = await repo.read_defaults_file(*path.split("/"))
            if text is not None:
                source = f"{repo.ref.owner}/{DEFAULTS_REPOSITORY}: {path}"
                layers.append((source, await asyncio.to_thread(parse_config, text)))
                break
    for path in CONFIG_PATHS:
        text = await repo.read_file(*path.split("/"))
        if text is not None:
            layers.append((path, await asyncio.to_thread(parse_config, text)))
            break
    return merge_parsed(layers)
