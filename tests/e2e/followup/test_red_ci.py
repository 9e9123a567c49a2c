"""What the repository's own checks find in our pull request is mended, at most twice."""

import pytest

from capuchin_demo.hub.check_actions import report_again, report_check
from capuchin_demo.hub.state import CheckRun, Pull
from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import FOLLOW_UP_DIFF, open_pull
from tests.e2e.harness import BotHarness
from tests.support.data.diffs import diff_of

pytestmark = pytest.mark.settings(review_seconds=0, reverify_seconds=0)

ANSWERS = "version: 1\nanswer_ci: true\n"
AGAIN = diff_of(
    "def total(a, b):\n    # Both count.\n    return a + b\n",
    "def total(a, b):\n    # Both count, as said.\n    return a + b\n",
    "shop.py",
)
LOG = "x" * 300_000 + "\nE   assert total(1, 2) == 3\n"


async def fail(bot: BotHarness, pull: Pull, app: str = "github-actions") -> CheckRun:
    """A job fails on the head."""
    run = await report_check(bot.hub, pull, "failure", name="tests", app=app, log=LOG)
    await bot.settle()
    return run


async def test_a_failing_job_is_run_again_then_mended_from_its_log_and_at_most_twice(
    bot: BotHarness,
) -> None:
    _, pull = await open_pull(bot, ANSWERS)
    for answers, diff in enumerate((FOLLOW_UP_DIFF, AGAIN), 1):
        bot.runner.revised = Revision(patch=Patch(diff=diff), answer="It is mended.")
        run = await fail(bot, pull)
        assert (run.status, len(bot.runner.tasks)) == ("queued", answers - 1)
        before = pull.head_sha
        await report_again(bot.hub, pull, run, "failure")
        await bot.settle()
        assert len(bot.runner.tasks) == answers
        assert pull.head_sha != before
    for task in bot.runner.tasks:
        assert "tests" in task.feedback[0]
        assert task.logs[0].endswith("E   assert total(1, 2) == 3")
        assert len(task.logs[0]) < 20_000
    await fail(bot, pull)
    assert len(bot.runner.tasks) == 2


async def test_a_job_that_passes_when_it_runs_again_costs_nothing(bot: BotHarness) -> None:
    _, pull = await open_pull(bot, ANSWERS)
    run = await fail(bot, pull)
    await report_again(bot.hub, pull, run, "success")
    await bot.settle()
    assert bot.runner.tasks == []


@pytest.mark.parametrize("permitted", [False, True])
async def test_a_ci_of_another_kind_is_answered_at_once(bot: BotHarness, permitted: bool) -> None:
    repo, pull = await open_pull(bot, ANSWERS)
    assert repo.installation is not None
    if not permitted:
        del repo.installation.permissions["actions"]
    await fail(bot, pull, "ci" if permitted else "github-actions")
    (task,) = bot.runner.tasks
    assert "assert total" not in task.logs[0]


async def test_what_fails_without_our_commits_is_not_ours(bot: BotHarness) -> None:
    _, pull = await open_pull(bot, ANSWERS)
    ours, pull.head_sha = pull.head_sha, pull.base_sha
    await report_check(bot.hub, pull, "failure", name="tests")
    pull.head_sha = ours
    await fail(bot, pull, "ci")
    assert bot.runner.tasks == []


async def test_nobody_who_has_not_asked_for_it_gets_commits_for_red_checks(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    await fail(bot, pull, "ci")
    assert bot.runner.tasks == []
