"""GitHub's limits on an installation: every run and worker of it keeps them, and no other."""

import asyncio

import pytest

from bot.comments.status import status_marker
from bot.data.failure import Failure
from bot.data.progress import Progress
from bot.data.run import RunId, now
from bot.errors import RateLimited, WritesSpent
from bot.runs.status_comment import StatusComment
from capuchin_demo.hub.state import Issue
from sandbox.frozen import replace
from tests.e2e.harness import BotHarness
from tests.support.github.faults import ContentLimit
from tests.support.github.hub_state import Exchange
from tests.support.hub import installation_of, ref_of

LONG = 600


async def test_a_limit_is_kept_by_every_run_of_the_installation_and_by_no_other(
    bot: BotHarness,
) -> None:
    github, one = bot.parts.github, bot.add_repo()
    other, elsewhere = bot.add_repo("acme/other"), bot.add_repo("elsewhere/shop")
    issues = [await bot.report_issue(repo) for repo in (one, other, elsewhere)]
    limit = ContentLimit(most=0, seconds=LONG)
    bot.hub.content_limits[installation_of(one).id] = limit
    async with (
        github.open_repository(ref_of(one)) as first,
        github.open_repository(ref_of(other)) as second,
        github.open_repository(ref_of(elsewhere)) as third,
    ):
        with pytest.raises(RateLimited):
            await first.issues.reactions(issues[0].number).add("eyes")
        with pytest.raises(RateLimited) as caught:
            await second.issues.reactions(issues[1].number).add("eyes")
        await third.issues.reactions(issues[2].number).add("eyes")
    assert caught.value.retry_after == pytest.approx(LONG, abs=LONG / 2)
    with pytest.raises(RateLimited):
        async with github.open_repository(ref_of(other)):
            pass
    assert limit.refused == 1


async def test_a_query_over_the_limit_stops_writes_too(bot: BotHarness) -> None:
    github, repo = bot.parts.github, bot.add_repo()
    issue = await bot.report_issue(repo)
    bot.hub.faults.fail_next_queries("RATE_LIMITED", "Wait.", headers={"retry-after": str(LONG)})
    async with github.open_repository(ref_of(repo)) as opened:
        facts = await opened.issues.get(issue.number)
        assert facts is not None
        with pytest.raises(RateLimited):
            await opened.issues.get_edit_time(facts)
        before = bot.count_writes()
        with pytest.raises(RateLimited):
            await opened.issues.reactions(issue.number).add("eyes")
    assert bot.count_writes() == before


async def test_progress_is_not_written_while_github_limits(manual_bot: BotHarness) -> None:
    bot = manual_bot
    repo, _, lease = await bot.begin_run()
    refused = asyncio.Event()

    def heard(exchange: Exchange) -> None:
        if exchange.status == 403:
            refused.set()

    bot.hub.listen(heard)
    async with bot.parts.github.open_repository(ref_of(repo)) as opened:
        status = StatusComment(opened, lease, bot.settings)
        begun = status_marker(lease.run.id)
        run = replace(lease.run, comment_id=await status.write(lease.run, begun))
        limit = ContentLimit(most=0, seconds=LONG)
        bot.hub.content_limits[installation_of(repo).id] = limit
        async with status.show_updates(run):
            status.update(Progress(doing="Step 0."))
            await refused.wait()
            for number in range(1, 20):
                status.update(Progress(doing=f"Step {number}."))
                await bot.until(lambda number=number: shown(bot, run.id, f"Step {number}."))
    assert limit.refused == 1


async def shown(bot: BotHarness, run: RunId, doing: str) -> bool:
    """Whether the run's page has it."""
    progress = await bot.storage.progress.load(run)
    return progress.doing == doing


