"""A check run on pull requests that edit the settings file, with each mistake at its line."""

import asyncio

from bot.comments.settings_file import check_summary, check_title
from bot.data.request import ConfigCheckRequest
from bot.data.run import CHECK_NAME
from bot.errors import GitHubError, GitHubUnavailable, translate_errors
from bot.github.app import GitHubApp
from bot.github.checks import Annotation, Check
from bot.github.repository import Repository
from bot.repo_config.model import CONFIG_PATHS, ConfigProblem, RepoConfig, parse_or_list_problems


async def check_config(request: ConfigCheckRequest, github: GitHubApp) -> None:
    """Write the check run, if the pull request edits the file. Calling it again changes nothing.

    Raises:
        TryLater: GitHub does not answer.
    """
    with translate_errors():
        try:
            async with github.open_repository(request.repo, minor=True) as repo:
                await _write_check(request, repo)
        except GitHubUnavailable:
            raise
        except GitHubError:  # the repository is gone, or we may not write checks there
            return


async def _write_check(request: ConfigCheckRequest, repo: Repository) -> None:
    edited = await repo.pulls.list_changed_paths(request.pull)
    files = {
        path: text
        for path in CONFIG_PATHS
        if path in edited
        and (text := await repo.read_file(*path.split("/"), ref=request.head)) is not None
    }
    if not files:
        return
    found: dict[str, list[ConfigProblem]] = {}
    for path, text in files.items():
        parsed = await asyncio.to_thread(parse_or_list_problems, text)
        found[path] = [] if isinstance(parsed, RepoConfig) else parsed
    notes = [
        Annotation(path, each.line, each.message, column=each.column)
        for path, some in found.items()
        for each in some
    ]
    await repo.checks.complete(
        Check(
            name=CHECK_NAME,
            head_sha=request.head,
            external_id=request.id,
            conclusion="failure" if notes else "success",
            title=check_title([len(some) for some in found.values()]),
            summary=check_summary(found),
            annotations=notes,
        )
    )
