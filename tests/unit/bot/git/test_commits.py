"""Commits from diffs: reproducible, on a plain branch name, never at a forbidden path."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.data.github_facts import Identity
from bot.data.run import Login
from bot.errors import PushRejected, UnfitDiff
from bot.git.commits import branch_name, create_commit, push
from bot.git.mirrors import Remote
from pipeline.codebase.git import git
from pipeline.data.types import CommitSha
from tests.support.data import local_git
from tests.support.data.publishing import FIX, SHOP

BOT = Identity(
    app=1, login=Login("capuchin[bot]"), email="1+capuchin[bot]@users.noreply.github.com"
)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    local_git.repository(tmp_path / "work", {"shop.py": SHOP})
    return tmp_path / "work"


async def made(work: Path, diff: str, parent: str = "") -> str:
    return await create_commit(
        work / ".git",
        parent=CommitSha(parent or local_git.git(work, "rev-parse", "HEAD")),
        diff=diff,
        message="Make total() add\n",
        author=BOT,
        at=AT,
    )


async def test_a_diff_becomes_a_commit_by_the_bot(work: Path) -> None:
    sha = await made(work, FIX)
    assert local_git.git(work, "show", "-s", "--format=%an|%ae|%cn|%at|%s", sha) == (
        "capuchin[bot]|1+capuchin[bot]@users.noreply.github.com|capuchin[bot]"
        "|1767323045|Make total() add"
    )
    assert "return a + b" in local_git.git(work, "show", f"{sha}:shop.py")


async def test_the_working_tree_and_index_are_left_alone(work: Path) -> None:
    await made(work, FIX)
    assert local_git.git(work, "status", "--porcelain") == ""


async def test_hooks_never_run(work: Path, tmp_path: Path) -> None:
    for name in (
        "pre-commit",
        "post-commit",
        "pre-push",
        "reference-transaction",
        "post-index-change",
    ):
        hook = work / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
        hook.chmod(0o755)
    remote = Remote(f"file://{bare(tmp_path)}")
    await push(
        work / ".git",
        remote,
        sha=CommitSha(await made(work, FIX)),
        branch="capuchin/x",
        expected=None,
    )
    assert not (tmp_path / "hooked").exists()


async def test_a_diff_that_does_not_apply_makes_no_commit(work: Path) -> None:
    with pytest.raises(UnfitDiff):
        await made(work, FIX.replace("a - b", "a * b"))


def bare(tmp_path: Path) -> Path:
    (tmp_path / "bare").mkdir()
    local_git.git(tmp_path / "bare", "init", "--quiet", "--bare")
    return tmp_path / "bare"


async def test_a_push_makes_the_branch_and_overwrites_nobody(work: Path, tmp_path: Path) -> None:
    place = bare(tmp_path)
    remote = Remote(f"file://{place}")
    sha = await made(work, FIX)
    await push(work / ".git", remote, sha=CommitSha(sha), branch="capuchin/issue-7", expected=None)
    assert local_git.git(place, "rev-parse", "capuchin/issue-7") == sha
    other = await made(work, FIX.replace("a + b", "b + a"))
    with pytest.raises(PushRejected):
        await push(
            work / ".git", remote, sha=CommitSha(other), branch="capuchin/issue-7", expected=None
        )
    assert local_git.git(place, "rev-parse", "capuchin/issue-7") == sha


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("total() subtracts", "capuchin/issue-7-total-subtracts"),
        ("Größe  der Über-Schrift", "capuchin/issue-7-groe-der-uber-schrift"),
        ("合計が間違っている", "capuchin/issue-7"),
        ("../../etc; rm -rf /", "capuchin/issue-7-etc-rm-rf"),
        ("", "capuchin/issue-7"),
        ("word " * 30, "capuchin/issue-7-word-word-word-word-word-word-word-word"),
        ("x" * 100, f"capuchin/issue-7-{'x' * 40}"),
        ("a.lock", "capuchin/issue-7-a-lock"),
    ],
)
async def test_a_branch_name_is_plain_whatever_the_title(title: str, name: str) -> None:
    assert branch_name("capuchin/", 7, title) == name
    await git(None, "check-ref-format", "--branch", name)
