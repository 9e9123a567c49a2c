"""The verbs that choose among edits that are there: other people's, and our own runners-up."""

from __future__ import annotations

import re
from typing import Final

from bot.commands.command import Bench
from bot.commands.run import beginning, waiting
from bot.comments import candidates as replies
from bot.queue.consumer import Later
from bot.storage.branch_history import Contents, order_of
from bot.storage.checkpoints import RedisStore
from bot.storage.keys import CONTENTS_KEY
from bot.storage.runs import Outcome, published_by
from bot.types import Mode, Place, Run
from pipeline.solve import OUTCOME_KEY, Solved
from pipeline.types import Selection

MOST_PULLS: Final = 20
_MARKER: Final = re.compile(r"<!-- capuchin:run=([0-9a-f]{32}) -->")


async def judge(bench: Bench) -> Later | None:
    """Ask for a verdict on pull requests; the run says the rest."""
    count = len(set(bench.order.command.numbers))
    if not 1 <= count <= MOST_PULLS:
        await bench.reply(replies.judge_what(bench.settings.app_name, MOST_PULLS))
        return None
    return await beginning(Mode.JUDGE)(bench)


async def use(bench: Bench) -> Later | None:
    """Ask for another edit of an earlier run in its pull request; the run says the rest."""
    order, office = bench.order, bench.office
    source = await _source(bench)
    if source is None or source.pull_request is None:
        await bench.reply(replies.nothing_to_use())
        return None
    held = await _held(bench, source)
    if held is None:
        await bench.reply(replies.no_longer_kept(source.pull_request))
        return None
    numbers = order.command.numbers
    if len(numbers) != 1 or not 1 <= numbers[0] <= len(order_of(held.selection)):
        await bench.reply(replies.use_what(bench.settings.app_name, held))
        return None
    asked = await office.runs.create(
        order.repo,
        source.issue,
        asked_by=order.by,
        delivery=order.id,
        join=False,
        mode=Mode.USE,
        candidate=numbers[0],
        published=source.id,
        base_commit=source.base_commit,
        asked_at=order.at,
        confirmed=True,
    )
    if asked.outcome is Outcome.CREATED:
        await office.nudges.send(asked.run_id, 0)
        if order.place is Place.PULL:
            await bench.reply(replies.told_on(source.issue))
    return await waiting(bench, asked.outcome)


async def edits(bench: Bench) -> str:
    """The edits that `use` can choose from, as `explain` lists them; empty when there is no choice.

    They are those of the latest run that opened a pull request, whatever came after it.
    """
    source = await _source(bench)
    held = None if source is None else await _held(bench, source)
    if held is None or len(order_of(held.selection)) < 2:
        return ""
    return replies.edits_of(bench.settings.app_name, held)


async def _held(bench: Bench, source: Run) -> replies.Held | None:
    """None when its edits are no longer kept."""
    runs = bench.office.runs
    store = RedisStore(runs.redis, runs.keys, source.id)
    solved = await store.load(OUTCOME_KEY, Solved)
    if solved is None or not isinstance(solved.result, Selection) or source.pull_request is None:
        return None
    contents = await store.load(CONTENTS_KEY, Contents) or Contents.of(source)
    pull = await bench.repo.pulls.get(source.pull_request)
    state = contents.at(pull.head_sha) if pull else None
    return replies.Held(solved.result, source.pull_request, state.candidate if state else None)


async def _source(bench: Bench) -> Run | None:
    """The run that opened the pull request: of this issue, or this pull request itself."""
    order, runs = bench.order, bench.office.runs
    if order.place is Place.ISSUE:
        run_id = published_by(await runs.last_readable(order.repo, order.issue))
    else:
        pull = await bench.repo.pulls.get(order.issue)
        ours = pull is not None and pull.author == bench.repo.identity.login
        found = _MARKER.search(pull.body or "") if pull and ours else None
        run_id = found[1] if found else ""
    run = await runs.readable(run_id) if run_id else None
    if run is None or run.repo.full_name.lower() != order.repo.full_name.lower():
        return None
    here = order.place is Place.ISSUE or run.pull_request == order.issue
    return run if here else None