@pytest.mark.settings(hourly_writes=2, hourly_writes_seconds=LONG)
async def test_the_repositories_of_an_owner_share_the_budget(bot: BotHarness) -> None:
    github = bot.parts.github
    first, second = bot.add_repo(), bot.add_repo("acme/other")
    issues = [await bot.report_issue(repo) for repo in (first, second)]
    async with github.open_repository(ref_of(first)) as opened:
        await opened.issues.reactions(issues[0].number).add("eyes")
        await opened.issues.reactions(issues[0].number).add("rocket")
    async with github.open_repository(ref_of(second)) as opened:
        with pytest.raises(WritesSpent):
            await opened.issues.reactions(issues[1].number).add("eyes")


@pytest.mark.settings(minute_writes=2)
async def test_a_minute_has_a_budget_too_which_needs_no_notice(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    async with bot.parts.github.open_repository(ref_of(repo), about=issue.number) as opened:
        for text in ("one", "two"):
            await opened.issues.comment_once(issue.number, text, text)
        with pytest.raises(WritesSpent) as caught:
            await opened.issues.comment_once(issue.number, "three", "three")
        await opened.issues.reactions(issue.number).add("eyes")
    assert caught.value.retry_after == pytest.approx(60, abs=30)
    assert [one.body for one in issue.comments] == ["one", "two"]
    await bot.redis.delete(f"{bot.storage.keys.writes(installation_of(repo).id)}:minute")
    async with bot.parts.github.open_repository(ref_of(repo)) as opened:
        await opened.issues.comment_once(issue.number, "three", "three")


SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes."


@pytest.mark.parametrize("status", [403, 429])
async def test_a_limited_token_stops_writes_of_the_installation(
    bot: BotHarness, status: int
) -> None:
    github, repo, other = bot.parts.github, bot.add_repo(), bot.add_repo("acme/other")
    headers = {"retry-after": str(LONG)}
    where = "/app/installations/*/access_tokens"
    async with github.open_repository(ref_of(repo)) as opened:
        await opened.get_facts()
        bot.hub.faults.fail_next("POST", where, status=status, message=SECONDARY, headers=headers)
        with pytest.raises(RateLimited):
            async with github.open_repository(ref_of(other)):
                pass
        issue = await bot.report_issue(repo)
        with pytest.raises(RateLimited):
            await opened.issues.reactions(issue.number).add("eyes")
    assert issue.reactions == []


@pytest.mark.parametrize(
    ("step", "status"),
    [("GET info/refs", 403), ("GET info/refs", 429), ("POST git-receive-pack", 429)],
)
async def test_a_limited_push_stops_writes_of_the_installation(
    bot: BotHarness, step: str, status: int
) -> None:
    """git does not tell for how long: a minute. The run goes on then."""
    repo, other = bot.add_repo(), bot.add_repo("acme/other")
    issue = await bot.report_issue(repo)
    method, _, last = step.partition(" ")
    limited: list[float] = []

    async def limit() -> None:  # what is fetched before is not limited
        bot.runner.answered = None
        where = f"/acme/shop.git/{last}"
        bot.hub.faults.fail_next(method, where, status=status, message=SECONDARY, times=2)

    bot.runner.answered = limit
    async with bot.working(settle=False):
        await bot.label(issue)
        await bot.until(lambda: is_limited(bot, issue))
        with pytest.raises(RateLimited) as caught:
            async with bot.parts.github.open_repository(ref_of(other)):
                pass
        limited.append(caught.value.retry_after or 0)
        assert repo.pulls == []
        bot.hub.faults.clear()
        await bot.redis.delete(f"{bot.storage.keys.writes(installation_of(repo).id)}:blocked")
        await bot.runs.bring_forward(await bot.run_of(issue), now())
        await bot.until(bot.is_idle)
    assert limited == [pytest.approx(60, abs=30)]
    assert len(repo.pulls) == 1


async def is_limited(bot: BotHarness, issue: Issue) -> bool:
    run = await bot.run_of(issue)
    return run.waiting_for is Failure.GITHUB_LIMITED and run.not_before is not None
