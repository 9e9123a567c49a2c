"""What the App may do: permissions that it lacks, and credentials that stay out of sight."""

import asyncio
from pathlib import Path

import pytest

from bot.data.request import ConfigCheckRequest
from bot.data.run import Login, Mode
from bot.errors import GitHubUnavailable, RepositoryGone
from bot.git.commits import push
from bot.git.mirrors import Mirrors, Remote
from bot.github.credentials import PERMISSIONS
from bot.runs.config_check import check_config
from capuchin_demo.hub.rest_call import match
from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import LEVELS
from pipeline.data.types import CommitSha
from tests.e2e.harness import BotHarness
from tests.support.github.hub import LocalHub
from tests.support.github.hub_state import Exchange
from tests.support.github.rest_router import OPERATIONS
from tests.support.hub import ref_of
from tests.support.proc import read_processes


def needs_of(exchange: Exchange) -> str:
    """What the hub asks of a token for this call: `issues:write`, or several parted by `|`."""
    if exchange.api == "git":
        return "contents:write" if "receive-pack" in exchange.path else "contents:read"
    if exchange.api == "graphql":  # which checks are required
        return "checks:read"
    found = match(OPERATIONS, exchange.method, exchange.path)
    assert found is not None
    needs = found[0].needs
    if "/issues/" in exchange.path and "|" in needs:  # of an issue, and of no pull request
        needs = next(one for one in needs.split("|") if one.startswith("issues:"))
    return "" if needs in ("app", "open") else needs


def suffice(granted: dict[str, str], needs: str) -> bool:
    return any(
        LEVELS.index(granted.get(name, "none")) >= LEVELS.index(level)
        for name, _, level in (one.partition(":") for one in needs.split("|"))
    )


@pytest.fixture
async def used(manual_bot: BotHarness, hub: LocalHub, tmp_path: Path) -> set[str]:
    """What a whole run, looking after its pull request and a settings check ask for."""
    repo, _, run = await manual_bot.publish()
    assert run.pull_request is not None
    asked = await manual_bot.runs.create(
        ref_of(repo), run.pull_request, asked_by=Login("alice"), delivery="t", mode=Mode.FOLLOW_UP
    )
    lease = await manual_bot.take(asked.run_id)
    await manual_bot.work_on(lease)
    files: dict[str, str | None] = {".capuchin.yml": "samples: 0\n"}
    await hub.commit(repo, "settings", files, "x", "bob")
    pull = await hub.open_pull(repo, "settings", "x", "bob")
    request = ConfigCheckRequest(
        repo=ref_of(repo), pull=pull.number, head=CommitSha(pull.head_sha), delivery="d"
    )
    await check_config(request, manual_bot.parts.github)
    assert len(repo.check_runs) == 2
    return {needs for exchange in hub.requests if (needs := needs_of(exchange))}


async def test_what_is_asked_for_suffices(used: set[str]) -> None:
    assert [needs for needs in used if not suffice(PERMISSIONS, needs)] == []


async def test_none_of_it_could_be_left_out_or_lowered(used: set[str]) -> None:
    idle: list[str] = []
    for name, level in PERMISSIONS.items():
        less = PERMISSIONS | {name: LEVELS[LEVELS.index(level) - 1]}
        if all(suffice(less, needs) for needs in used):
            idle.append(name)
    assert idle == []


NAME = "acme/shop"


@pytest.fixture
def shop(hub: LocalHub) -> Repo:
    repo = hub.add_repo(NAME, {"shop.py": "x = 1\n"}, private=True)
    hub.add_user("alice")
    repo.grant("alice", "write")
    return repo


def remote_of(hub: LocalHub, token: str) -> Remote:
    async def give() -> str:
        return token

    return Remote(f"{hub.url}/{NAME}.git", give)


def processes_that_show(secret: bytes) -> list[str]:
    files = (file for name in ("cmdline", "environ") for file in read_processes(name))
    return [str(path) for path, data in files if secret in data]


def files_that_hold(secret: bytes, root: Path) -> list[Path]:
    return [p for p in root.rglob("*") if p.is_file() and secret in p.read_bytes()]


async def watched(task: asyncio.Task[object], secret: bytes) -> tuple[int, list[str]]:
    """How often git was seen running, and where the secret showed, until the task ends."""
    looks, found = 0, list[str]()
    while not task.done():
        found += processes_that_show(secret)
        looks += 1
        await asyncio.sleep(0)
    return looks, found


async def test_a_fetch_and_a_push_show_the_token_nowhere(
    hub: LocalHub, shop: Repo, tmp_path: Path
) -> None:
    token = hub.create_personal_token("alice")
    mirrors, remote = Mirrors(tmp_path / "data"), remote_of(hub, token)
    hub.faults.fail_next("POST", f"/{NAME}.git/git-upload-pack", status=None, delay_s=0.3)
    fetch = asyncio.create_task(mirrors.checkout(remote, NAME, "main"))
    looks, found = await watched(fetch, token.encode())
    assert (looks > 2, found) == (True, [])
    checkout = fetch.result()
    hub.faults.fail_next("POST", f"/{NAME}.git/git-receive-pack", status=None, delay_s=0.3)
    pushing = asyncio.create_task(
        push(checkout.git_dir, remote, sha=checkout.base, branch="capuchin/x", expected=None)
    )
    looks, found = await watched(pushing, token.encode())
    assert (looks > 2, found) == (True, [])
    pushing.result()
    assert shop.list_branches() == ["capuchin/x", "main"]
    assert files_that_hold(token.encode(), tmp_path / "data") == []


async def test_the_token_is_not_sent_where_a_redirect_points(
    hub: LocalHub, shop: Repo, tmp_path: Path
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        answer = b"HTTP/1.1 401 x\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as evil:
        port = evil.sockets[0].getsockname()[1]
        target = {"location": f"http://127.0.0.1:{port}/acme/shop.git/info/refs"}
        hub.faults.fail_next("GET", f"/{NAME}.git/info/refs", status=301, times=2, headers=target)
        token = hub.create_personal_token("alice")
        with pytest.raises(Exception, match="git"):
            await Mirrors(tmp_path).checkout(remote_of(hub, token), NAME, "main")
    assert heard == []


async def test_a_refused_token_is_tried_again_later(
    hub: LocalHub, shop: Repo, tmp_path: Path
) -> None:
    with pytest.raises(GitHubUnavailable):
        await Mirrors(tmp_path).checkout(remote_of(hub, "ghs_wrong"), NAME, "main")


async def test_a_repository_that_is_gone_is_reported_from_a_hub_that_is_down(
    hub: LocalHub, shop: Repo, tmp_path: Path
) -> None:
    remote = remote_of(hub, hub.create_personal_token("alice"))
    hub.faults.fail_next("GET", f"/{NAME}.git/info/refs", status=503, times=2)
    with pytest.raises(GitHubUnavailable):
        await Mirrors(tmp_path).checkout(remote, NAME, "main")
    await hub.delete_repo(shop)
    with pytest.raises(RepositoryGone):
        await Mirrors(tmp_path).checkout(remote, NAME, "main")
