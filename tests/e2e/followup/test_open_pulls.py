"""Our pull requests from the day they open to their end: drafts, conflicts, and when to let go."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.followup.ready import NO_CHECKS_GRACE, is_green
from bot.github.models import CheckRunFacts
from bot.localhub import Repo
from bot.localhub.ci import report_check, report_status
from bot.localhub.state import Pull
from pipeline.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.commands.conftest import CrewUp
from tests.e2e.followup.test_evidence_check import opened
from tests.e2e.held_harness import Crew
from tests.support.data.publishing import FAILS

NEWER = "def total(a, b):\n    # Newer.\n    return a - b\n"
ANEW = Revision(
    patch=Patch(
        diff="diff --git a/shop.py b/shop.py\n--- a/shop.py\n+++ b/shop.py\n@@ -1,3 +1,3 @@\n"
        " def total(a, b):\n     # Newer.\n-    return a - b\n+    return a + b\n"
    ),
    answer="It adds.",
)


def shas(repo: Repo) -> list[str]:
    return [pull.head_sha for pull in repo.pulls]


async def test_a_draft_becomes_ready_when_the_repositorys_checks_pass(crew: Crew) -> None:
    _, pull = await opened(crew)
    assert pull.draft
    await report_check(crew.hub, pull, "failure", name="lint")
    await crew.settle()
    assert pull.draft
    await report_check(crew.hub, pull, "success", name="lint")
    await crew.settle()
    assert not pull.draft
    pull.draft = True  # a person thinks better of it
    await report_check(crew.hub, pull, "success", name="lint")
    await crew.settle()
    assert pull.draft


@pytest.mark.parametrize(("config", "draft"), [("draft: true\n", True), ("draft: false\n", False)])
async def test_a_draft_stays_what_the_repository_says(crew: Crew, config: str, draft: bool) -> None:
    _, pull = await opened(crew, config)
    await report_check(crew.hub, pull, "success")
    await crew.settle()
    assert pull.draft is draft


async def test_without_evidence_a_draft_stays_one(crew: Crew) -> None:
    crew.runner.after = [FAILS]
    _, pull = await opened(crew)
    await report_check(crew.hub, pull, "success")
    await crew.settle()
    assert pull.draft


def test_no_check_at_all_counts_as_green_only_after_a_while() -> None:
    running = CheckRunFacts(id=1, name="x", status="in_progress")
    assert not is_green([], [], waited=timedelta(minutes=5))
    assert is_green([], [], waited=NO_CHECKS_GRACE)
    assert not is_green([running], [], waited=NO_CHECKS_GRACE)


async def test_a_ci_that_sets_commit_statuses_is_waited_for_too(crew: Crew) -> None:
    _, pull = await opened(crew)
    await report_status(crew.hub, pull, "pending", context="ci/tests")
    await report_status(crew.hub, pull, "success", context="ci/lint")
    await crew.settle()
    assert pull.draft
    await report_status(crew.hub, pull, "error", context="ci/tests")
    await crew.settle()
    assert pull.draft
    await report_check(crew.hub, pull, "failure")
    await report_status(crew.hub, pull, "success", context="ci/tests")
    await crew.settle()
    assert pull.draft
    await report_check(crew.hub, pull, "success")
    await crew.settle()
    assert not pull.draft


async def test_a_commit_status_alone_makes_a_draft_ready(crew: Crew) -> None:
    _, pull = await opened(crew)
    await report_status(crew.hub, pull, "success")
    await crew.settle()
    assert not pull.draft


async def test_when_the_issue_is_closed_otherwise_ours_is_closed_with_thanks(crew: Crew) -> None:
    repo, pull = await opened(crew)
    await crew.hub.close_issue(repo.issues[1], "alice")
    await crew.settle()
    assert (pull.state, repo.list_branches()) == ("closed", ["main"])
    (said,) = crew.said(pull)
    assert said.startswith("#1 is closed, so this is not needed any more. Thank you")
    await crew.hub.reopen_issue(pull, "alice")
    await crew.settle()
    assert len(crew.said(pull)) == 1


async def test_what_a_person_pushed_is_not_deleted_with_it(crew: Crew) -> None:
    repo, pull = await opened(crew)
    await crew.hub.commit(repo, pull.head_ref, {"x.py": "x = 2\n"}, "Mine", "alice")
    await crew.hub.close_issue(repo.issues[1], "alice")
    await crew.settle()
    assert (pull.state, pull.head_ref in repo.list_branches()) == ("closed", True)


async def test_a_merged_one_is_let_go_and_its_branch_left_alone(crew: Crew) -> None:
    repo, pull = await opened(crew, "draft: false\n")
    await crew.hub.merge(pull, "alice")
    await crew.settle()
    assert pull.head_ref in repo.list_branches()
    assert crew.said(pull) == []
    assert await crew.storage.pulls.list_all(crew.ref(pull)) == []


@pytest.mark.parametrize(("days", "state"), [(40, "closed"), (20, "open")])
async def test_the_sweep_retires_what_nobody_touched(
    crew_up: CrewUp, days: int, state: str
) -> None:
    async with crew_up(follow_up_seconds=0.2) as crew:
        repo, pull = await opened(crew)
        pull.updated_at -= timedelta(days=days)
        runs = len(crew.hub.requests)
        async with crew.at_work():
            await crew.until(lambda: pull.state == state and len(crew.hub.requests) > runs + 10)
        assert (pull.head_ref in repo.list_branches()) is (state == "open")


async def test_stale_ones_are_kept_where_the_repository_says_so(crew: Crew) -> None:
    _, pull = await opened(crew, "stale_days: 0\n")
    pull.updated_at -= timedelta(days=4000)
    await report_check(crew.hub, pull, "success")
    await crew.settle()
    assert pull.state == "open"


async def test_a_conflict_is_mended_by_writing_the_change_anew(crew_up: CrewUp) -> None:
    async with crew_up(reverify_seconds=0) as crew:
        repo, pull = await opened(crew)
        crew.runner.revised = ANEW
        await crew.hub.commit(repo, "main", {"shop.py": NEWER}, "Newer", "alice")
        await crew.settle()
        (task,) = crew.runner.tasks
        assert task.conflicts
        assert "tests/test_total.py" in task.test_diff
        assert repo.list_commits(pull.head_ref)[:3] == [
            "Make total() add",
            "Add a failing test for #1",
            "Newer",
        ]
        assert repo.read_file(pull.head_ref, "shop.py") == NEWER.replace("a - b", "a + b")
        (said,) = crew.said(pull)
        assert said.startswith("The base branch had changed the same lines")
        assert repo.check_runs[-1].head_sha == pull.head_sha
        assert repo.check_runs[-1].conclusion == "success"


async def test_a_conflict_that_cannot_be_mended_is_told_of_once(crew_up: CrewUp) -> None:
    async with crew_up(reverify_seconds=0) as crew:
        repo, pull = await opened(crew)
        head = pull.head_sha
        crew.runner.revised = Revision(patch=None, answer="")
        for text in (NEWER, NEWER + "# again\n"):
            await crew.hub.commit(repo, "main", {"shop.py": text}, "Newer", "alice")
            await crew.settle()
        (said,) = crew.said(pull)
        assert said.startswith("This conflicts with `main`")
        assert (pull.head_sha, len(crew.runner.tasks)) == (head, 1)


async def test_somebody_elses_pull_request_is_none_of_our_business(crew: Crew) -> None:
    repo = crew.shop()
    await crew.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", "alice")
    pull: Pull = await crew.hub.open_pull(repo, "work", "Work", "alice")
    await crew.hub.review(pull, "tina", "No.", "CHANGES_REQUESTED", [("x.py", 1, "Why?")])
    await report_check(crew.hub, pull, "success")
    await crew.settle()
    assert (crew.said(pull), repo.check_runs[0].app, shas(repo)) == ([], "ci", [pull.head_sha])
