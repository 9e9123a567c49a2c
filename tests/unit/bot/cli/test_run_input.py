"""A local repository: what a model is told as its name, and one that does not answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bot.cli.run_input import WrongUsage, list_refs, name_repository
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
