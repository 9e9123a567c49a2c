"""A local repository: what a model is told as its name, and one that does not answer."""

import os
from pathlib import Path

import pytest

from bot.cli.run_input import (
    WrongUsage,
    describe_commit,
    find_repository,
    list_refs,
    name_repository,
)
from bot.git.mirrors import Mirrors, Remote
from pipeline.codebase import git as git_module
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.data.types import CommitSha
from tests.support.data import local_git


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ("https://github.com/acme/shop.git", "acme/shop"),
        ("https://token@git.acme.example:8443/group/acme/shop/", "acme/shop"),
        ("git@github.com:acme/shop.js", "acme/shop.js"),
        ("ssh://git@github.com:22/acme/shop", "acme/shop"),
        ("/srv/mirrors/acme/shop.git", "till"),
        ("https://github.com/acme/shop</issue>", "till"),
        ("", "till"),
    ],
)
async def test_it_is_where_the_repository_comes_from_or_its_package(
    tmp_path: Path, origin: str, name: str
) -> None:
    repo = tmp_path / "repo"
    head = local_git.repository(repo, {"setup.py": b"setup(name='till')\n"})
    if origin:
        config = f'[remote "other"]\n\turl = x\n[remote "origin"]\n\turl = {origin}\n[branch "m"]\n'
        with (repo / ".git/config").open("a") as file:
            file.write(config)
    codebase = await Codebase.open(repo / ".git", CommitSha(head))
    assert await name_repository(repo, codebase) == name


async def test_without_either_it_is_the_folder(tmp_path: Path) -> None:
    head = local_git.repository(tmp_path / "shop", {"setup.py": b"setup(name='a b </issue>')\n"})
    codebase = await Codebase.open(tmp_path / "shop/.git", CommitSha(head))
    assert await name_repository(tmp_path / "shop", codebase) == "shop"


async def test_a_repository_that_cannot_be_listed_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await git(None, "init", "--quiet", "--bare", str(tmp_path))
    (tmp_path / "config").unlink()
    os.mkfifo(tmp_path / "config")
    monkeypatch.setattr("bot.cli.run_input._LIST_SECONDS", 0.2)
    with pytest.raises(WrongUsage, match="could not list it"):
        await list_refs(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_another_users_repository_is_read_where_the_users_own_git_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "repo"
    head = local_git.repository(repo, {"setup.py": b"setup(name='till')\n"})
    for place in (repo, *repo.rglob("*")):
        os.chown(place, 4321, 4321)
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = "_ENVIRONMENT"
    monkeypatch.setattr(git_module, environment, dict(vars(git_module)[environment]))
    with pytest.raises(WrongUsage, match=r"safe\.directory"):
        await find_repository(repo)
    other = "[safe]\n\tdirectory = /elsewhere\n"
    (tmp_path / ".gitconfig").write_text(other)
    with pytest.raises(WrongUsage, match=r"safe\.directory"):
        await find_repository(repo)
    (tmp_path / ".gitconfig").write_text(f"{other}\tdirectory = {repo}\n")
    assert await find_repository(repo) == repo
    assert (await list_refs(repo))["HEAD"] == head


async def test_a_repository_of_longer_object_names_is_fetched(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    await git(None, "init", "--quiet", "--object-format=sha256", str(repo))
    (repo / "a.py").write_text("x = 1\n")
    who = ("user.name=x", "user.email=x@y")
    await git(repo / ".git", f"--work-tree={repo}", "add", "a.py")
    await git(repo / ".git", f"--work-tree={repo}", "commit", "--quiet", "-m", "x", config=who)
    base = (await list_refs(repo))["HEAD"]
    mirrors = Mirrors(tmp_path / "mirrors")
    checkout = await mirrors.checkout(Remote(repo.as_uri()), "local/repository", "HEAD", base=base)
    assert (checkout.base, len(base)) == (base, 64)
    assert await describe_commit(repo, base) == ""
