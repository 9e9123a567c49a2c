"""A dry run, with the real pipeline in the real sandbox."""

from __future__ import annotations

from bot.data.run import Mode, RunId, RunStatus, now
from bot.storage.history import RunHistoryEntry
from pipeline.store import encode_record
from tests.e2e.harness import BotHarness
from tests.e2e.people import MAINTAINER
from tests.support.hub import ref_of


async def test_a_dry_run_tells_what_it_would_begin_with_and_opens_nothing(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo()
    history = recorded_bot.storage.keys.history(ref_of(repo))
    for dollars in (1.0, 2.0, 3.0):  # what earlier fixes cost
        entry = RunHistoryEntry(
            run=RunId(f"run-{dollars}"), status=RunStatus.NO_FIX, mode=Mode.FIX, dollars=dollars
        )
        await recorded_bot.redis.zadd(history, {encode_record(entry): now().timestamp() - 60})
    issue = await recorded_bot.open_issue(repo, label=False)
    await recorded_bot.hub.add_label(issue, "capuchin:dry-run", MAINTAINER)
    run = await recorded_bot.solve(issue)
    assert run.status is RunStatus.PLANNED, run
    said = issue.comments[0].body
    assert "- `shop/till.py`" in said
    assert "total(1, 2) is -1" in said
    assert "**A fix** would cost" in said
    assert ("$1.50" in said, "$2.50" in said) == (True, True)
    assert (repo.list_branches(), repo.pulls, issue.labels) == (["main"], [], [])
    assert [reaction.content for reaction in issue.reactions] == ["rocket"]
