"""git over HTTP with the real git binary: who may clone and push, and the effects of a push."""

import asyncio
import base64
from pathlib import Path

import httpx
import pytest

from capuchin_demo.hub import pull_actions as pulls
from capuchin_demo.hub.state import Repo
from tests.support.git_client import git
from tests.support.github.hub import LocalHub


def address(hub: LocalHub, token: str, path: str = "/acme/shop.git") -> str:
    return hub.url.replace("://", f"://x-access-token:{token}@") + path


def installation_token(hub: LocalHub, repo: Repo, contents: str = "write") -> str:
    assert repo.installation is not None
    granted = {"contents": contents, "metadata": "read"}
    return hub.tokens.create_for_installation(repo.installation, hub.bot, None, granted).value


async def pushed(clone: Path, branch: str, *more: str) -> str:
    """Change a file on a branch and push it; return git's output."""
    await git(clone, "checkout", "-q", "-B", branch)
    (clone / "shop.py").write_text(f"{branch} {more}\n")
    await git(clone, "commit", "-qam", f"Change on {branch}")
    return (await git(clone, "push", *more, "origin", branch)).output


async def test_an_installation_clones_and_pushes(hub: LocalHub, repo: Repo, tmp_path: Path) -> None:
    url = address(hub, installation_token(hub, repo))
    assert (await git(tmp_path, "clone", "-q", url, "clone")).status == 0
    await pushed(tmp_path / "clone", "capuchin/fix")
    assert repo.list_branches() == ["capuchin/fix", "main"]
    assert repo.list_commits("capuchin/fix") == ["Change on capuchin/fix", "Initial commit"]
    push = hub.deliveries[-1].payload
    assert (push["ref"], push["created"]) == ("refs/heads/capuchin/fix", True)
    assert push["sender"]["login"] == "capuchin[bot]"


async def test_a_partial_clone_and_any_commit_can_be_fetched(
    hub: LocalHub, repo: Repo, tmp_path: Path
) -> None:
    first = repo.git.list_refs("refs/heads/")["main"]
    await hub.commit(repo, "main", {"new.py": "n\n"}, "New", "alice")
    url = address(hub, installation_token(hub, repo))
    ran = await git(tmp_path, "clone", "-q", "--filter=blob:none", "--depth=1", url, "clone")
    assert (ran.status, ran.output) == (0, "")
    fetched = await git(tmp_path / "clone", "fetch", "-q", "--depth=1", "origin", first)
    assert (fetched.status, fetched.output) == (0, "")


async def test_without_a_token_it_is_401(hub: LocalHub, repo: Repo, tmp_path: Path) -> None:
    ran = await git(tmp_path, "clone", f"{hub.url}/acme/shop.git", "clone")
    assert "could not read Username" in ran.output
    async with httpx.AsyncClient(verify=False) as http:
        answer = await http.get(f"{hub.url}/acme/shop.git/info/refs?service=git-upload-pack")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Basic realm="GitHub"')


@pytest.mark.parametrize("header", ["Basic !!!", "Basic /w==", "Bearer x", "Digest a", ""])
async def test_credentials_that_are_none_are_401(hub: LocalHub, repo: Repo, header: str) -> None:
    async with httpx.AsyncClient(verify=False) as http:
        url = f"{hub.url}/acme/shop/info/refs?service=git-upload-pack"
        answer = await http.get(url, headers={"authorization": header})
    assert answer.status_code == 401


async def test_an_expired_token_no_longer_clones(hub: LocalHub, repo: Repo, tmp_path: Path) -> None:
    url = address(hub, installation_token(hub, repo))
    hub.expire_tokens()
    assert "Authentication failed" in (await git(tmp_path, "clone", url, "clone")).output


async def test_a_read_only_token_clones_but_does_not_push(
    hub: LocalHub, repo: Repo, tmp_path: Path
) -> None:
    url = address(hub, installation_token(hub, repo, "read"))
    assert (await git(tmp_path, "clone", "-q", url, "clone")).status == 0
    assert "403" in await pushed(tmp_path / "clone", "fix")
    assert repo.list_branches() == ["main"]


