"""What GitHub refuses, by REST and GraphQL: each cause has its own end, sentence and log line."""

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from structlog.contextvars import get_contextvars

from bot.data.failure import Failure
from bot.data.run import Login, Run, RunStatus
from bot.errors import TryLater
from bot.github.http import MAX_TRIES
from bot.storage.lease import Lease
from capuchin_demo.hub.state import Issue, Repo, now
from tests.e2e.harness import BotHarness
from tests.support.github.hub import LocalHub
from tests.support.hub import installation_of, ref_of

IP_LIST = (
    "Although you appear to have the correct authorization credentials, the `acme` organization "
    "has an IP allow list enabled, and your IP address is not permitted to access this resource."
)
NOT_ACCESSIBLE = "Resource not accessible by integration"


@pytest.fixture
def causes() -> Iterator[list[str]]:
    """The cause in the log's line on each run that failed."""
    found: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            del record
            if cause := get_contextvars().get("cause"):
                found.append(str(cause))

    listener, log = Listener(), logging.getLogger("bot.queue.attempt")
    log.addHandler(listener)
    yield found
    log.removeHandler(listener)


async def labelled(bot: BotHarness) -> tuple[Repo, Issue]:
    repo, issue = await bot.add_repo_with_issue()
    await bot.label(issue)
    return repo, issue


def assert_failed(run: Run, failure: Failure) -> None:
    assert (run.status, run.failure) == (RunStatus.FAILED, failure)


