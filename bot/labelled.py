"""The issues that wear our label, for when a webhook never came."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bot.github.app import GitHubApp
from bot.github.errors import Forbidden, NotFound
from bot.trouble import judged
from bot.types import Labelled


async def find_labelled(github: GitHubApp, label: str) -> AsyncIterator[Labelled]:
    """All open issues with `label` in all repositories of the App.

    Raises:
        TryLater: GitHub does not answer.
    """
    with judged():
        async for ref in github.repositories():
            try:
                async with github.repository(ref) as repo:
                    async for issue in repo.issues.find_labelled(label):
                        put = await repo.issues.labelled_by(issue.number, label)
                        if put is not None:
                            yield Labelled(repo=ref, issue=issue.number, actor=put[0], at=put[1])
            except (NotFound, Forbidden):  # gone, suspended, or issues are switched off there
                continue
