"""Follow-ups under the same limits as runs of issues, and what people see of them meanwhile."""

from __future__ import annotations

import pytest

from bot.comments.followup import CHECK_NAME
from bot.localhub.state import CheckRun
from bot.types import now
from pipeline.types import Patch
from pipeline.workflows.revise import Revision
from sandbox.errors import SandboxUnavailable
from tests.e2e.commands.conftest import CrewUp
from tests.e2e.followup.test_evidence_check import opened
from tests.e2e.followup.test_reviews import LINE, MORE, replies
from tests.e2e.held_harness import Crew

SPENT = Revision(patch=None, answer="", spent_ceiling="run")


async def test_each_thread_is_told_what_was_done_about_it(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0.3) as crew:
        repo, pull = await opened(crew)
        repo.grant("tina", "write")
        said = ("It says why.", "It stays.", "I kept the name.", "Yes.")
        crew.runner.revised = Revision(patch=Patch(diff=MORE), answer="all", replies=said)
        lines = [("shop.py", 1, "Why?"), ("shop.py", 2, "Inline it?")]
        await crew.hub.review(pull, "alice", "Rename it.", "CHANGES_REQUESTED", lines)
        await crew.hub.review(pull, "tina", "Sure?", "CHANGES_REQUESTED")
        await crew.hub.review(pull, "mallory", "No.", "CHANGES_REQUESTED")
        await crew.settle()
        (task,) = crew.runner.tasks
        order = [text.partition(": ")[2] for text in task.feedback]
        to = dict(zip(order, said, strict=True))
        here = f"Done in {pull.head_sha[:7]}."
        threads = [text.split("\n\n<!--")[0] for _, text in replies(crew, pull)]
        assert threads == [f"{here} {to['Why?']}", f"{here} {to['Inline it?']}"]
        (rest,) = crew.said(pull)
        assert rest.startswith(
            f"{here}\n\n@alice: {to['Rename it.']}\n\n@tina: {to['Sure?']}\n\n<!--"
        )
        assert "Not read: 1 comment by people who cannot push to this repository." in rest


@pytest.mark.parametrize("whose", ["person", "repository"])
async def test_what_is_over_a_quota_is_told_once_and_followed_the_next_day(
    crew_up: CrewUp, whose: str
) -> None:
    async with crew_up(review_seconds=0) as crew:
        repo, pull = await opened(crew)
        limit: dict[str, str | None] = {".github/capuchin.yml": f"quota: {{{whose}: 1}}\n"}
        await crew.hub.commit(repo, "main", limit, "Limit", "alice")
        for _ in range(2):
            await crew.hub.review(pull, "alice", lines=LINE)
            await crew.settle()
        assert (crew.runner.tasks, replies(crew, pull)) == ([], [])
        (said,) = crew.said(pull)
        assert said.startswith("Thank you, @alice. Today's quota of 1 run")
        assert "I will respond to this tomorrow." in said
        ref, day = crew.ref(pull), now().date().isoformat()
        for of in (f"{ref.installation}@alice", ref.full_name):
            await crew.redis.delete(crew.storage.keys.quota(of, day))  # midnight
        await crew.hub.review(pull, "alice", lines=[("shop.py", 1, "And here?")])
        await crew.settle()
        (task,) = crew.runner.tasks
        assert len(task.feedback) == 3


async def test_the_limit_of_one_run_is_told_and_what_to_do(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        crew.runner.revised = SPENT
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        ((_, said),) = replies(crew, pull)
        assert said.startswith("I reached the spending limit for one run")
        assert "`/capuchin fix`" in said


async def test_after_the_days_limit_a_review_waits_for_the_next_day(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        crew.runner.revised = SPENT.model_copy(update={"spent_ceiling": "installation"})
        for _ in range(2):
            await crew.hub.review(pull, "alice", lines=LINE)
            await crew.settle()
        assert len(crew.runner.tasks) == 1
        (said,) = crew.said(pull)
        assert said.startswith("The daily spending limit of this bot's operator is reached.")
        records = crew.storage.pulls
        before = {"paused_on": "2020-01-01"}  # the day is over
        await records.change(crew.ref(pull), pull.number, before, due_in=60)
        crew.runner.revised = Revision(patch=None, answer="It is so.")
        await crew.hub.review(pull, "alice", lines=[("shop.py", 1, "And?")])
        await crew.settle()
        assert len(crew.runner.tasks[-1].feedback) == 3


async def test_the_check_is_in_progress_while_the_test_is_run(crew: Crew) -> None:
    seen: list[tuple[str, str | None]] = []
    repo = crew.shop()

    def look() -> None:
        (run,) = repo.check_runs
        seen.append((run.status, run.title))

    crew.runner.verifying = look
    await crew.label(await crew.issue(repo))
    await crew.settle()
    assert seen == [("in_progress", "Running the reproduction test")]
    (run,) = repo.check_runs
    assert (run.name, run.status, run.conclusion) == (CHECK_NAME, "completed", "success")


@pytest.mark.parametrize("how", ["gives up", "is pushed to"])
async def test_no_check_stays_in_progress(crew_up: CrewUp, how: str) -> None:
    async with crew_up(patience_seconds=0 if how == "gives up" else 60) as crew:
        repo = crew.shop()
        down = SandboxUnavailable("down")

        def broken() -> None:
            if len(crew.runner.asked) == 1:
                raise down

        crew.runner.verifying = broken
        await crew.label(await crew.issue(repo))
        async with crew.at_work():
            await crew.until(lambda: crew.runner.asked)
            (pull,) = repo.pulls
            if how == "is pushed to":
                files: dict[str, str | None] = {"x.py": "x = 2\n"}
                await crew.hub.commit(repo, pull.head_ref, files, "Mine", "alice")
            await crew.until(lambda: crew.hurried(pull))
        assert [run.status for run in repo.check_runs if run.status != "completed"] == []
        first: CheckRun = repo.check_runs[0]
        assert (first.conclusion, first.title) == ("cancelled", "Not finished")


async def test_two_runs_that_note_something_at_once_lose_nothing(crew: Crew) -> None:
    _, pull = await opened(crew)
    ref, records = crew.ref(pull), crew.storage.pulls
    await records.change(ref, pull.number, {"handed_over": True}, due_in=60)
    await records.change(ref, pull.number, {"verified": "x"}, due_in=60)
    kept = await records.get(ref, pull.number)
    assert kept is not None
    assert (kept.handed_over, kept.verified) == (True, "x")
    assert await records.change(ref, 99, {"verified": "x"}, due_in=60) is None
