"""Carries out what comments command: asks who may, shows that it was heard, does it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bot.admission.refusal import refuse
from bot.admission.trust import trusted
from bot.commands.candidates import judge, use
from bot.commands.command import Bench, Verb
from bot.commands.info import config, explain, show_help, status
from bot.commands.run import WAIT_SECONDS, beginning, begun, fix, stop, stopped
from bot.commands.stats import stats
from bot.comments import replies
from bot.errors import Ended
from bot.failures import judged
from bot.followup.schedule import begin
from bot.github.app import GitHubApp
from bot.github.errors import Forbidden, NotFound
from bot.github.reactions import Reaction
from bot.github.repository import Repository
from bot.queue.consumer import Later, Office
from bot.queue.inbox import Item
from bot.repo_config.load import read_config
from bot.runs.config_check import check_config
from bot.settings import Settings
from bot.storage.runs import Outcome
from bot.triggers.command_text import nearest
from bot.triggers.requests import Inspect, Order, Start, Tend
from bot.types import Mode, Place

EVERYWHERE: Final = frozenset(Place)
CONVERSATIONS: Final = frozenset({Place.ISSUE, Place.PULL})

VERBS: Final[Mapping[str, Verb]] = {
    "fix": Verb(
        "Work on this issue; on a pull request of mine: do what this comment says.",
        fix,
        words="[anyway]",
        places=EVERYWHERE,
    ),
    "retry": Verb("Work on it again, from the start.", beginning(Mode.FIX), words="[anyway]"),
    "plan": Verb(
        "A dry run: where I would look, a reproduction test, what a fix would cost.",
        beginning(Mode.PLAN),
    ),
    "judge": Verb(
        "Compare pull requests that others opened for this issue; I push nothing.",
        judge,
        words="#12 #34",
    ),
    "use": Verb(
        "Put another of my edits into my pull request: 1 is the one I chose, 2 the next best.",
        use,
        words="2",
        places=CONVERSATIONS,
    ),
    "stop": Verb("Stop working on it, now.", stop, places=CONVERSATIONS),
    "status": Verb("How it stands.", status, places=CONVERSATIONS),
    "explain": Verb("Why the latest run ended as it did.", explain, places=CONVERSATIONS),
    "stats": Verb(
        "What came of my work in this repository: merged, closed, reverted, at what cost.",
        stats,
        words="[days]",
        places=EVERYWHERE,
    ),
    "config": Verb(
        "The settings that are in force here; `propose`: a pull request with a file of them.",
        config,
        words="[propose]",
        places=EVERYWHERE,
    ),
    "help": Verb("This list.", show_help, places=EVERYWHERE),
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Desk:
    """The worker's `CarryOut`."""

    settings: Settings
    github: GitHubApp
    verbs: Mapping[str, Verb]

    async def __call__(self, item: Item, office: Office) -> Later | None:
        """See `bot.queue.consumer.CarryOut`."""
        wish = item.order
        if isinstance(wish, Inspect):
            await check_config(wish, self.github)
            return None
        if isinstance(wish, Tend):
            return await begin(item, wish, office, self.settings)
        try:
            with judged():
                if isinstance(wish, Start):
                    return await self._begun(item, wish, office)
                if item.waits and await stopped(wish, office.runs):
                    return None
                if item.waits and await office.runs.current(wish.repo, wish.issue) is not None:
                    return Later(item, WAIT_SECONDS)
                async with self.github.repository(wish.repo) as repo:
                    return await self._carried_out(repo, item, wish, office)
        except Ended as ended:  # gone, or locked: nobody can be told there
            logger.info("Command %s: %s", wish.id, ended.failure.value)
            return None

    async def _begun(self, item: Item, wish: Start, office: Office) -> Later | None:
        """Of a label that came during another run; it is taken off if that was stopped."""
        if await stopped(wish, office.runs):
            async with self.github.repository(wish.repo) as repo:
                await repo.issues.remove_label(wish.issue, wish.label)
            return None
        outcome = await begun(wish, wish.mode, office.runs, office.nudges)
        return Later(item, WAIT_SECONDS) if outcome is Outcome.RUNNING else None

    async def _carried_out(
        self, repo: Repository, item: Item, order: Order, office: Office
    ) -> Later | None:
        command = order.command
        verb = self.verbs.get(command.verb or "help")
        meant = nearest(command.verb, self.verbs)
        if not command.by_slash and (not command.verb or (verb is None and meant is None)):
            return None  # talk about us, not to us
        found = await read_config(repo)
        bench = Bench(item, order, repo, office, self.settings, found, self.verbs)
        if not bench.config.enabled:
            return None
        with suppress(Forbidden, NotFound):  # the comment may be deleted, the issue locked
            await bench.react("eyes")
        if not await trusted(repo, order.by, bench.config.trust):
            text = replies.refused(order.by, bench.config.trust)
            no = refuse(office.runs, repo, order.issue, order.by, text, wish=order.id)
            return await _answered(bench, no, "confused")
        if verb is None:
            said = replies.unknown(self.settings.app_name, command.verb, meant)
            return await _answered(bench, bench.reply(said), "confused")
        if order.place not in verb.places:
            said = replies.not_here(command.verb)
            return await _answered(bench, bench.reply(said), "confused")
        return await _answered(bench, verb.carry_out(bench), "+1")


async def _answered(
    bench: Bench, answer: Awaitable[Later | None], reaction: Reaction
) -> Later | None:
    """Answer, then show it on the comment: the eyes stay while it waits."""
    later = await answer
    if later is None:
        with suppress(Forbidden, NotFound):
            await bench.react(reaction)
            await bench.unreact("eyes")
    return later
