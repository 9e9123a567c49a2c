"""The App is installed, uninstalled or suspended; repositories come and go."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from arq import ArqRedis

from bot.data.run import RunStatus
from capuchin_demo.hub import events
from capuchin_demo.hub.check_actions import report_check
from capuchin_demo.hub.state import Repo, now
from tests.e2e.followup.steps import open_pull
from tests.e2e.harness import BotHarness, StartBot
from tests.support.github.hub_state import Exchange
from tests.support.hub import installation_of, ref_of

LABELS = ["capuchin", "capuchin:auto", "capuchin:disabled", "capuchin:dry-run"]


async def take_access(bot: BotHarness, repo: Repo, how: str) -> None:
    match how:
        case "uninstall":
            await bot.hub.uninstall(repo)
        case "remove":
            bot.hub.add_repo("acme/other", {"a.py": "1\n"})
            await bot.hub.uninstall(repo)
        case "suspend":
            await bot.hub.suspend(repo, "alice")
        case "archive":
            await bot.hub.archive_repo(repo)
        case _:
            await bot.hub.delete_repo(repo)


taken = pytest.mark.parametrize("how", ["uninstall", "remove", "suspend", "archive", "delete"])


@taken
async def test_a_run_at_work_and_a_queued_one_stop(bot: BotHarness, how: str) -> None:
    repo = bot.add_repo()
    ref = ref_of(repo)
    issues = [await bot.report_issue(repo) for _ in range(4)]
    bot.runner.go_on.clear()
    async with bot.working():
        for issue in issues:
            await bot.label(issue)
        await bot.until(lambda: bot.runner.waiting)
        await take_access(bot, repo, how)
        await bot.until(lambda: bot.runner.cut)
        await bot.until(bot.is_idle)
        assert bot.runner.jobs == []  # no gate was passed
    for issue in issues:
        run = await bot.run_at(ref, issue.number)
        assert run.status in (RunStatus.STOPPED, RunStatus.FAILED)
        assert run.dollars in (0, 0.25)


@taken
async def test_records_of_pull_requests_go_with_the_repository(bot: BotHarness, how: str) -> None:
    repo, pull = await open_pull(bot)
    ref = ref_of(repo)
    await take_access(bot, repo, how)
    await bot.settle()
    kept = await bot.storage.pulls.get(ref, pull.number)
    assert (kept is not None) == (how in ("suspend", "archive"))


async def test_work_goes_on_after_a_suspension(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    await bot.hub.suspend(repo, "alice")
    await bot.settle()
    await bot.hub.unsuspend(repo, "alice")
    await bot.say(pull, "/capuchin status")
    assert not any("did not open this pull request" in said for said in bot.comments_of(pull))
    issue = await bot.open_issue(repo)
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


@pytest.mark.parametrize("heard", [True, False])
async def test_what_was_paid_for_is_published_after_a_suspension(
    bot: BotHarness, *, heard: bool
) -> None:
    """Suspended after the commits, before the pull request."""
    repo = bot.add_repo()
    done: list[Exchange] = []

    def suspend(exchange: Exchange) -> None:
        one = installation_of(repo)
        if repo.pulls or done or len(repo.list_branches()) == 1:
            return
        done.append(exchange)
        one.suspended_at = now()
        bot.hub.tokens.revoke(one)
        if heard:
            events.send_installation_event(bot.hub, one, "suspend", repo.owner)

    bot.hub.listen(suspend)
    issue = await bot.open_issue(repo)
    await bot.settle()
    lost = await bot.run_of(issue)
    assert lost.status in (RunStatus.FAILED, RunStatus.STOPPED)
    assert repo.pulls == []
    paid = len(bot.runner.jobs)
    await bot.hub.unsuspend(repo, "alice")
    await bot.hub.remove_label(issue, "capuchin", "alice")
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert len(repo.pulls) == 1
    assert len(bot.runner.jobs) == paid == 1


async def test_permissions_that_an_owner_accepts_are_heard_and_compared_again(
    bot: BotHarness, caplog: pytest.LogCaptureFixture
) -> None:
    repo = bot.add_repo()
    one = installation_of(repo)
    wanted, one.permissions = one.permissions, {**one.permissions, "checks": "read"}
    caplog.set_level("INFO")
    events.send_installation_event(bot.hub, one, "new_permissions_accepted", repo.owner)
    await bot.hub.wait_until_delivered()
    await bot.settle()
    assert "@acme accepted permissions" in caplog.text
    assert "has not accepted permissions: checks: write" in caplog.text
    caplog.clear()
    one.permissions = wanted
    await bot.redis.delete(bot.storage.keys.turn(f"permissions:{one.id}"))
    events.send_installation_event(bot.hub, one, "new_permissions_accepted", repo.owner)
    await bot.hub.wait_until_delivered()
    await bot.settle()
    assert "accepted permissions" in caplog.text
    assert "has not accepted" not in caplog.text
    assert set(LABELS) <= repo.labels.keys()


async def test_other_repositories_are_not_concerned(bot: BotHarness) -> None:
    repo, other = bot.add_repo(), bot.add_repo("acme/other")
    issue = await bot.report_issue(other)
    async with bot.at_work(bot.label(issue)):
        await bot.hub.uninstall(repo)
        bot.runner.go_on.set()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_an_event_that_comes_late_stops_nothing(bot: BotHarness) -> None:
    """Removed and added again, and only then the first webhook is delivered anew."""
    repo = bot.add_repo()
    bot.hub.add_repo("acme/other", {"a.py": "1\n"})
    issue = await bot.report_issue(repo)
    await bot.hub.uninstall(repo)
    removed = bot.hub.deliveries[-1]
    await bot.hub.install(repo)
    async with bot.at_work(bot.label(issue)):
        await bot.hub.redeliver(removed)
        run = await bot.run_of(issue)
        await bot.until(lambda: _is_dropped(bot, run.id))
        bot.runner.go_on.set()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def _is_dropped(bot: BotHarness, run_id: str) -> bool:
    return not await bot.redis.exists(f"{bot.settings.redis_prefix}run:{run_id}:stop")


@pytest.mark.parametrize("first", [True, False])
async def test_an_installation_makes_the_labels_and_no_empty_suites(
    bot: BotHarness, *, first: bool
) -> None:
    if not first:
        bot.add_repo("acme/other")
    repo = bot.hub.add_repo("acme/shop", {"a.py": "1\n"}, installed=False)
    bot.hub.add_repo_label(repo, "capuchin")
    await bot.hub.install(repo)
    await bot.settle()
    assert sorted(name for name in repo.labels if name.startswith("capuchin")) == LABELS
    assert not repo.makes_suites
    await bot.hub.commit(repo, "main", {"a.py": "2\n"}, "Change", "alice")
    assert repo.suites == []


async def test_many_repositories_are_set_up_at_a_pace_the_active_ones_first(
    start_bot: StartBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gets its label before any gets the rest, and no other write waits for that."""
    enqueue = ArqRedis.enqueue_job

    async def enqueue_slowly(queue: ArqRedis, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0.1)  # the first are carried out before the last are put in
        return await enqueue(queue, *args, **kwargs)

    monkeypatch.setattr(ArqRedis, "enqueue_job", enqueue_slowly)
    async with start_bot(hourly_writes=40) as bot:
        bot.quiet = False
        repos = [bot.add_repo(f"acme/shop{number}") for number in range(60)]
        for number, repo in enumerate(repos):
            repo.pushed_at += timedelta(minutes=number)
        one = repos[0].installation
        assert one is not None
        events.send_installation_event(bot.hub, one, "created", repos[0].owner)
        await bot.hub.wait_until_delivered()
        issue = await bot.open_issue(repos[0])

        async def all_are_queued() -> bool:
            jobs = await bot.inbox.arq.zrange(bot.storage.queue_name, 0, -1)
            return not any(b"set-up-all" in name for name in jobs)

        async with bot.working(settle=False):
            await bot.until(lambda: issue.repo.pulls)
            await bot.until(lambda: sum("capuchin" in repo.labels for repo in repos[1:]) >= 40)
            await bot.until(all_are_queued)
        due = await bot.inbox.arq.zrange(bot.storage.queue_name, 0, -1, withscores=True)
        last = max(at for name, at in due if b"set-up-label" in name) / 1000
        assert 600 < last - now().timestamp() < 1200
        assert last < min(at for name, at in due if b"set-up-rest" in name) / 1000
    assert all("capuchin" in repo.labels for repo in repos[-40:])
    assert not any("capuchin:auto" in repo.labels for repo in repos)


