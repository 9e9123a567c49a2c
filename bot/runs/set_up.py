"""What repositories need on which the App was just installed."""

import logging
from typing import Final

from bot.data.request import SetUpRequest
from bot.errors import GitHubError, RunFailed, describe_cause, translate_errors
from bot.github.app import GitHubApp
from bot.queue.jobs import RunQueue
from bot.settings import Settings
from bot.webhooks.labels import LabelSet
from sandbox.frozen import replace

logger = logging.getLogger(__name__)


RECHECK_SECONDS: Final = 60.0
"""One of an installation's repositories, which are set up together, is enough to look at it."""


async def set_up(
    request: SetUpRequest, github: GitHubApp, settings: Settings, queue: RunQueue
) -> None:
    """Do what the request says, and ask for what comes next.

    Raises:
        TryLater: GitHub does not answer.
    """
    installation = request.repo.installation
    if request.part == "all":
        if await queue.storage.turns.take(f"permissions:{installation}", RECHECK_SECONDS):
            await _log_incomplete(github, installation)
        repos = (request.repo, *request.others)
        with translate_errors():
            listed = await github.list_installation(installation) if request.others else []
        order = {repo.id: place for place, repo in enumerate(listed)}
        active = sorted(repos, key=lambda one: order.get(one.id, len(order)))
        labels = [replace(request, repo=repo, others=(), part="label") for repo in active]
        await queue.put(*labels)
        return
    await _set_up_repository(request, github, settings)
    if request.part == "label":
        await queue.put(replace(request, part="rest"))


async def _log_incomplete(github: GitHubApp, installation: int) -> None:
    """Log what an installation still has to accept of the App's permissions and events."""
    try:
        for sentence in await github.find_incomplete(installation):
            logger.warning("%s", sentence)
    except GitHubError as error:  # each run tells
        logger.warning("The permissions of an installation are unknown: %s", error)


async def _set_up_repository(request: SetUpRequest, github: GitHubApp, settings: Settings) -> None:
    """Make the bot's label; then its other labels, and have GitHub queue no empty check suites."""
    first, *others = LabelSet(settings.label).descriptions.items()
    try:
        with translate_errors():
            async with github.open_repository(request.repo, paced=True) as repo:
                for label, description in [first] if request.part == "label" else others:
                    await repo.issues.create_label(label, description)
                if request.part == "rest":
                    await repo.checks.switch_off_empty_suites(repo.identity.app)
    except RunFailed as refused:  # it is archived or gone again, or a permission is missing
        name, cause = request.repo.full_name, describe_cause(refused)
        logger.warning("Could not set up %s: %s: %s", name, refused.failure.value, cause)
