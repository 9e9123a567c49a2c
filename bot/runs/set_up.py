"""What a repository needs on which the App was just installed."""

from __future__ import annotations

import logging
from typing import Final

from bot.data.request import SetUpRequest
from bot.errors import GitHubError, RunFailed, describe_cause, translate_errors
from bot.github.app import GitHubApp
from bot.settings import Settings
from bot.webhooks.labels import LabelSet

logger = logging.getLogger(__name__)


RECHECK_SECONDS: Final = 60.0
"""One of an installation's repositories, which are set up together, is enough to look at it."""


async def log_incomplete(github: GitHubApp, installation: int) -> None:
    """Log what an installation still has to accept of the App's permissions and events."""
    try:
        for sentence in await github.find_incomplete(installation):
            logger.warning("%s", sentence)
    except GitHubError as error:  # each run tells
        logger.warning("The permissions of an installation are unknown: %s", error)


async def set_up_repository(request: SetUpRequest, github: GitHubApp, settings: Settings) -> None:
    """Make the bot's labels, and have GitHub queue no empty check suites. Find or create.

    Raises:
        TryLater: GitHub does not answer.
    """
    try:
        with translate_errors():
            async with github.open_repository(request.repo, minor=True) as repo:
                for label, description in LabelSet(settings.label).descriptions.items():
                    await repo.issues.create_label(label, description)
                await repo.checks.switch_off_empty_suites(repo.identity.app)
    except RunFailed as refused:  # it is archived or gone again, or a permission is missing
        name, cause = request.repo.full_name, describe_cause(refused)
        logger.warning("Could not set up %s: %s: %s", name, refused.failure.value, cause)
