"""The verbs that only answer."""

from __future__ import annotations

from bot.commands.candidates import edits
from bot.commands.command import Bench
from bot.commands.config import propose
from bot.comments import replies
from bot.comments.config import as_comment
from bot.queue.consumer import Later
from bot.repo_config.layers import LayerProblem
from bot.storage.checkpoints import RedisStore
from bot.storage.pulls import Records
from bot.types import Place, Run, RunStatus, changed
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.solve import OUTCOME_KEY, Solved


async def status(bench: Bench) -> Later | None:
    """How the latest run stands, now: on a pull request of ours the one that looks after it."""
    run = await bench.office.runs.current(bench.order.repo, bench.order.issue)
    run = await (_latest(bench) if run is None else _with_spending(bench, run))
    if run is None:
        await bench.reply(_nothing(bench))
        return None
    ahead = await bench.office.runs.ahead(run) if run.status is RunStatus.QUEUED else 0
    await bench.reply(replies.status(run, ahead))
    return None


async def explain(bench: Bench) -> Later | None:
    """Why the latest run ended as it did: what was voted, what was learnt."""
    run = await _latest(bench)
    if run is None:
        await bench.reply(_nothing(bench))
        return None
    solved = await _store(bench, run).load(OUTCOME_KEY, Solved)
    result = solved.result if solved else None
    await bench.reply(replies.explained(run, result, await edits(bench)))
    return None


async def config(bench: Bench) -> Later | None:
    """The settings that are in force here, and where each is from; or a file of them, if asked."""
    if "propose" in (word.casefold() for word in bench.order.command.words):
        await propose(bench)
        return None
    found = bench.found
    if isinstance(found, LayerProblem):
        await bench.reply(replies.config_invalid(found))
    else:
        await bench.reply(as_comment(found))
    return None


async def show_help(bench: Bench) -> Later | None:
    """Every verb."""
    rows = [(f"{name} {verb.words}".strip(), verb.does) for name, verb in bench.verbs.items()]
    await bench.reply(replies.helped(bench.settings.app_name, rows, bench.settings.label))
    return None


async def _latest(bench: Bench) -> Run | None:
    """The issue's latest run; on a pull request of ours, that of the issue that it fixes."""
    order, runs = bench.order, bench.office.runs
    issue = order.issue
    if order.place is Place.PULL:
        record = await Records(runs.redis, runs.keys).get(order.repo, order.issue)
        if record is None:
            return None
        issue = record.issue
    run = await runs.last_readable(order.repo, issue)
    return None if run is None else await _with_spending(bench, run)


def _nothing(bench: Bench) -> str:
    if bench.order.place is Place.PULL:
        return replies.not_mine()
    return replies.no_run(bench.settings.app_name)


async def _with_spending(bench: Bench, run: Run) -> Run:
    """With what it has spent by now."""
    ledger = await _store(bench, run).load(LEDGER_KEY, Ledger)
    return changed(run, dollars=max(run.dollars, ledger.dollars if ledger else 0.0))


def _store(bench: Bench, run: Run) -> RedisStore:
    runs = bench.office.runs
    return RedisStore(runs.redis, runs.keys, run.id)
