"""Asks GitHub what became of the pull requests of our runs, for `capuchin learn collect`."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Final

from bot.errors import RunFailed, TryLater
from bot.failures import translate_errors
from bot.github.app import GitHubApp
from bot.outcomes.pulls import find_outcomes
from bot.settings import Settings
from bot.storage.history import HISTORY_DAYS
from bot.types import now
from pipeline.evaluation.dataset import BadData
from pipeline.learning.records import Outcome

_REPOSITORY: Final = re.compile(r"([\w.-]+)/([\w.-]+)", re.A)
_MARKER: Final = re.compile(r"<!-- capuchin:run=([0-9a-f]{32}) -->")
_MOST: Final = 1000


def load_run_outcomes(repository: str, settings: Settings) -> dict[str, Outcome]:
    """By run id, what became of its pull request; those of the last year.

    Raises:
        BadData: it is no repository of the App, or GitHub cannot be asked.
    """
    place = _REPOSITORY.fullmatch(repository)
    if place is None:
        raise BadData(f"--outcomes {repository}: give OWNER/NAME.")
    if not settings.github_app_id:
        raise BadData("--outcomes asks GitHub as your App: set CAPUCHIN_GITHUB_APP_ID and its key.")
    try:
        return asyncio.run(_load(place[1], place[2], settings))
    except (RunFailed, TryLater) as error:
        raise BadData(f"GitHub cannot be asked about {repository}: {error}") from None


async def _load(owner: str, name: str, settings: Settings) -> dict[str, Outcome]:
    app = GitHubApp(settings)
    since = now() - timedelta(days=HISTORY_DAYS)
    with translate_errors():
        ref = await app.find_repository(owner, name)
        if ref is None:
            raise BadData(f"The App is not installed on {owner}/{name}.")
        async with app.open_repository(ref) as repo:
            decided = await find_outcomes(repo, (), since, most=_MOST)
    return {
        run: one.outcome.value for one in decided for run in _MARKER.findall(one.facts.body or "")
    }
