"""Reviews of our pull requests: who is followed, what is pushed, what is answered."""

from __future__ import annotations

import pytest

from bot.localhub.ci import report_check, report_status
from bot.localhub.state import Pull
from pipeline.models.base import ModelRefused
from pipeline.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.commands.conftest import CrewUp
from tests.e2e.followup.test_evidence_check import opened
from tests.e2e.held_harness import Crew

MORE = """\
diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -1,2 +1,3 @@
 def total(a, b):
+    # Both count.
     return a + b
"""
EDITED = Revision(patch=Patch(diff=MORE), answer="I said why it adds. Thanks @everyone, fixes #9.")
LINE = [("shop.py", 2, "Please say why.")]


def replies(crew: Crew, pull: Pull) -> list[tuple[int | None, str]]:
    """What we wrote in threads, and of which comment."""
    return [
        (comment.in_reply_to, comment.body)
        for review in pull.reviews
        for comment in review.comments
        if review.author is crew.hub.bot
    ]


async def test_comments_are_followed_together_and_each_is_answered_in_its_thread(
    crew_up: CrewUp,
) -> None:
    async with crew_up(review_seconds=0.3) as crew:
        repo, pull = await opened(crew)
        crew.runner.revised = EDITED
        before = pull.head_sha
        first = await crew.hub.review(pull, "alice", lines=LINE)
        second = await crew.hub.review(pull, "alice", "Not yet.", "CHANGES_REQUESTED")
        await crew.settle()
        (task,) = crew.runner.tasks
        assert sorted(task.feedback) == [
            "alice on shop.py, line 2: Please say why.",
            "alice: Not yet.",
        ]
        assert "-    return a - b\n+    return a + b" in task.diff
        assert repo.list_commits(pull.head_ref)[0] == "Address review comments"
        assert repo.git.read_commit(pull.head_sha).parents == (before,)
        ((thread, said),) = replies(crew, pull)
        assert thread == first.comments[0].id
        assert [reaction.content for reaction in first.comments[0].reactions] == ["eyes"]
        assert said.startswith(f"Done in {pull.head_sha[:7]}. I said why it adds. Thanks @\u200bev")
        (rest,) = crew.said(pull)
        assert f"capuchin:answer to=review-{second.id}" in rest


