"""Our pull requests from the day they open to their end: drafts, evidence, conflicts."""

from datetime import timedelta

import pytest

from bot.comments.followup import CHECK_NAME
from bot.data.run import Login, Mode
from bot.followup.checks import CHECKS_GRACE
from capuchin_demo.hub.check_actions import (
    queue_suite,
    report_check,
    report_status,
    rerun,
    rerun_all,
)
from capuchin_demo.hub.state import Pull, Repo
from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from sandbox.program import Execution
from tests.e2e.followup.steps import finish_check, open_pull
from tests.e2e.harness import BotHarness
from tests.support.data.publishing import FAILS, HANGS, PASSES
from tests.support.github.hub_state import Rules
from tests.support.hub import ref_of

pytestmark = pytest.mark.settings(reverify_seconds=0)

NEWER = "def total(a, b):\n    # Newer.\n    return a - b\n"
ANEW = Revision(
    patch=Patch(
        diff="diff --git a/shop.py b/shop.py\n--- a/shop.py\n+++ b/shop.py\n@@ -1,3 +1,3 @@\n"
        " def total(a, b):\n     # Newer.\n-    return a - b\n+    return a + b\n"
    ),
    answer="It adds.",
)


async def test_a_draft_becomes_ready_when_the_repositorys_checks_pass(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    assert pull.draft
    await finish_check(bot, pull, "failure", name="lint")
    assert pull.draft
    await finish_check(bot, pull, "success", name="lint")
    assert not pull.draft
    pull.draft = True  # a person thinks better of it
    await finish_check(bot, pull, "success", name="lint")
    assert pull.draft


@pytest.mark.parametrize(("config", "draft"), [("draft: true\n", True), ("draft: false\n", False)])
async def test_a_draft_stays_what_the_repository_says(
    bot: BotHarness, config: str, draft: bool
) -> None:
    _, pull = await open_pull(bot, config)
    await finish_check(bot, pull, "success")
    assert pull.draft is draft


async def test_without_evidence_a_draft_stays_one(bot: BotHarness) -> None:
    bot.runner.after = [FAILS]
    _, pull = await open_pull(bot)
    await finish_check(bot, pull, "success")
    assert pull.draft


async def test_no_check_at_all_counts_as_green_after_a_while_and_is_said(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    suite = queue_suite(bot.hub, pull, "unused")
    pull.created_at -= CHECKS_GRACE
    await look_again(bot, pull, "1")
    assert pull.draft
    suite.created_at -= CHECKS_GRACE
    await look_again(bot, pull, "2")
    assert (pull.draft, len(bot.comments_of(pull))) == (False, 1)


@pytest.mark.parametrize(
    ("config", "required", "draft", "said"),
    [
        ("", (), True, 1),
        ("", ("ci/tests",), False, 0),
        ("", ("tide",), True, 1),
        ("", ("ci/tests", "has not reported"), True, 0),
        ("draft: [tide]\n", (), False, 0),
    ],
)
async def test_a_status_that_never_ends_is_named_once_or_does_not_count(
    bot: BotHarness, config: str, required: tuple[str, ...], *, draft: bool, said: int
) -> None:
    repo = bot.add_repo(config=config)
    bot.hub.rules[repo.id] = Rules(required_checks=required)
    await bot.open_issue(repo)
    await bot.settle()
    (pull,) = repo.pulls
    await report_status(bot.hub, pull, "pending", context="tide")
    await report_status(bot.hub, pull, "success", context="ci/tests")
    await bot.settle()
    assert bot.comments_of(pull) == []
    pull.created_at -= CHECKS_GRACE
    await look_again(bot, pull, "1")
    pull.updated_at -= timedelta(days=31)
    await look_again(bot, pull, "2")
    notes = [one for one in bot.comments_of(pull) if "`tide`" in one]
    assert (pull.draft, len(notes)) == (draft, said)
    asked = [one for one in bot.hub.requests if "/rules/branches/" in one.path]
    assert len(asked) == 1  # of each head
    assert (pull.state == "open") == draft


async def look_again(bot: BotHarness, pull: Pull, delivery: str) -> None:
    """As when it is due, some time later."""
    ref = ref_of(pull.repo)
    await bot.runs.create(
        ref, pull.number, asked_by=Login("alice"), delivery=delivery, mode=Mode.FOLLOW_UP
    )
    await bot.settle()


async def test_a_quick_check_is_not_the_ci(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    queue_suite(bot.hub, pull)
    await finish_check(bot, pull, "success", name="licence/agreement", app="cla")
    assert pull.draft
    await finish_check(bot, pull, "failure")
    assert pull.draft
    await finish_check(bot, pull, "success")
    assert not pull.draft


async def test_a_check_that_fails_later_makes_it_a_draft_until_it_passes(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    await finish_check(bot, pull, "success", name="lint")
    assert not pull.draft
    await finish_check(bot, pull, "failure", app="slow")
    assert pull.draft
    await finish_check(bot, pull, "success", app="slow")
    assert not pull.draft


async def test_a_ci_that_sets_commit_statuses_is_waited_for_too(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    await report_status(bot.hub, pull, "pending", context="ci/tests")
    await report_status(bot.hub, pull, "success", context="ci/lint")
    await bot.settle()
    assert pull.draft
    await report_status(bot.hub, pull, "error", context="ci/tests")
    await bot.settle()
    assert pull.draft
    await report_check(bot.hub, pull, "failure")
    await report_status(bot.hub, pull, "success", context="ci/tests")
    await bot.settle()
    assert pull.draft
    await finish_check(bot, pull, "success")
    assert not pull.draft


async def test_a_commit_status_alone_makes_a_draft_ready(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    await report_status(bot.hub, pull, "success")
    await bot.settle()
    assert not pull.draft


async def test_when_the_issue_is_closed_otherwise_ours_is_closed_with_thanks(
    bot: BotHarness,
) -> None:
    repo, pull = await open_pull(bot)
    await bot.hub.close_issue(repo.issues[1], "alice")
    await bot.settle()
    assert (pull.state, repo.list_branches()) == ("closed", ["main"])
    (said,) = bot.comments_of(pull)
    assert "#1" in said
    await bot.hub.reopen_issue(pull, "alice")
    await bot.settle()
    assert len(bot.comments_of(pull)) == 1


async def test_a_reporter_who_closes_the_issue_closes_no_pull_request_of_ours(
    bot: BotHarness,
) -> None:
    repo, pull = await open_pull(bot)
    await bot.hub.close_issue(repo.issues[1], repo.issues[1].author.login)
    await bot.settle()
    assert pull.state == "open"
    assert pull.head_ref in repo.list_branches()


async def test_what_a_person_pushed_is_not_deleted_with_it(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    await bot.hub.commit(repo, pull.head_ref, {"x.py": "x = 2\n"}, "Mine", "alice")
    await bot.hub.close_issue(repo.issues[1], "alice")
    await bot.settle()
    assert (pull.state, pull.head_ref in repo.list_branches()) == ("closed", True)


async def test_a_merged_one_is_let_go_and_its_branch_left_alone(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot, "draft: false\n")
    await bot.hub.merge(pull, "alice")
    await bot.settle()
    assert pull.head_ref in repo.list_branches()
    assert bot.comments_of(pull) == []
    assert await bot.storage.pulls.list_all(ref_of(pull.repo)) == []


@pytest.mark.parametrize(("days", "state"), [(40, "closed"), (20, "open")])
@pytest.mark.settings(follow_up_seconds=0.2)
async def test_the_sweep_retires_what_nobody_touched(
    bot: BotHarness, days: int, state: str
) -> None:
    repo, pull = await open_pull(bot, "draft: false\n")  # a draft of ours waits for its checks
    pull.updated_at -= timedelta(days=days)
    runs = len(bot.hub.requests)
    async with bot.working():
        await bot.until(lambda: pull.state == state and len(bot.hub.requests) > runs + 10)
    assert (pull.head_ref in repo.list_branches()) is (state == "open")


async def test_a_conflict_is_mended_by_writing_the_change_anew(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    bot.runner.revised = ANEW
    await bot.hub.commit(repo, "main", {"shop.py": NEWER}, "Newer", "alice")
    await bot.settle()
    (task,) = bot.runner.tasks
    assert task.conflicts
    assert "tests/test_total.py" in task.test_diff
    assert repo.list_commits(pull.head_ref)[:3] == [
        "Make total() add",
        "Add a failing test for #1",
        "Newer",
    ]
    assert repo.read_file(pull.head_ref, "shop.py") == NEWER.replace("a - b", "a + b")
    assert len(bot.comments_of(pull)) == 1
    assert repo.check_runs[-1].head_sha == pull.head_sha
    assert repo.check_runs[-1].conclusion == "success"


async def test_a_conflict_that_cannot_be_mended_is_reported_once(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    head = pull.head_sha
    bot.runner.revised = Revision(patch=None, answer="")
    for text in (NEWER, NEWER + "# again\n"):
        await bot.hub.commit(repo, "main", {"shop.py": text}, "Newer", "alice")
        await bot.settle()
    (said,) = bot.comments_of(pull)
    assert "`main`" in said
    assert (pull.head_sha, len(bot.runner.tasks)) == (head, 1)


async def test_somebody_elses_pull_request_is_none_of_our_business(bot: BotHarness) -> None:
    repo = bot.add_repo()
    await bot.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", "alice")
    pull: Pull = await bot.hub.open_pull(repo, "work", "Work", "alice")
    await bot.hub.review(pull, "tina", "No.", "CHANGES_REQUESTED", [("x.py", 1, "Why?")])
    await finish_check(bot, pull, "success")
    assert (bot.comments_of(pull), repo.check_runs[0].suite.app) == ([], "ci")
    assert [one.head_sha for one in repo.pulls] == [pull.head_sha]


def checks(repo: Repo) -> list[tuple[str, str | None, str]]:
    return [(run.head_sha, run.conclusion, run.title or "") for run in repo.check_runs]


async def test_the_test_is_run_on_base_and_on_head(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    (run,) = repo.check_runs
    assert (run.name, run.head_sha, run.conclusion) == (CHECK_NAME, pull.head_sha, "success")
    assert "3 of 3" in (run.title or "")
    (ask,) = bot.runner.asked
    assert set(ask.changes) == {"shop.py", "tests/test_total.py"}
    assert "assert -1 == 3" in (run.text or "")
    assert "1 passed" in (run.text or "")


@pytest.mark.parametrize(
    ("before", "after", "conclusion", "title"),
    [
        ([FAILS], [PASSES, FAILS], "neutral", "Flaky"),
        ([FAILS, PASSES], [PASSES], "neutral", "Flaky"),
        ([PASSES], [PASSES], "failure", "No evidence"),
        ([HANGS], [PASSES], "failure", "No evidence"),
        ([FAILS], [FAILS], "failure", "The test"),
    ],
)
async def test_evidence_that_shows_nothing_is_not_called_success(
    bot: BotHarness, before: list[Execution], after: list[Execution], conclusion: str, title: str
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


@pytest.mark.settings(reverify_seconds=0.5)
async def test_when_the_base_moves_the_evidence_is_gathered_upon_it_once(
    bot: BotHarness,
) -> None:
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
    bot: BotHarness,
) -> None:
    repo, _ = await open_pull(bot, "follow_up: false\n")
    text = "def total(a, b):\n    return a - b - 0\n"
    await bot.hub.commit(repo, "main", {"shop.py": text}, "x", "alice")
    await bot.settle()
    assert len(checks(repo)) == 2
