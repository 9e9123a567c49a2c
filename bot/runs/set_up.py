"""What a repository needs on which the App was just installed."""

from __future__ import annotations

import logging

from bot.data.request import SetUpRequest
from bot.errors import RunFailed, describe_cause, translate_errors
from bot.github.app import GitHubApp
from bot.settings import Settings
from bot.webhooks.labels import LabelSet

logger = logging.getLogger(__name__)


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
