"""Webhooks that come late, or never: the end is the same."""

import dataclasses
from datetime import timedelta

import pytest

from bot.data.run import RunStatus
from capuchin_demo.hub.state import Issue
from pipeline.store import encode_record
from sandbox.frozen import replace
from tests.e2e.followup.steps import REVIEW_LINE, open_pull, thread_replies
from tests.e2e.harness import BotHarness
from tests.support.hub import ref_of

OFTEN = 0.2
"""Seconds between two looks of the sweep."""
pytestmark = pytest.mark.settings(missed_seconds=OFTEN, review_seconds=0)


def a_minute_ago(issue: Issue) -> None:
    """What has happened to it by now."""
    before = timedelta(minutes=1)
    issue.timeline[:] = [dataclasses.replace(one, at=one.at - before) for one in issue.timeline]


async def swept(bot: BotHarness, issue: Issue, status: RunStatus) -> None:
    """A worker that sweeps brings the issue's run to this end."""
    async with bot.working(find_missed=True):
        await bot.until(lambda: ended(bot, issue, status))


async def ended(bot: BotHarness, issue: Issue, status: RunStatus) -> bool:
    run = await bot.runs.get_latest(ref_of(issue.repo), issue.number)
    return run is not None and run.status is status


async def test_a_label_and_its_mode_are_found_without_a_webhook(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    async with bot.without_webhooks():
        await bot.label(issue, suffix=":dry-run")
    await swept(bot, issue, RunStatus.PLANNED)


async def test_a_webhook_after_the_end_of_the_run_that_the_sweep_began_is_answered(
    bot: BotHarness,
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    async with bot.without_webhooks():
        await bot.label(issue)
    late = bot.hub.deliveries[-1]
    await swept(bot, issue, RunStatus.OPENED_PULL_REQUEST)
    first = await bot.run_of(issue)
    kept = replace(first, created_at=first.created_at + timedelta(minutes=10))
    await bot.redis.set(bot.storage.keys.run(first.id), encode_record(kept))
    assert (await bot.hub.redeliver(late)).status == 200
    assert (await bot.run_of(issue)).id == first.id
    assert await bot.runs.get_current(ref_of(issue.repo), issue.number) is None


@pytest.mark.settings(follow_up_seconds=OFTEN, review_seconds=0)
async def test_a_push_and_a_review_without_a_webhook_are_seen(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    async with bot.without_webhooks():
        await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
    async with bot.working(find_missed=True):
        await bot.until(lambda: thread_replies(bot, pull))
    async with bot.without_webhooks():
        await bot.hub.commit(repo, pull.head_ref, {"x.py": "x = 2\n"}, "Mine", "alice")
    async with bot.working(find_missed=True):
        await bot.until(lambda: bot.comments_of(pull))
    assert len(bot.comments_of(pull)) == 1


@pytest.mark.parametrize(("by", "says"), [("alice", "/capuchin judge"), ("mallory", "@mallory")])
async def test_commands_in_a_review_and_in_an_edit_are_found_without_a_webhook(
    bot: BotHarness, by: str, says: str
) -> None:
    _, pull = await open_pull(bot)
    comment = await bot.comment(pull, "hello")
    comment.created_at -= timedelta(minutes=1)
    async with bot.without_webhooks():
        await bot.hub.review(pull, by, "Well.\n/capuchin help", "COMMENTED")
        await bot.hub.edit_comment(comment, "/capuchin help", by)
    async with bot.working(find_missed=True):
        wanted = 2 if by == "alice" else 1
        await bot.until(lambda: len(bot.comments_of(pull)) == wanted)
    assert all(says in one for one in bot.comments_of(pull))


async def test_a_mistake_in_the_settings_is_reported_though_no_webhook_came(
    bot: BotHarness,
) -> None:
    repo = bot.add_repo()
    await bot.report_issue(repo)
    async with bot.working(find_missed=True):
        await bot.until(lambda: _looked(bot))
    async with bot.without_webhooks():
        files: dict[str, str | None] = {".github/capuchin.yml": "samples: 0\n"}
        await bot.hub.commit(repo, "settings", files, "Settings", "bob")
        pull = await bot.hub.open_pull(repo, "settings", "Settings", "bob")
    async with bot.working(find_missed=True):
        await bot.until(lambda: repo.check_runs)
    (run,) = repo.check_runs
    assert (run.head_sha, run.conclusion) == (pull.head_sha, "failure")


async def _looked(bot: BotHarness) -> bool:
    """Whether the sweep has seen the repository once: only what changes then is looked at."""
    (repo,) = bot.hub.repos.values()
    return await bot.storage.cursors.get(ref_of(repo)) is not None


async def test_a_label_taken_off_without_a_webhook_stops_the_run(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    async with bot.at_work(bot.label(issue), find_missed=True):
        async with bot.without_webhooks():
            await bot.hub.remove_label(issue, "capuchin", "alice")
        await bot.until(lambda: bot.runner.cut)
    assert (await bot.run_of(issue)).status is RunStatus.STOPPED
    assert "label" in bot.comments_of(issue)[0]


async def test_a_review_without_a_webhook_is_answered_once(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    async with bot.working(find_missed=True):
        async with bot.without_webhooks():
            await bot.hub.review(pull, "alice", lines=[("shop.py", 2, "Why?")])
        (late,) = [d for d in bot.hub.deliveries if d.event == "pull_request_review_comment"]
        await bot.until(lambda: len(pull.reviews) > 1)
        await bot.hub.redeliver(late)
    question, answer = (review.comments[0] for review in pull.reviews)
    assert (answer.review.author, answer.in_reply_to) == (bot.hub.bot, question.id)


async def test_a_command_on_a_line_without_a_webhook_is_carried_out_once(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    async with bot.working(find_missed=True):
        async with bot.without_webhooks():
            await bot.hub.review(pull, "alice", lines=[("shop.py", 2, "/capuchin help")])
        (late,) = [d for d in bot.hub.deliveries if d.event == "pull_request_review_comment"]
        await bot.until(lambda: bot.comments_of(pull))
        await bot.hub.redeliver(late)
    helped = [said for said in bot.comments_of(pull) if "capuchin:reply to=review-comment-" in said]
    assert len(helped) == 1


async def test_an_issue_closed_without_a_webhook_ends_our_pull_request(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    async with bot.working(find_missed=True):
        async with bot.without_webhooks():
            await bot.hub.close_issue(repo.issues[1], "alice")
        await bot.until(lambda: pull.state == "closed")
    assert "#1" in bot.comments_of(pull)[0]


async def test_a_pull_request_closed_without_a_webhook_is_let_go(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    records = bot.storage.pulls

    async def let_go() -> bool:
        return await records.get(ref_of(pull.repo), pull.number) is None

    async with bot.working(find_missed=True):
        async with bot.without_webhooks():
            await bot.hub.close_issue(pull, "bob")
        await bot.until(let_go)


async def test_a_run_resumed_with_its_pull_request_open_and_its_issue_closed_has_succeeded(
    manual_bot: BotHarness,
) -> None:
    repo, issue, lease = await manual_bot.begin_run(dies_after=9)
    assert len(repo.pulls) == 1
    await manual_bot.hub.close_issue(issue, "alice")
    run = await manual_bot.work_on(lease)
    assert (run.status, run.pull_request) == (RunStatus.OPENED_PULL_REQUEST, 2)
    assert (run.failure, len(repo.pulls)) == (None, 1)
    assert "I opened #2" in issue.comments[0].body


async def test_a_run_whose_last_word_was_cut_off_says_it_whatever_has_become_of_the_issue(
    manual_bot: BotHarness,
) -> None:
    _, issue, lease = await manual_bot.begin_run(dies_after=11)
    assert lease.run.pull_request == 2
    await manual_bot.hub.close_issue(issue, "alice")
    run = await manual_bot.work_on(lease)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert "I opened #2" in issue.comments[0].body


@pytest.mark.parametrize("part", ["title", "body"])
async def test_what_was_changed_after_a_label_that_the_sweep_found_is_not_read(
    bot: BotHarness, part: str
) -> None:
    """The webhook was lost: the person who asked is asked again, and nothing begins."""
    repo, issue = await bot.add_repo_with_issue()
    async with bot.without_webhooks():
        await bot.label(issue)
        await bot.hub.edit_issue(issue, "bob", **{part: "Delete the tests"})
        a_minute_ago(issue)
    await swept(bot, issue, RunStatus.NEEDS_CONFIRMATION)
    (said,) = bot.comments_of(issue)
    assert "after the request" in said
    assert (bot.runner.jobs, repo.list_branches(), issue.labels) == ([], ["main"], [])
    await bot.ask_by_label(issue)
    (job,) = bot.runner.jobs
    assert getattr(job.issue, part) == "Delete the tests"


async def test_what_was_changed_before_a_label_that_the_sweep_found_is_read(
    bot: BotHarness,
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    async with bot.without_webhooks():
        await bot.hub.edit_issue(issue, "bob", title="total() is wrong", body="It adds.")
        a_minute_ago(issue)
        await bot.label(issue)
    await swept(bot, issue, RunStatus.OPENED_PULL_REQUEST)
    assert bot.runner.jobs[0].issue.title == "total() is wrong"
