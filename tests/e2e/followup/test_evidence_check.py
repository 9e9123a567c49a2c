"""The evidence as a check run: gathered when a pull request opens, and again when it may differ."""

from __future__ import annotations

import pytest

from bot.comments import followup
from bot.comments.followup import CHECK_NAME
from capuchin_demo.hub.check_actions import rerun, rerun_all
from capuchin_demo.hub.state import Repo
from pipeline.data.types import CommitSha
from pipeline.workflows.verify import Verification
from sandbox.frozen import replace
from sandbox.program import Execution
from tests.e2e.followup.steps import open_pull
from tests.e2e.harness import BotHarness, StartBot
from tests.support.data.publishing import BREAKS, FAILS, HANGS, PASSES
from tests.support.snapshots import assert_snapshot


def checks(repo: Repo) -> list[tuple[str, str | None, str]]:
    return [(run.head_sha, run.conclusion, run.title or "") for run in repo.check_runs]


async def test_the_test_is_run_on_base_and_on_head_as_often_as_the_repository_says(
    bot: BotHarness,
) -> None:
    repo, pull = await open_pull(bot, "evidence_runs: 4\n")
    (run,) = repo.check_runs
    assert (run.name, run.head_sha, run.conclusion) == (CHECK_NAME, pull.head_sha, "success")
    assert "4 of 4" in (run.title or "")
    (ask,) = bot.runner.asked
    assert set(ask.changes) == {"shop.py", "tests/test_total.py"}
    assert "assert -1 == 3" in (run.text or "")
    assert "1 passed" in (run.text or "")


@pytest.mark.parametrize(
    ("before", "after", "conclusion", "title"),
    [
        (
            [FAILS],
            [PASSES, FAILS],
            "neutral",
            "Flaky",
        ),
        (
            [FAILS, PASSES],
            [PASSES],
            "neutral",
            "Flaky",
        ),
        ([PASSES], [PASSES], "failure", "No evidence"),
        ([HANGS], [PASSES], "failure", "No evidence"),
        ([FAILS], [FAILS], "failure", "The test"),
    ],
)
async def test_evidence_that_shows_nothing_is_not_called_success(
    bot: BotHarness,
    before: list[Execution],
    after: list[Execution],
    conclusion: str,
    title: str,
) -> None:
    bot.runner.before, bot.runner.after = before, after
    repo, pull = await open_pull(bot)
    ((sha, concluded, shown),) = checks(repo)
    assert (sha, concluded) == (pull.head_sha, conclusion)
    assert title in (shown or "")


async def test_the_button_beside_the_check_gathers_the_evidence_again(bot: BotHarness) -> None:
    bot.runner.after = [FAILS, PASSES]
    repo, pull = await open_pull(bot)
    bot.runner.after = [PASSES]
    await rerun(bot.hub, repo, repo.check_runs[0], "bob")
    await bot.settle()
    assert [conclusion for _, conclusion, _ in checks(repo)] == ["neutral", "success"]
    assert len(bot.runner.asked) == 2
    await rerun_all(bot.hub, repo, repo.check_runs[0], "bob")
    await bot.settle()
    assert len(bot.runner.asked) == 3
    await bot.hub.redeliver(bot.hub.deliveries[-3])
    await bot.settle()
    assert len(repo.pulls) == 1
    assert pull.state == "open"


async def test_when_the_base_moves_the_evidence_is_gathered_upon_it_once(
    start_bot: StartBot,
) -> None:
    async with start_bot(reverify_seconds=0.5) as bot:
        repo, pull = await open_pull(bot)
        for number in range(3):
            await bot.hub.commit(repo, "main", {"new.py": f"x = {number}\n"}, "x", "alice")
        await bot.hub.commit(repo, "other", {"new.py": "x = 9\n"}, "x", "alice")
        await bot.settle()
        assert [run.head_sha for run in repo.check_runs] == [pull.head_sha] * 2
        assert [set(ask.changes) for ask in bot.runner.asked] == [
            {"shop.py", "tests/test_total.py"}
        ] * 2
        assert len({ask.key for ask in bot.runner.asked}) == 2


async def test_a_head_that_clashes_with_its_base_and_is_a_persons_is_reported(
    start_bot: StartBot,
) -> None:
    async with start_bot(reverify_seconds=0) as bot:
        repo, _ = await open_pull(bot, "follow_up: false\n")
        text = "def total(a, b):\n    return a - b - 0\n"
        await bot.hub.commit(repo, "main", {"shop.py": text}, "x", "alice")
        await bot.settle()
        assert len(checks(repo)) == 2


def test_what_people_see_of_the_check() -> None:
    found = Verification(
        path="tests/test_total.py",
        command=("python", "-m", "pytest", "tests/test_total.py"),
        before=(FAILS, replace(FAILS, output="<b>@alice</b> ``` #1")),
        after=(PASSES, BREAKS),
    )
    parts = [
        followup.check_title(found),
        followup.check_summary(found, CommitSha("a" * 40), "main"),
    ]
    assert_snapshot("evidence_check", "\n\n".join([*parts, followup.check_text(found)]))
