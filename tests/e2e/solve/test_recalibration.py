"""What became of earlier pull requests in a repository corrects the confidence there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from bot import outcomes
from bot.archive import build_bundle
from bot.cli.lab.learn import load_run_outcomes
from bot.data.run import RunStatus
from pipeline.lab.learning.attempts import read_attempts
from pipeline.lab.learning.records import SolvedIssue
from pipeline.selection.scoring import confidence as recalibration
from tests.e2e import shop
from tests.e2e.harness import StartBot


async def test_after_a_closed_pull_request_the_next_states_less_and_says_why(
    start_recorded_bot: StartBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (recalibration, outcomes):
        monkeypatch.setattr(module, "MIN_OUTCOMES", 1)
    async with start_recorded_bot(shop.answers(shop.RIGHT_AT_ONCE)) as bot:
        repo = bot.add_repo(config=shop.ONE_SAMPLE)
        assert (await bot.solve(await bot.open_issue(repo))).confidence is not None
        (first,) = repo.pulls
        told = first.body or ""
        before = _stated(told)
        await bot.hub.close_issue(first, "alice")
        await bot.settle()

        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.status is RunStatus.OPENED_PULL_REQUEST
        told = repo.pulls[-1].body or ""
        assert _stated(told) < before
        assert f"{before}%" in told
        assert run.confidence == pytest.approx(before / 100, abs=0.006), "kept uncorrected"

        await bot.comment(issue, "/capuchin stats")
        await bot.settle()
        said = bot.comments_of(issue)[-1]
    assert re.search(rf"\| 1 \| {before}% \| 0% \|", said), said
    assert "    bar [0]\n" in said


async def test_collect_labels_the_proposed_edit_by_what_people_decided(
    start_recorded_bot: StartBot, tmp_path: Path
) -> None:
    async with start_recorded_bot(shop.answers(shop.RIGHT_AT_ONCE)) as bot:
        repo = bot.add_repo(config=f"{shop.ONE_SAMPLE}draft: false\n")
        run = await bot.solve(await bot.open_issue(repo))
        await bot.hub.merge(repo.pulls[0], "alice")
        await bot.settle()
        bundle = await build_bundle(bot.storage, run)
        assert bundle is not None
        name = f"{repo.owner}__{repo.name}-{run.issue}"
        (tmp_path / f"{name}.tar.zst").write_bytes(bundle)
        found = await asyncio.to_thread(load_run_outcomes, repo.full_name, bot.settings)
        assert found == {run.id: "merged"}
        solved = SolvedIssue(
            id=name, repository=repo.full_name, title="", body="", reference="", source="pulls"
        )
        attempts = await read_attempts(tmp_path, {name: solved}, found)
        told = [(one.outcome, one.resolved) for one in attempts]
        assert told.count(("merged", True)) >= 1
        assert {(None, None), ("merged", True)} >= set(told)
        closed = await read_attempts(tmp_path, {name: solved}, {run.id: "closed"})
        assert ("closed", False) in [(one.outcome, one.resolved) for one in closed]


def _stated(body: str) -> int:
    found = re.search(r"correct with a probability of (\d+)%", body)
    assert found, body
    return int(found[1])
