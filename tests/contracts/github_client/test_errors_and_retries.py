"""Tokens, retries and errors: the client's behaviour when GitHub fails."""

import re
import time

import pytest

from bot.errors import Forbidden, GitHubMisconfigured, GitHubUnavailable
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.settings import Settings
from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import generate_app
from pipeline.concurrency import gather_all
from sandbox.frozen import replace
from tests.support.clock import MovableClock
from tests.support.github.hub import LocalHub
from tests.support.hub import ref_of, settings_for


def minted(hub: LocalHub) -> int:
    return sum(each.path.endswith("/access_tokens") for each in hub.requests)


def sent(hub: LocalHub, method: str, ending: str) -> int:
    return sum(e.method == method and e.path.endswith(ending) for e in hub.requests)


async def test_a_token_is_scoped_to_its_repository_and_made_once(
    app: GitHubApp, hub: LocalHub, shop: Repo
) -> None:
    async with app.open_repository(ref_of(shop)) as repo:
        tokens = await gather_all(repo.get_token() for _ in range(10))
    async with app.open_repository(ref_of(shop)) as repo:
        tokens.append(await repo.get_token())
    assert len(set(tokens)) == 1
    assert minted(hub) == 1
    token = hub.tokens.find(tokens[0])
    assert token is not None
    assert token.repos == (shop,)
    assert token.permissions == {
        "metadata": "read",
        "contents": "write",
        "issues": "write",
        "pull_requests": "write",
        "checks": "write",
        "statuses": "read",
    }


async def test_a_token_is_renewed_five_minutes_before_it_expires(
    repo: Repository, clock: MovableClock
) -> None:
    first = await repo.get_token()
    clock.ahead = 54 * 60
    assert await repo.get_token() == first
    clock.ahead = 55 * 60 + 2
    assert await repo.get_token() != first


