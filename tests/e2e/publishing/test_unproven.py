"""An edit without a test that can be committed: a draft that says so, or what `use` opens."""

from __future__ import annotations

from bot.data.run import RunStatus
from pipeline.data.types import JudgedEdits, NoFix
from pipeline.workflows.outcome import OUTCOME_KEY, SolveResult
from sandbox.frozen import replace
from tests.e2e.harness import MAINTAINER, SMALL_SHOP, BotHarness
from tests.support.data.publishing import a_selection

PROOF = a_selection().evidence
NO_FIX = NoFix(
    reason="reproduction not confirmed",
    details=("pytest cannot start here.",),
    edits=JudgedEdits(votes=PROOF.votes, order=PROOF.order, confidence=0.85),
)


async def test_an_unproven_edit_becomes_a_draft_that_says_so(manual_bot: BotHarness) -> None:
    repo, issue = await manual_bot.prepare_issue()
    chosen = a_selection()
    script = replace(PROOF.reproduction, rung="none", path="", diff="", text="print('script')\n")
    why = "No test that can be committed shows it: pytest cannot start here."
    manual_bot.runner.answer = replace(
        chosen, evidence=replace(PROOF, reproduction=script, unproven=why)
    )
    lease = await manual_bot.lease(repo, issue)
    run = await manual_bot.work_on(lease)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = repo.pulls
    assert pull.draft
    assert pull.title == "[unproven] Make total() add"
    assert "capuchin:unproven" in pull.labels
    assert repo.list_commits(pull.head_sha)[0] == "Make total() add"
    assert len(repo.list_commits(pull.head_sha)) == len(repo.list_commits("main")) + 1
    assert "print('script')" in (pull.body or "")
    assert why in (pull.body or "").replace("\\", "")
    assert "**unproven** edit" in issue.comments[-1].body


async def test_no_fix_shows_its_edits_and_use_opens_one_as_an_unproven_draft(
    bot: BotHarness,
) -> None:
    bot.runner.answer = NO_FIX
    repo = bot.add_repo(files=SMALL_SHOP)
    issue = await bot.open_issue(repo)
    first = await bot.solve(issue)
    await bot.store_of(first).save(OUTCOME_KEY, SolveResult(result=NO_FIX))
    told = issue.comments[-1].body
    assert "A: " in told
    assert "+    return a + b" in told
    assert "Edit B" in told
    assert "+    return b + a" in told
    assert "probability of 85%" in told
    assert "`/capuchin use A`" in told
    await bot.hub.comment(issue, "/capuchin use B", MAINTAINER)
    await bot.settle()
    (pull,) = repo.pulls
    assert pull.draft
    assert pull.title.startswith("[unproven] ")
    assert "capuchin:unproven" in pull.labels
    text = repo.read_file(pull.head_sha, "shop.py") or ""
    assert "return b + a" in text
    assert "in the pull request" not in issue.comments[-1].body
    await bot.hub.comment(issue, "/capuchin explain", MAINTAINER)
    await bot.settle()
    said = issue.comments[-1].body
    assert f"#{pull.number}" in said
    assert [row[:9] for row in said.split("\n") if "(in the pull" in row] == ["- **B** p"]
