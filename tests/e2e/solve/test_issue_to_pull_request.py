"""The main job: a labelled issue becomes a pull request."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from bot.data.run import Run, RunStatus
from pipeline.bundle import read_bundle
from pipeline.replay import replay
from tests.e2e.harness import BotHarness

pytestmark = pytest.mark.spine

BRANCH = "capuchin/issue-1-total-subtracts"
SECTIONS = (
    "Timeline",
    "Facts",
    "Edits × tests",
    "Regression test",
    "Scripts",
    "Environment",
    "Files",
)


async def test_a_labelled_issue_becomes_a_pull_request(
    recorded_bot: BotHarness, tmp_path: Path
) -> None:
    repo = recorded_bot.add_repo()
    issue = await recorded_bot.open_issue(repo)
    run = await recorded_bot.solve(issue)
    assert run.status is RunStatus.OPENED_PULL_REQUEST, run
    branch, body = recorded_bot.only_pull_request(repo)
    assert branch == BRANCH
    assert repo.list_commits(branch) == [
        "Make total() add",
        "Add a failing test for #1",
        "Initial commit",
    ]
    assert "return a + b" in (repo.read_file(branch, "shop/till.py") or "")
    red = repo.git.log(branch)[1].sha
    assert "return a - b" in (repo.read_file(red, "shop/till.py") or "")
    assert "\n\nFixes #1\n\n" in body
    assert "recorded answers" in body
    assert "@everyone" not in body
    assert f"I opened #{repo.pulls[0].number}" in issue.comments[0].body
    assert [reaction.content for reaction in issue.reactions] == ["rocket"]
    assert issue.labels == []
    assert [check.conclusion for check in repo.check_runs] == ["success"]
    await check_page(recorded_bot, run, tmp_path)


async def check_page(bot: BotHarness, run: Run, folder: Path) -> None:
    """The run's page has all its parts, and its bundle repeats the verdict."""
    assert bot.hub.webhook_url is not None
    page = f"{bot.hub.webhook_url.removesuffix('/webhook')}/runs/{run.id}"
    key = {"key": bot.settings.page_key(run.id)}
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        shown = (await client.get(page, params=key)).text
        (folder / "page.html").write_text(shown)
        assert [name for name in SECTIONS if f"<h2>{name}</h2>" not in shown] == []
        assert "<b>It works.</b>" in shown
        assert shown.count('height="6"/>') == 5, "each stage has its time"
        (folder / "run.tar.zst").write_bytes(
            (await client.get(f"{page}/run.tar.zst", params=key)).content
        )
    bundle = read_bundle(folder / "run.tar.zst")
    assert bundle.manifest["outcome"] == "opened pull request"
    assert (await replay(bundle.documents, None)).equal