async def test_a_revoked_token_is_renewed_once_even_for_a_post(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    issue = await hub.open_issue(shop, "x")
    await repo.get_token()
    hub.expire_tokens()
    await repo.issues.reactions(issue.number).add("eyes")
    assert minted(hub) == 2
    assert len(issue.reactions) == 1


async def test_a_second_401_is_an_answer(repo: Repository, hub: LocalHub) -> None:
    hub.faults.fail_next("GET", "/repos/acme/shop", status=401, times=2)
    with pytest.raises(Forbidden):
        await repo.get_facts()
    assert hub.faults.pending == []


async def test_two_hubs_never_see_each_others_tokens(
    app: GitHubApp, hub: LocalHub, shop: Repo, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = LocalHub(tmp_path_factory.mktemp("other"), "secret", hub.app)
    other._last_id = hub._last_id  # pyright: ignore[reportPrivateUsage] - same installation ids
    async with app.open_repository(ref_of(shop)) as repo:
        token = await repo.get_token()
    async with other.serve():
        second = other.add_repo("acme/shop", {"x": "y"})
        async with GitHubApp(settings_for(other)).open_repository(ref_of(second)) as repo:
            await repo.get_facts()
        assert all(token not in each.headers.get("authorization", "") for each in other.requests)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_get_survives_a_bad_moment(repo: Repository, hub: LocalHub, status: int) -> None:
    hub.faults.fail_next("GET", "/repos/acme/shop", status=status, times=3)
    assert await repo.get_facts() is not None


async def test_a_get_gives_up_in_the_end(repo: Repository, hub: LocalHub) -> None:
    hub.faults.fail_next("GET", "/repos/acme/shop", status=502, times=4)
    with pytest.raises(GitHubUnavailable):
        await repo.get_facts()
    assert hub.faults.pending == []


async def test_a_post_is_sent_once(repo: Repository, hub: LocalHub, shop: Repo) -> None:
    number = (await hub.open_issue(shop, "x")).number
    hub.faults.fail_next("POST", "/repos/*/labels", status=502, after_effect=True)
    with pytest.raises(GitHubUnavailable):
        await repo.issues.add_labels(number, ["new"])
    assert sent(hub, "POST", "/labels") == 1


@pytest.mark.parametrize("secondary", [True, False])
async def test_a_long_rate_limit_is_reported_and_not_waited_for(
    repo: Repository, hub: LocalHub, secondary: bool
) -> None:
    hub.limit_rate(0, 600, secondary=secondary)
    with pytest.raises(GitHubUnavailable) as caught:
        await repo.get_facts()
    assert caught.value.retry_after == pytest.approx(600, abs=120)  # less what the calls took
    assert sent(hub, "GET", "/repos/acme/shop") == 1


async def test_a_short_rate_limit_is_waited_for(repo: Repository, hub: LocalHub) -> None:
    hub.limit_rate(0, 1, secondary=True)
    now = time.time()
    # It ends when it has been met once, however late that is.
    hub.limit.clock = lambda: now + 10 * sent(hub, "GET", "/repos/acme/shop")
    assert await repo.get_facts() is not None
    assert sent(hub, "GET", "/repos/acme/shop") == 2


async def test_a_secondary_limit_without_headers_is_known_by_its_words(
    repo: Repository, hub: LocalHub
) -> None:
    message = "You have exceeded a secondary rate limit."
    hub.faults.fail_next("GET", "/repos/acme/shop", status=403, message=message)
    with pytest.raises(GitHubUnavailable) as caught:
        await repo.get_facts()
    assert caught.value.retry_after == 60


async def test_a_refusal_is_no_outage(repo: Repository, hub: LocalHub) -> None:
    hub.faults.fail_next("GET", "/repos/acme/shop", status=403, message="no")
    with pytest.raises(Forbidden) as caught:
        await repo.get_facts()
    assert "GET /repos/acme/shop: 403" in str(caught.value)


async def test_no_network_is_unavailable(shop: Repo, hub: LocalHub) -> None:
    nowhere = settings_for(hub, github_url="http://127.0.0.1:9")
    with pytest.raises(GitHubUnavailable) as caught:
        async with GitHubApp(nowhere, pause=0.001).open_repository(ref_of(shop)):
            pass
    assert "/access_tokens" in str(caught.value)


async def test_a_wrong_key_is_the_operators_to_mend(hub: LocalHub, shop: Repo) -> None:
    wrong = settings_for(hub, github_private_key=generate_app().private_key_pem)
    with pytest.raises(GitHubMisconfigured):
        async with GitHubApp(wrong, pause=0.001).open_repository(ref_of(shop)):
            pass


async def test_a_key_that_is_no_key_is_the_operators_to_mend(hub: LocalHub, shop: Repo) -> None:
    text = "-----BEGIN RSA PRIVATE KEY-----\nnonsense\n-----END RSA PRIVATE KEY-----\n"
    with pytest.raises(GitHubMisconfigured) as caught:
        async with GitHubApp(settings_for(hub, github_private_key=text)).open_repository(
            ref_of(shop)
        ):
            pass
    assert "nonsense" not in str(caught.value)


async def test_no_error_holds_a_token_or_a_body(repo: Repository, hub: LocalHub) -> None:
    token = await repo.get_token()
    hub.faults.fail_next("GET", "/repos/*/issues/1", status=422, message=f"leak {token}")
    with pytest.raises(Exception, match="422") as caught:
        await repo.issues.get(1)
    assert token not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_github_com_has_its_own_api_address() -> None:
    from bot.github.http import api_root, graphql_url

    assert api_root("https://github.com/") == "https://api.github.com"
    assert api_root("https://git.acme.test") == "https://git.acme.test/api/v3"
    assert api_root("https://octocorp.ghe.com/") == "https://api.octocorp.ghe.com"
    assert graphql_url("https://octocorp.ghe.com") == "https://api.octocorp.ghe.com/graphql"
    assert graphql_url("https://github.com") == "https://api.github.com/graphql"
    assert graphql_url("https://git.acme.test/") == "https://git.acme.test/api/graphql"
    assert api_root("https://a.b.ghe.com") == "https://a.b.ghe.com/api/v3"
    assert api_root("https://github.com.evil.test") == "https://github.com.evil.test/api/v3"
    assert Settings().github_url == "https://github.com"


async def test_a_retry_is_logged_with_its_host_cause_and_wait(
    hub: LocalHub, caplog: pytest.LogCaptureFixture
) -> None:
    away = replace(settings_for(hub), github_url="http://127.0.0.1:9")
    with pytest.raises(GitHubUnavailable):
        await GitHubApp(away).load_registration()
    said = [one.getMessage() for one in caplog.records if one.name == "bot.github.http"]
    assert said
    assert all(
        re.search(r"127\.0\.0\.1 does not answer: nothing listens.+; again in \d", one)
        for one in said
    )
