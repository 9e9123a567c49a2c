"""The main job: a labelled issue becomes a pull request."""

from __future__ import annotations

from bot.types import RunStatus
from tests.e2e.harness import BotHarness

BRANCH = "capuchin/issue-1-total-subtracts"


async def test_a_labelled_issue_becomes_a_pull_request(recorded_bot: BotHarness) -> None:
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
    assert (
        "The recorded answers were served on the operator's own machines or network, and I sent "
        "code nowhere else except to GitHub. I cannot see whether those machines pass it on.\n"
    ) in body
    assert "@everyone" not in body
    assert f"I opened #{repo.pulls[0].number}" in issue.comments[0].body
    assert [reaction.content for reaction in issue.reactions] == ["rocket"]
    assert issue.labels == []
    assert [check.conclusion for check in repo.check_runs] == ["success"]
