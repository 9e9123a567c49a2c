"""Ceilings on money, from the signed webhook: what a run that reaches one says and leaves."""

from __future__ import annotations

import re

import pytest

from bot.localhub import Issue, Repo
from bot.recorded.recording import Answer
from bot.types import Run, RunStatus
from tests.e2e import shop
from tests.e2e.conftest import Standing

LONG = "x" * 4 * 5_000
"""A reply of some 5000 tokens: 7.5 cents at the price of the recorded model."""
DEAR = (
    Answer(call="testing", turn=0, reply=f"{LONG}\n{shop.SCRIPT}"),
    Answer(call="testing", reply=shop.APPROVED),
)


def config(*lines: str) -> dict[str, str]:
    text = "\n".join(("version: 1", "samples: 1", "approaches: false", *lines))
    return {**shop.FILES, ".github/capuchin.yml": text + "\n"}


def assert_ended(repo: Repo, issue: Issue, run: Run, ceiling: str) -> None:
    """One comment that names the ceiling and what was spent, and nothing half made."""
    assert (run.status, run.detail) == (RunStatus.NO_FIX, "out of budget"), run
    (comment,) = issue.comments
    assert ceiling in comment.body
    assert f"${run.dollars:.2f}" in comment.body, comment.body
    assert (repo.branches(), repo.pulls, issue.labels) == (["main"], [], [])
    assert [reaction.content for reaction in issue.reactions] == ["confused"]


async def test_try(standing: Standing) -> None:
    async with standing(shop.answers(*DEAR)) as bot:
        repo = bot.add_repo(files=config("budget:", "  run: 0.15"))
        issue = await bot.open_issue(repo)
        run = await bot.solved(issue)
        print(run)
        print(issue.comments[0].body)
        assert 0
