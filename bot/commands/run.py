"""The verbs that begin and end runs."""

from __future__ import annotations

from typing import Any

from bot.commands.command import Bench, CarryOutVerb
from bot.comments import replies
from bot.followup.schedule import begin as begin_tending
from bot.queue.consumer import Later
from bot.queue.nudges import Nudges
from bot.storage.pulls import Records
from bot.storage.runs import Outcome, Runs
from bot.triggers.requests import Order, Pace, Start, Tend
from bot.types import Mode, Place, Stop, StopReason

WAIT_SECONDS = 0.5
"""How often a command that waits for a run looks whether it is over."""


def beginning(mode: Mode) -> CarryOutVerb:
    """The verb that asks for a run; it never disturbs the one that the issue has, but waits."""

    async def begin(bench: Bench) -> Later | None:
        order, office = bench.order, bench.office
        at = await office.runs.stopped_at(order.repo, order.issue)
        if at is not None and at > order.at:  # it comes late: whoever stopped knew of it
            return None
        return await waiting(bench, await begun(order, mode, office.runs, office.nudges))

    return begin


async def waiting(bench: Bench, outcome: Outcome) -> Later | None:
    """Come up again while the issue has a run; whoever asked is told that once."""
    if outcome is not Outcome.RUNNING:
        return None  # the run says the rest
    if not bench.item.waits:
        await bench.reply(replies.waits(bench.settings.app_name))
    return Later(bench.item.model_copy(update={"waits": True}), WAIT_SECONDS)


async def fix(bench: Bench) -> Later | None:
    """A run of the issue; on a pull request of ours the comment is followed like a review."""
    order = bench.order
    if order.place is Place.ISSUE:
        return await beginning(Mode.FIX)(bench)
    runs = bench.office.runs
    if await Records(runs.redis, runs.keys).get(order.repo, order.issue) is None:
        await bench.reply(replies.not_mine())
        return None
    wish = Tend(
        repo=order.repo,
        about="pull",
        number=order.issue,
        pace=Pace.QUIET,
        by=order.by,
        delivery=order.id,
    )
    return await begin_tending(bench.item, wish, bench.office, bench.settings)


async def begun(wish: Order | Start, mode: Mode, runs: Runs, nudges: Nudges) -> Outcome:
    """Begin the run that is wanted, unless the issue has one; a worker is told.

    A `Start` is a label that came during another run, with which its delivery was answered.
    """
    fields: dict[str, Any]
    if isinstance(wish, Order):
        by = wish.by
        pulls = tuple(dict.fromkeys(wish.command.numbers)) if mode is Mode.JUDGE else ()
        fields = {"confirmed": wish.command.anyway, "pulls": pulls}
    else:
        by, fields = wish.asked_by, {"label": wish.label}
    asked = await runs.create(
        wish.repo,
        wish.issue,
        asked_by=by,
        delivery=wish.id,
        version=wish.version,
        join=False,
        mode=mode,
        asked_at=wish.at,
        **fields,
    )
    if asked.outcome is Outcome.CREATED:
        await nudges.send(asked.run_id, 0)
    return asked.outcome


async def stop(bench: Bench) -> Later | None:
    """Have the run stopped, of the issue or on our pull request, and forget what waits for its end.

    A run that was asked for later is none of those: comments come late and out of order.
    """
    order, runs = bench.order, bench.office.runs
    run = await runs.current(order.repo, order.issue)
    asked = None if run is None else await runs.asked_last(run)
    if asked is not None and asked > order.at:
        return None
    wish = Stop(by=order.by, why=StopReason.COMMAND, at=order.at)
    if await runs.ask_stop(order.repo, order.issue, wish) is None:
        await bench.reply(replies.nothing_runs())
    return None


async def stopped(wish: Order | Start, runs: Runs) -> bool:
    """Whether people wanted the issue's work to stop since then: that ends what waits, too."""
    at = await runs.stopped_at(wish.repo, wish.issue)
    return at is not None and wish.at is not None and at >= wish.at