@pytest.mark.parametrize(
    ("permission", "granted"), [("checks", None), ("contents", "read"), ("statuses", None)]
)
async def test_a_permission_that_was_not_accepted_is_named_with_the_place_to_accept_it(
    bot: BotHarness, permission: str, granted: str | None
) -> None:
    repo, issue = await bot.add_repo_with_issue()
    one = installation_of(repo)
    wanted = one.permissions.pop(permission)
    if granted:
        one.permissions[permission] = granted
    await bot.label(issue)
    assert_failed(await bot.solve(issue), Failure.PERMISSION_MISSING)
    (said,) = bot.comments_of(issue)
    assert f"`{permission}: {wanted}`" in said
    assert f"/acme/settings/installations/{one.id}" in said
    assert ([r.content for r in issue.reactions], issue.labels) == (["confused"], [])
    assert bot.runner.jobs == []
    one.permissions[permission] = wanted
    await bot.label(issue)
    assert (await bot.solve(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_without_the_permission_to_write_comments_the_log_says_so(
    bot: BotHarness, causes: list[str]
) -> None:
    repo, issue = await bot.add_repo_with_issue()
    installation_of(repo).permissions |= {"issues": "read", "pull_requests": "read"}
    await bot.label(issue)
    assert_failed(await bot.solve(issue), Failure.PERMISSION_MISSING)
    assert "issues: write" in causes[0]
    assert bot.comments_of(issue) == []


async def test_a_permission_that_is_taken_back_during_a_run(manual_bot: BotHarness) -> None:
    repo, issue, lease = await manual_bot.begin_run()
    async with manual_bot.parts.github.open_repository(ref_of(repo)) as opened:
        await opened.get_token()
    del installation_of(repo).permissions["pull_requests"]
    headers = {"x-accepted-github-permissions": "pull_requests=write; contents=admin"}
    manual_bot.hub.faults.fail_next(
        "GET", "/repos/acme/shop", status=403, message=NOT_ACCESSIBLE, headers=headers
    )
    assert_failed(await manual_bot.work_on(lease), Failure.PERMISSION_MISSING)
    (said,) = manual_bot.comments_of(issue)
    assert "`pull_requests: write`" in said


REFUSED = {
    "an App may not": (403, NOT_ACCESSIBLE, Failure.GITHUB_REFUSED),
    "a list of addresses": (403, IP_LIST, Failure.POLICY_FORBIDS),
    "blocked by GitHub": (403, "Repository access blocked", Failure.POLICY_FORBIDS),
    "taken down": (451, "Repository unavailable due to DMCA takedown.", Failure.POLICY_FORBIDS),
    "invalid": (422, "Validation Failed", Failure.GITHUB_REFUSED),
    "no such thing": (404, "Not Found", Failure.REPOSITORY_GONE),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_is_told_in_githubs_words_and_by_its_own_cause(
    bot: BotHarness, name: str, causes: list[str]
) -> None:
    status, message, failure = REFUSED[name]
    bot.hub.faults.fail_next("GET", "/repos/acme/shop", status=status, message=message)
    _, issue = await labelled(bot)
    assert_failed(await bot.solve(issue), failure)
    (said,) = bot.comments_of(issue)
    assert ("no longer exists" in said) == (failure is Failure.REPOSITORY_GONE)
    if failure is not Failure.REPOSITORY_GONE:
        assert message.split("`")[0] in said
        assert message in causes[0]
    assert issue.labels == []


async def test_what_forbids_every_call_is_in_the_record(bot: BotHarness) -> None:
    """Nothing can be written on the issue then."""
    found: dict[str, Failure | None] = {}
    for name in ("archived", "suspended", "blocked", "uninstalled"):
        repo = bot.add_repo(f"{name}/shop")
        issue = await bot.report_issue(repo)
        await bot.label(issue)
        one = installation_of(repo)
        if name == "archived":
            repo.archived = True
        elif name == "suspended":
            one.suspended_at = now()
        elif name == "blocked":
            bot.hub.blocked[one.id] = IP_LIST
        else:
            async with bot.without_webhooks():  # else the run is stopped
                await bot.hub.uninstall(repo)
        await bot.settle()
        ref = ref_of(repo)
        found[name] = (await bot.run_at(ref, issue.number)).failure
        assert bot.comments_of(issue) == []
    assert found == {
        "archived": Failure.REPOSITORY_ARCHIVED,
        "suspended": Failure.INSTALLATION_SUSPENDED,
        "blocked": Failure.POLICY_FORBIDS,
        "uninstalled": Failure.NOT_INSTALLED,
    }


async def lease_of_label(bot: BotHarness) -> Lease:
    """Of a run for a label that no webhook told of: GraphQL says whether the text is the same."""
    repo, issue = await bot.prepare_issue()
    asked = await bot.runs.create(
        ref_of(repo), issue.number, asked_by=Login("alice"), delivery="d",
        asked_at=now() + timedelta(minutes=1),
    )  # fmt: skip
    return await bot.take(asked.run_id)


SOMETHING = "Something went wrong while executing your query. Please include `AE24:722D`."


@pytest.mark.parametrize("kind", ["", "SERVICE_UNAVAILABLE", "INTERNAL"])
async def test_a_query_that_fails_at_github_is_sent_again(
    manual_bot: BotHarness, hub: LocalHub, kind: str
) -> None:
    lease = await lease_of_label(manual_bot)
    hub.faults.fail_next_queries(kind, SOMETHING, times=MAX_TRIES - 1)
    run = await manual_bot.work_on(lease)
    assert (run.status, hub.faults.pending_queries) == (RunStatus.OPENED_PULL_REQUEST, 0)


@pytest.mark.parametrize("kind", ["RATE_LIMITED", "RATE_LIMIT"])
async def test_a_query_over_the_limit_waits_as_long_as_github_says(
    manual_bot: BotHarness, hub: LocalHub, kind: str
) -> None:
    lease = await lease_of_label(manual_bot)
    words = "API rate limit exceeded for installation ID 1."
    hub.faults.fail_next_queries(kind, words, headers={"retry-after": "777"})
    with pytest.raises(TryLater) as caught:
        await manual_bot.work_on(lease)
    assert (caught.value.reason, caught.value.after) == (Failure.GITHUB_LIMITED, 777)


@pytest.mark.parametrize(
    ("kind", "message", "failure"),
    [
        ("FORBIDDEN", NOT_ACCESSIBLE, Failure.GITHUB_REFUSED),
        ("FORBIDDEN", IP_LIST, Failure.POLICY_FORBIDS),
        ("NOT_FOUND", "Could not resolve to a node", Failure.REPOSITORY_GONE),
    ],
)
async def test_a_query_that_is_refused_ends_the_run_by_its_cause(
    manual_bot: BotHarness, hub: LocalHub, kind: str, message: str, failure: Failure
) -> None:
    lease = await lease_of_label(manual_bot)
    hub.faults.fail_next_queries(kind, message)
    assert_failed(await manual_bot.work_on(lease), failure)