async def test_a_person_pushes_with_the_rights_of_the_role(
    hub: LocalHub, repo: Repo, tmp_path: Path
) -> None:
    for login, branches in (("bob", ["main"]), ("alice", ["fix", "main"])):
        url = address(hub, hub.create_personal_token(login))
        await git(tmp_path, "clone", "-q", url, login)
        await pushed(tmp_path / login, "fix")
        assert repo.list_branches() == branches


@pytest.mark.parametrize("path", ["/acme/hidden.git", "/acme/nothing.git", "/acme/hidden"])
async def test_a_foreign_repository_is_404(
    hub: LocalHub, repo: Repo, tmp_path: Path, path: str
) -> None:
    hub.add_repo("acme/hidden", {"a": "b"}, installed=False)
    token = installation_token(hub, repo)
    ran = await git(tmp_path, "clone", address(hub, token, path), "clone")
    assert "not found" in ran.output


@pytest.mark.parametrize(
    "path",
    [
        "/acme/shop.git/config",
        "/acme/shop.git/HEAD",
        "/acme/shop.git/objects/info/packs",
        "/acme/shop.git/../../hub/git",
        "/acme/shop.git/%2e%2e/%2e%2e/info/refs",
        "/acme/..%2f..%2fetc.git/info/refs",
    ],
)
async def test_no_other_path_of_a_repository_is_served(
    hub: LocalHub, repo: Repo, path: str
) -> None:
    token = installation_token(hub, repo)
    async with httpx.AsyncClient(verify=False) as http:
        answer = await http.get(hub.url + path, auth=("x-access-token", token))
    assert answer.status_code == 404
    assert "[core]" not in answer.text


async def test_a_push_moves_the_pull_request_on(hub: LocalHub, repo: Repo, tmp_path: Path) -> None:
    url = address(hub, installation_token(hub, repo))
    await git(tmp_path, "clone", "-q", url, "clone")
    await pushed(tmp_path / "clone", "fix")
    asked = pulls.NewPull("Fix", None, "fix", "main")
    pull = await pulls.open_pull(hub, repo, asked, hub.bot)
    before = pull.head_sha
    await pushed(tmp_path / "clone", "fix", "--force")
    assert pull.head_sha == repo.git.list_refs("refs/heads/")["fix"] != before
    assert [one.action for one in hub.deliveries][-1] == "synchronize"
    assert repo.git.list_refs(f"refs/pull/{pull.number}/") == {"head": pull.head_sha}
    await git(tmp_path / "clone", "push", "-q", "origin", ":fix")
    assert pull.state == "closed"


async def test_a_push_fails_before_or_after_its_effect(
    hub: LocalHub, repo: Repo, tmp_path: Path
) -> None:
    url = address(hub, installation_token(hub, repo))
    await git(tmp_path, "clone", "-q", url, "clone")
    service = "/acme/shop.git/git-receive-pack"
    hub.faults.fail_next("POST", service, status=502)
    assert "502" in await pushed(tmp_path / "clone", "early")
    hub.faults.fail_next("POST", service, status=502, after_effect=True)
    assert "502" in await pushed(tmp_path / "clone", "late")
    assert repo.list_branches() == ["late", "main"]


async def test_git_requests_are_noted(hub: LocalHub, repo: Repo, tmp_path: Path) -> None:
    await git(tmp_path, "clone", "-q", address(hub, hub.create_personal_token("alice")), "clone")
    assert {(one.api, one.path, one.actor) for one in hub.requests if one.status == 200} == {
        ("git", "/acme/shop.git/info/refs", "alice"),
        ("git", "/acme/shop.git/git-upload-pack", "alice"),
    }


async def test_a_client_that_hangs_up_in_the_middle_leaves_nothing_running(
    hub: LocalHub, repo: Repo
) -> None:
    token = installation_token(hub, repo)
    credentials = base64.b64encode(f"x:{token}".encode()).decode()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(hub.url.rsplit(":", 1)[1]))
    head = "POST /acme/shop.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
    writer.write(f"{head}Authorization: Basic {credentials}\r\n\r\n0000".encode())
    await writer.drain()
    noted = asyncio.Event()
    hub.listen(lambda _exchange: noted.set())
    writer.close()
    await asyncio.wait_for(noted.wait(), 300)
    assert reader.at_eof() or await reader.read() == b""
    assert repo.list_branches() == ["main"]