async def test_checks_are_made_where_suites_are_not(bot: BotHarness) -> None:
    repo = bot.hub.add_repo("acme/shop", {"a.py": "1\n"}, installed=False)
    await bot.hub.install(repo)
    await bot.settle()
    await bot.hub.commit(repo, "fix", {".github/capuchin.yml": "samples: x\n"}, "Set", "alice")
    pull = await bot.hub.open_pull(repo, "fix", "Set", "alice")
    await bot.settle()
    assert [run.head_sha for run in repo.check_runs] == [pull.head_sha]


async def test_an_archived_repository_gets_no_labels(bot: BotHarness) -> None:
    repo = bot.hub.add_repo("acme/shop", {"a.py": "1\n"}, installed=False)
    repo.archived = True
    await bot.hub.install(repo)
    await bot.settle()
    assert "capuchin" not in repo.labels


async def test_a_suite_of_several_pull_requests_is_followed_on_all(bot: BotHarness) -> None:
    repo = bot.add_repo()
    await bot.hub.commit(repo, "theirs", {"a.py": "1\n"}, "Add", "alice")
    theirs = await bot.hub.open_pull(repo, "theirs", "Add", "alice")
    await bot.open_issue(repo)
    await bot.settle()
    ours = repo.pulls[-1]
    assert ours.draft
    theirs.head_sha = ours.head_sha
    await report_check(bot.hub, ours, "success")
    await bot.settle()
    assert not ours.draft
