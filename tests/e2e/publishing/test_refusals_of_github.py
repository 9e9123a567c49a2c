"""What GitHub says when it takes no commits from us reaches people, and the edit is not lost."""

import pytest

from bot.data.failure import Failure
from bot.data.run import Run, RunStatus
from capuchin_demo.hub.state import Issue, Repo
from pipeline.data.types import NoFix, Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import ASKS, FOLLOW_UP_DIFF, REVIEW_LINE
from tests.e2e.harness import BotHarness
from tests.support.github.hub_state import Rules

RULES: dict[str, tuple[Rules, str]] = {
    "secrets": (
        Rules(secrets=("return a + b",)),
        "Push cannot contain secrets",
    ),
    "branch name": (
        Rules(branch_names="bots/.*"),
        "Branch name must match a given regex pattern",
    ),
    "commit message": (
        Rules(messages="JIRA-.*"),
        "Commit message must match a given regex pattern",
    ),
    "author": (
        Rules(author_emails=".*@acme.example"),
        "Commit author email must match a given regex pattern",
    ),
}


@pytest.mark.parametrize("problem", RULES)
async def test_a_refused_push_is_told_in_githubs_words_and_keeps_the_edit(
    bot: BotHarness, problem: str
) -> None:
    repo = bot.add_repo()
    bot.hub.rules[repo.id], words = RULES[problem]
    issue = await bot.open_issue(repo)
    run = await bot.solve(issue)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.PUBLISH_REFUSED)
    assert run.facts.problem == problem
    assert words in run.facts.words
    (said,) = bot.comments_of(issue)
    assert words in said
    assert ("`branch_prefix`" in said) == (problem == "branch name")
    assert "<details>\n<summary>The edit</summary>" in said
    assert "+    return a + b" in said
    assert "+def test_total_adds" in said
    assert repo.list_branches() == ["main"]


async def refuse(bot: BotHarness) -> tuple[Repo, Issue, Run]:
    """A run whose edit a rule keeps from its branch, for as long as there is the rule."""
    repo = bot.add_repo()
    bot.hub.rules[repo.id] = Rules(branch_names="bots/.*")
    issue = await bot.open_issue(repo)
    return repo, issue, await bot.solve(issue)


@pytest.mark.parametrize("ask", ASKS)
async def test_the_same_edit_is_published_later_and_no_model_is_asked(
    bot: BotHarness, ask: str
) -> None:
    repo, issue, refused = await refuse(bot)
    await ASKS[ask](bot, issue)
    again = await bot.solve(issue)
    assert (again.failure, again.dollars) == (Failure.PUBLISH_REFUSED, 0)
    assert again.id != refused.id
    bot.hub.rules[repo.id] = Rules()
    bot.runner.answer = NoFix(reason="no edit")
    await ASKS[ask](bot, issue)
    run = await bot.solve(issue)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert len(bot.runner.jobs) == 1
    assert run.dollars == 0
    (pull,) = repo.pulls
    assert repo.read_file(pull.head_ref, "shop.py") == "def total(a, b):\n    return a + b\n"
    assert "edit A of 2" in (pull.body or "")
    await bot.comment(issue, "/capuchin use B")
    swapped = await bot.solve(issue)
    assert swapped.status is RunStatus.SWAPPED
    assert "return b + a" in (repo.read_file(pull.head_ref, "shop.py") or "")


async def test_another_edit_of_a_refused_run_is_tested_and_published(bot: BotHarness) -> None:
    repo, issue, _ = await refuse(bot)
    bot.hub.rules[repo.id] = Rules()
    await bot.comment(issue, "/capuchin use B")
    run = await bot.solve(issue)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = repo.pulls
    assert "return b + a" in (repo.read_file(pull.head_ref, "shop.py") or "")
    assert len(bot.runner.jobs) == 1


async def test_a_swap_that_github_refuses_can_be_tried_again(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue(label=True)
    await bot.settle()
    (pull,) = repo.pulls
    bot.hub.rules[repo.id] = Rules(secrets=("return b + a",))
    await bot.comment(issue, "/capuchin use B")
    assert (await bot.solve(issue)).status is RunStatus.REFUSED
    assert "Push cannot contain secrets" in bot.comments_of(issue)[-1]
    assert "+    return b + a" in bot.comments_of(issue)[-1]
    bot.hub.rules[repo.id] = Rules()
    await bot.comment(issue, "/capuchin use B")
    assert (await bot.solve(issue)).status is RunStatus.SWAPPED
    assert "return b + a" in (repo.read_file(pull.head_ref, "shop.py") or "")


async def test_where_a_rule_demands_signatures_github_signs_what_we_publish(
    bot: BotHarness,
) -> None:
    repo = bot.add_repo()
    bot.hub.rules[repo.id] = Rules(signatures=True)
    issue = await bot.open_issue(repo)
    assert (await bot.solve(issue)).status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = repo.pulls
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Said so.")
    await bot.hub.review(pull, "alice", state="CHANGES_REQUESTED", lines=REVIEW_LINE)
    await bot.settle()
    assert "# Both count." in (repo.read_file(pull.head_ref, "shop.py") or "")
    ours = repo.git.log(pull.head_ref, without="main")
    assert [one.sha in bot.hub.site.verified for one in ours] == [True] * 3
    assert {one.author.name for one in ours} == {"capuchin[bot]"}