async def test_a_review_that_needs_no_change_is_answered(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        before = pull.head_sha
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        ((_, said),) = replies(crew, pull)
        assert said.startswith("I changed nothing. It is as it should be.")
        assert pull.head_sha == before
        await crew.hub.review(pull, "alice", lines=[("shop.py", 1, "And here?")])
        await crew.settle()
        assert [task.feedback for task in crew.runner.tasks][1:] == [
            ("alice on shop.py, line 1: And here?",)
        ]


async def test_what_people_without_write_access_say_reaches_no_model(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        for stranger in ("tina", "mallory", "ci-bot"):
            await crew.hub.review(pull, stranger, "Do x.", "CHANGES_REQUESTED", LINE)
        await crew.settle()
        assert crew.runner.tasks == []
        await crew.hub.review(pull, "alice", lines=[("shop.py", 2, "<!-- evil -->Why?")])
        await crew.settle()
        assert [task.feedback for task in crew.runner.tasks] == [
            ("alice on shop.py, line 2: Why?",)
        ]


async def test_failing_checks_of_the_repository_are_shown_with_the_review(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        notes = [{"path": "shop.py", "start_line": 2, "end_line": 2,
                  "annotation_level": "failure", "message": "E501 too long"}]  # fmt: skip
        output = {"title": "1 failed", "summary": "ruff found it", "annotations": notes}
        await report_check(crew.hub, pull, "failure", name="lint", output=output)
        await report_status(
            crew.hub, pull, "failure", context="ci/docs", description="2 broken links"
        )
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        (task,) = crew.runner.tasks
        assert task.logs == (
            "lint\n1 failed\nruff found it\nshop.py:2: E501 too long",
            "ci/docs: 2 broken links",
        )


@pytest.mark.parametrize("words", ["/capuchin fix\nSay why.", "@capuchin fix Say why."])
async def test_a_command_in_the_conversation_is_followed_and_talk_is_not(
    crew_up: CrewUp, words: str
) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        await crew.say(pull, "I wonder whether this should say why.")
        await crew.settle()
        assert crew.runner.tasks == []
        await crew.say(pull, words)
        await crew.settle()
        (task,) = crew.runner.tasks
        assert "Say why." in task.feedback[0]
        assert len(crew.said(pull)) == 1


async def test_a_person_who_pushes_has_the_branch_from_then_on(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        repo, pull = await opened(crew)
        crew.runner.revised = EDITED
        await crew.hub.commit(repo, pull.head_ref, {"x.py": "x = 2\n"}, "Mine", "alice")
        theirs = pull.head_sha
        await crew.settle()
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        assert (pull.head_sha, crew.runner.tasks) == (theirs, [])
        (said,) = crew.said(pull)
        assert said.startswith("Somebody else has pushed to this branch, so it is yours now")


async def test_a_person_who_is_faster_keeps_what_they_pushed(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        repo, pull = await opened(crew)
        crew.runner.revised = EDITED
        await crew.hub.review(pull, "alice", lines=LINE)
        crew.runner.meanwhile = lambda: crew.hub.commit(
            repo, pull.head_ref, {"x.py": "x = 2\n"}, "Mine", "alice"
        )
        await crew.settle()
        assert repo.list_commits(pull.head_ref)[0] == "Mine"
        assert any("it is yours now" in said for said in crew.said(pull))
        assert "has to" in replies(crew, pull)[0][1]


async def test_what_is_said_during_a_follow_up_is_followed_after_it(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        later = [("shop.py", 1, "And here?")]

        async def more() -> None:
            crew.runner.meanwhile = None
            await crew.hub.review(pull, "alice", lines=later)

        crew.runner.meanwhile = more
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        assert [task.feedback for task in crew.runner.tasks] == [
            ("alice on shop.py, line 2: Please say why.",),
            ("alice on shop.py, line 1: And here?",),
        ]
        assert len(replies(crew, pull)) == 2


async def test_follow_ups_keep_the_repositorys_manners(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        repo = crew.shop()
        for number in range(4):
            files: dict[str, str | None] = {"n.py": f"n = {number}\n", ".github/dco.yml": "x: 1\n"}
            await crew.hub.commit(repo, "main", files, f"feat: n is {number}", "alice")
        await crew.label(await crew.issue(repo))
        await crew.settle()
        (pull,) = repo.pulls
        crew.runner.revised = EDITED
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        message = repo.git.read_commit(pull.head_sha).message
        assert message.startswith("fix: follow the review\n")
        assert "\nCo-authored-by: alice <" in message
        assert "\nSigned-off-by: capuchin[bot] <" in message


async def test_reviews_are_left_to_people_where_the_repository_says_so(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew, "follow_up: false\n")
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        assert (crew.runner.tasks, replies(crew, pull)) == ([], [])


async def test_a_run_that_cannot_follow_says_so_once_and_does_not_try_again(
    crew_up: CrewUp,
) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        crew.runner.revised = ModelRefused("no")
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        (said,) = crew.said(pull)
        assert said.startswith("I could not follow up on this: the language model declined")
        await report_check(crew.hub, pull, "success")
        await crew.settle()
        assert len(crew.runner.tasks) == 1


@pytest.mark.parametrize(
    "path",
    ["/acme/shop.git/git-receive-pack", "/repos/*/replies", "/repos/*/issues/2/comments"],
)
async def test_a_lost_answer_makes_nothing_twice(crew_up: CrewUp, path: str) -> None:
    async with crew_up(review_seconds=0) as crew:
        repo, pull = await opened(crew)
        crew.runner.revised = EDITED
        before = len(repo.list_commits(pull.head_ref))
        await crew.hub.review(pull, "alice", "Why?", "CHANGES_REQUESTED", LINE)
        crew.hub.faults.fail_next("POST", path, status=502, after_effect=True)
        async with crew.at_work():
            await crew.until(lambda: crew.hub.faults.pending == [])
            await crew.until(lambda: crew.hurried(pull))
        assert crew.hub.faults.pending == []
        assert len(repo.list_commits(pull.head_ref)) == before + 1
        assert (len(replies(crew, pull)), len(crew.said(pull))) == (1, 1)
