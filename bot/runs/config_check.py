"""A pull request that edits the settings file is told its mistakes, each at its line."""

from __future__ import annotations

from typing import Final

from bot.comments.config import checked, checked_title
from bot.failures import judged
from bot.github.app import GitHubApp
from bot.github.checks import Annotation, Check
from bot.github.errors import GitHubError, GitHubUnavailable
from bot.github.repository import Repository
from bot.repo_config.model import CANDIDATES, ConfigProblem, problems
from bot.triggers.requests import Inspect
from bot.types import CHECK_NAME

NAME: Final = CHECK_NAME


async def check_config(wish: Inspect, github: GitHubApp) -> None:
    """Write the check run, if the pull request edits the file. Done again it changes nothing.

    Raises:
        TryLater: GitHub does not answer.
    """
    with judged():
        try:
            async with github.repository(wish.repo) as repo:
                await _check(wish, repo)
        except GitHubUnavailable:
            raise
        except GitHubError:  # gone meanwhile, or we may not write checks there: nobody to tell
            return


async def _check(wish: Inspect, repo: Repository) -> None:
    edited = await repo.pulls.edited(wish.pull)
    files = {
        path: text
        for path in CANDIDATES
        if path in edited
        and (text := await repo.file_text(*path.split("/"), ref=wish.head)) is not None
    }
    if not files:
        return
    found = {path: problems(text) for path, text in files.items()}
    notes = [_note(path, each) for path, some in found.items() for each in some]
    await repo.checks.once(
        Check(
            name=NAME,
            head_sha=wish.head,
            external_id=wish.id,
            conclusion="failure" if notes else "success",
            title=checked_title(len(notes)),
            summary=checked(found),
            annotations=notes,
        )
    )


def _note(path: str, problem: ConfigProblem) -> Annotation:
    return Annotation(path, problem.line, problem.message, column=problem.column)
