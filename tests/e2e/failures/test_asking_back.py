"""A worker that dies while it asks back: it is asked once, and nothing is begun meanwhile."""

from __future__ import annotations

import pytest

from bot.data.run import RunStatus
from tests.e2e.harness import BotHarness

EFFECTS = ["POST comments", "POST reactions", "DELETE capuchin"]
"""All that asking back does to GitHub, in order."""


@pytest.mark.parametrize("effect", range(1, len(EFFECTS) + 1))
async def test_a_worker_that_dies_while_it_asks_back_is_replaced_without_a_trace(
    bot: BotHarness, manual_bot: BotHarness, effect: int
) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    await bot.hub.assign(issue, "bob", "alice")
    await bot.label(issue)
    asked = await bot.run_of(issue)
    lease = await manual_bot.die_after(
        effect, await manual_bot.take(asked.id), bot.parts.solve.handle
    )
    if (
        lease.run.end_reported
    ):  # what it asked about may be settled by then; it was asked all the same
        issue.assignees.clear()
    await lease.release(lease.run)
    await bot.settle()
    run = await bot.run_of(issue)
    assert (run.id, run.status) == (asked.id, RunStatus.NEEDS_CONFIRMATION)
    assert [comment.body.count("`bob`") for comment in issue.comments] == [1]
    assert [reaction.content for reaction in issue.reactions] == ["confused"]
    assert (issue.labels, repo.list_branches(), bot.runner.jobs) == ([], ["main"], [])
