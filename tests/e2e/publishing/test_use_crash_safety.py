"""`/capuchin use`, with a worker that dies after any of its effects: each is had once."""

from __future__ import annotations

import pytest

from bot.data.run import Login, Mode, RunStatus
from capuchin_demo.hub.state import Issue, Repo
from pipeline.workflows.outcome import OUTCOME_KEY, SolveResult
from tests.e2e.harness import BotHarness
from tests.support.data.publishing import a_selection
from tests.support.hub import ref_of


async def opened(manual_bot: BotHarness) -> tuple[Repo, Issue, str]:
    """A pull request of a run that is kept, and the run's id."""
    repo, issue = await manual_bot.prepare_issue()
    lease = await manual_bot.lease(repo, issue)
    run = await manual_bot.work_on(lease)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    store = manual_bot.storage.checkpoints(run.id)
    await store.save(OUTCOME_KEY, SolveResult(result=a_selection()))
    return repo, issue, run.id


async def use(manual_bot: BotHarness, repo: Repo, issue: Issue, source: str, delivery: str) -> str:
    asked = await manual_bot.runs.create(
        ref_of(repo), issue.number, asked_by=Login("alice"), delivery=delivery, mode=Mode.USE,
        candidate=2, published_run=source,
    )  # fmt: skip
    return asked.run_id


EFFECTS = 6


@pytest.mark.parametrize("effect", range(1, EFFECTS + 1))
async def test_a_worker_that_dies_leaves_one_swap(manual_bot: BotHarness, effect: int) -> None:
    repo, issue, source = await opened(manual_bot)
    (pull,) = repo.pulls
    before = pull.head_sha
    lease = await manual_bot.take(await use(manual_bot, repo, issue, source, "use"))
    lease = await manual_bot.die_after(effect, lease)
    run = await manual_bot.work_on(lease)
    assert (run.status, run.pull_request) == (RunStatus.SWAPPED, pull.number)
    assert repo.read_file(pull.head_sha, "shop.py") == "def total(a, b):\n    return b + a\n"
    assert repo.read_file(pull.head_sha, "tests/test_total.py") is not None
    two = [commit.message.split("\n")[0] for commit in repo.git.log(pull.head_sha, without=before)]
    assert (two[0], "@alice" in two[1]) == ("Make total() add", True)
    assert (len(repo.pulls), len(repo.list_branches())) == (1, 2)
    records = manual_bot.storage.pulls
    record = await records.get(ref_of(repo), pull.number)
    assert record is not None
    assert (record.head, record.pending_head) == (pull.head_sha, "")
    assert len([c for c in issue.comments if "now holds edit B" in c.body]) == 1


async def test_no_effect_is_left_out_above(manual_bot: BotHarness) -> None:
    repo, issue, source = await opened(manual_bot)
    before = len(manual_bot.effects)
    await manual_bot.work_on(
        await manual_bot.take(await use(manual_bot, repo, issue, source, "use"))
    )
    assert len(manual_bot.effects) - before == EFFECTS
