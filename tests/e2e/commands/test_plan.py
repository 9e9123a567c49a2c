"""A dry run, with the real pipeline in the real sandbox."""

from __future__ import annotations

from bot.types import RunStatus
from tests.e2e.harness import BotHarness
from tests.e2e.people import MAINTAINER


async def test_a_dry_run_tells_what_it_would_begin_with_and_opens_nothing(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo()
    issue = await recorded_bot.open_issue(repo, label=False)
    await recorded_bot.hub.add_label(issue, "capuchin:dry-run", MAINTAINER)
    run = await recorded_bot.solve(issue)
    assert run.status is RunStatus.PLANNED, run
    said = issue.comments[0].body
    assert "- `shop/till.py`" in said
    assert "This script fails because of the issue" in said
    assert "total(1, 2) is -1" in said
    assert "**A fix** would cost about $" in said
    assert (repo.list_branches(), repo.pulls, issue.labels) == (["main"], [], [])
    assert [reaction.content for reaction in issue.reactions] == ["rocket"]
