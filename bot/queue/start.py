"""A run that a label or an assignment asks for, whatever tells of it: a webhook, or the sweep."""

from __future__ import annotations

from bot.queue.inbox import Inbox
from bot.storage.runs import Asked, Outcome, Runs
from bot.triggers.requests import Start
from bot.types import Run, StopReason


async def ask(wish: Start, runs: Runs, inbox: Inbox) -> Asked:
    """Begin the run, join the one that the issue has, or let the wish wait for that one's end.

    It waits where that is no answer: a plan where a fix is wanted, or what is being stopped.
    Raises redis-py's errors; asked again it does what is left to do.
    """
    under_way = await runs.current(wish.repo, wish.issue)
    if under_way is not None and not await _answers(under_way, wish, runs):
        if await runs.was_answered(wish):
            return Asked(Outcome.REPEATED, under_way.id)
        await inbox.put(wish)
        await runs.answered(wish, under_way.id)
        return Asked(Outcome.RUNNING, under_way.id)
    return await runs.start(wish)


async def _answers(under_way: Run, wish: Start, runs: Runs) -> bool:
    """Whether the run does what is wished for, and nobody had it stopped before that was."""
    if under_way.mode is not wish.mode:
        return False
    stop = under_way.stop or await runs.stop_of(under_way.id)
    if stop is None or stop.why is not StopReason.COMMAND or stop.at is None or wish.at is None:
        return True
    return wish.at <= stop.at
