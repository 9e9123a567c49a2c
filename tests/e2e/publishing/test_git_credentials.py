"""The token that git uses shows in no command line, environment or file; one host gets it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bot.errors import GitHubUnavailable, RepositoryGone
from bot.git.commits import push
from bot.git.mirrors import Mirrors, Remote
from capuchin_demo.hub.hub import LocalHub
from capuchin_demo.hub.state import Repo
from tests.support.proc import read_processes

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
