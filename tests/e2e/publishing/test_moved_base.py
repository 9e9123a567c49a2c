"""The default branch moves while a run works: the fix is published where GitHub takes it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from bot.data.failure import Failure
from bot.data.run import Run, RunStatus
from capuchin_demo.hub.git_repository import run_git
from capuchin_demo.hub.state import Issue, Repo
from pipeline.data.types import NoFix, Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import FOLLOW_UP_DIFF, REVIEW_LINE, open_pull
from tests.e2e.harness import BotHarness
from tests.e2e.people import SMALL_SHOP
from tests.support.data.publishing import FAILS
from tests.support.hub import ref_of

WORKFLOW = ".github/workflows/ci.yml"


@asynccontextmanager
async def solving(bot: BotHarness, repo: Repo) -> AsyncGenerator[Issue]:
    """In the block a run works on the issue; then it goes on to its end."""
    issue = await bot.open_issue(repo)
    bot.runner.go_on.clear()
    async with bot.working(settle=False):
        await bot.until(lambda: bot.runner.waiting)
        yield issue
        bot.runner.go_on.set()
        await bot.until(bot.is_idle)


async def ended(bot: BotHarness, issue: Issue) -> Run:
    run = await bot.run_of(issue)
    assert run.status.final
    return run


def changed_paths(repo: Repo, branch: str) -> list[str]:
    names = run_git(repo.git.path, "diff", "--name-only", f"main...{branch}")
    return names.decode().split()


async def test_a_workflow_that_changed_meanwhile_stops_no_fix(bot: BotHarness) -> None:
    repo = bot.add_repo(files={**SMALL_SHOP, WORKFLOW: "on: push\n"})
    async with solving(bot, repo) as issue:
        tip = await bot.hub.commit(repo, "main", {WORKFLOW: "on: [push]\n"}, "Bump", "alice")
    assert (await ended(bot, issue)).status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = repo.pulls
    assert repo.list_commits(pull.head_ref)[2] == "Bump"
    assert changed_paths(repo, pull.head_ref) == ["shop.py", "tests/test_total.py"]
    assert f"moved to {tip[:7]}" in (pull.body or "")
    assert bot.runner.asked[0].test == "tests/test_total.py"


async def test_commits_that_were_taken_out_stay_out(bot: BotHarness) -> None:
    repo = bot.add_repo()
    before = repo.git.resolve("main") or ""
    await bot.hub.commit(repo, "main", {"kiln.py": "KEY = 'secret'\n"}, "Add kiln", "alice")
    async with solving(bot, repo) as issue:
        repo.git.set_ref("refs/heads/main", before)
    assert (await ended(bot, issue)).status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = repo.pulls
    assert changed_paths(repo, pull.head_ref) == ["shop.py", "tests/test_total.py"]


async def test_what_needs_commits_that_were_taken_out_is_not_published(bot: BotHarness) -> None:
    repo = bot.add_repo()
    async with solving(bot, repo) as issue:
        tree = repo.git.write_paths(None, {"a.py": ("100644", repo.git.write_blob(b"x = 1\n"))})
        signature = repo.git.read_commit(repo.git.resolve("main") or "").author
        other = repo.git.write_commit(tree, [], "Begin again\n", signature, signature)
        repo.git.set_ref("refs/heads/main", other)
    run = await ended(bot, issue)
    assert (run.failure, run.facts.problem) == (Failure.PUBLISH_REFUSED, "commits dropped")
    assert repo.list_branches() == ["main"]
    (said,) = bot.comments_of(issue)
    assert "+    return a + b" in said


async def test_an_edit_that_conflicts_is_published_on_its_old_base(bot: BotHarness) -> None:
    repo = bot.add_repo()
    before = repo.git.resolve("main") or ""
    async with solving(bot, repo) as issue:
        other: dict[str, str | None] = {"shop.py": "def total(a, b):\n    return a * b\n"}
        await bot.hub.commit(repo, "main", other, "Multiply", "alice")
    assert (await ended(bot, issue)).status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = repo.pulls
    assert f"based on {before[:7]}" in (pull.body or "")
    assert repo.list_commits(pull.head_ref)[2] == "Initial commit"


async def test_an_edit_whose_test_fails_on_the_new_head_waits_for_other_workflows(
    bot: BotHarness,
) -> None:
    repo = bot.add_repo()
    bot.runner.after = [FAILS]
    async with solving(bot, repo) as issue:
        await bot.hub.commit(repo, "main", {WORKFLOW: "on: push\n"}, "Add CI", "alice")
    run = await ended(bot, issue)
    assert (run.failure, run.facts.problem) == (Failure.PUBLISH_REFUSED, "workflows")
    assert "+    return a + b" in bot.comments_of(issue)[-1]


async def test_a_repository_archived_meanwhile_loses_nothing(bot: BotHarness) -> None:
    repo = bot.add_repo()
    async with solving(bot, repo) as issue:
        repo.archived = True
    run = await ended(bot, issue)
    assert (run.failure, run.facts.problem) == (Failure.PUBLISH_REFUSED, "archived")
    repo.archived = False
    bot.runner.answer = NoFix(reason="no edit")
    await bot.comment(issue, "/capuchin retry")
    assert (await bot.solve(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_review_is_followed_after_the_workflows_changed(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    tip = await bot.hub.commit(repo, "main", {WORKFLOW: "on: push\n"}, "Add CI", "alice")
    await bot.settle()
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Said so.")
    await bot.hub.review(pull, "alice", state="CHANGES_REQUESTED", lines=REVIEW_LINE)
    await bot.settle()
    assert "# Both count." in (repo.read_file(pull.head_ref, "shop.py") or "")
    assert tip in [one.sha for one in repo.git.log(pull.head_sha)]
    assert changed_paths(repo, pull.head_ref) == ["shop.py", "tests/test_total.py"]


async def test_another_edit_is_used_after_the_workflows_changed(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue(label=True)
    await bot.settle()
    (pull,) = repo.pulls
    await bot.hub.commit(repo, "main", {WORKFLOW: "on: push\n"}, "Add CI", "alice")
    await bot.settle()
    await bot.comment(issue, "/capuchin use B")
    assert (await bot.solve(issue)).status is RunStatus.SWAPPED
    assert "return b + a" in (repo.read_file(pull.head_ref, "shop.py") or "")
    assert changed_paths(repo, pull.head_ref) == ["shop.py", "tests/test_total.py"]


async def test_a_base_branch_that_vanishes_is_named(bot: BotHarness) -> None:
    repo = bot.add_repo()
    async with solving(bot, repo) as issue:
        repo.default_branch = "trunk"  # as while a branch is renamed
    run = await ended(bot, issue)
    assert (run.failure, run.facts.problem) == (Failure.PUBLISH_REFUSED, "base gone")
    assert "+    return a + b" in bot.comments_of(issue)[-1]


@pytest.mark.parametrize("config", ["", "base_branch: trunk\n"])
async def test_a_base_branch_that_is_renamed_meanwhile_is_followed(
    bot: BotHarness, config: str
) -> None:
    old = "trunk" if config else "main"
    repo = bot.add_repo(config=config)
    repo.git.set_ref("refs/heads/trunk", repo.git.resolve("main") or "")
    async with solving(bot, repo) as issue:
        repo.git.set_ref("refs/heads/newer", repo.git.resolve(old) or "")
        if not config:
            repo.default_branch = "newer"
        run_git(repo.git.path, "update-ref", "-d", f"refs/heads/{old}")
        bot.hub.renamed_branches[repo.full_name, old] = "newer"
    assert (await ended(bot, issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert repo.pulls[0].base_ref == "newer"


@pytest.mark.parametrize(("differs", "begins"), [(True, False), (False, True)])
async def test_another_base_branch_is_looked_at_before_money_is_spent_and_closes_the_issue(
    bot: BotHarness, *, differs: bool, begins: bool
) -> None:
    repo = bot.add_repo(files={**SMALL_SHOP, WORKFLOW: "on: push\n"}, config="base_branch: dev\n")
    repo.git.set_ref("refs/heads/dev", repo.git.resolve("main") or "")
    if differs:
        await bot.hub.commit(repo, "main", {WORKFLOW: "on: [push]\n"}, "Bump", "alice")
    issue = await bot.open_issue(repo)
    run = await bot.solve(issue)
    assert (bool(bot.runner.jobs), bool(repo.pulls)) == (begins, begins)
    if begins:
        repo.pulls[0].draft = False
        await bot.hub.merge(repo.pulls[0], "alice")
        await bot.settle()
        assert issue.state == "closed"
    else:
        assert run.failure is Failure.CONFIG_INVALID
        assert "`.github/workflows`" in bot.comments_of(issue)[-1]


async def test_a_repository_deleted_meanwhile_leaves_one_sentence(bot: BotHarness) -> None:
    repo = bot.add_repo()
    ref = ref_of(repo)
    async with solving(bot, repo) as issue, bot.without_webhooks():
        await bot.hub.delete_repo(repo)
    run = await bot.run_at(ref, issue.number)
    assert (run.failure, run.facts.problem) == (Failure.PUBLISH_REFUSED, "gone")
