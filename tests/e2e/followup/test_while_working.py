"""What people say and do on a pull request of ours while it is being worked on."""

from __future__ import annotations

import asyncio

from pipeline.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.commands.conftest import CrewUp
from tests.e2e.followup.test_evidence_check import opened
from tests.e2e.followup.test_reviews import LINE, MORE, replies
from tests.e2e.held_harness import Crew


async def test_stop_ends_a_follow_up_and_status_tells_of_it(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        head = pull.head_sha
        crew.runner.revised = Revision(patch=Patch(diff=MORE), answer="Done.")

        async def told_to_stop() -> None:
            await crew.say(pull, "/capuchin status")
            await crew.until(lambda: crew.said(pull))
            await crew.say(pull, "/capuchin stop")
            await asyncio.sleep(60)  # a call of the model, under way

        crew.runner.meanwhile = told_to_stop
        async with crew.at_work():
            await crew.hub.review(pull, "alice", lines=LINE)
        status, stopped = crew.said(pull)
        assert status.startswith("I am working on it, as @alice asked.")
        assert stopped.startswith("I stopped as requested (@alice). I had spent nothing.")
        assert (pull.head_sha, replies(crew, pull)) == (head, [])
        crew.runner.meanwhile = None
        await crew.hub.review(pull, "alice", lines=[("shop.py", 1, "And here?")])
        await crew.settle()
        assert len(crew.runner.tasks[-1].feedback) == 1, "what was stopped is not taken up again"


async def test_status_and_explain_tell_of_the_run_that_opened_it(crew: Crew) -> None:
    repo, pull = await opened(crew)
    await crew.say(pull, "/capuchin status")
    await crew.say(pull, "/capuchin explain")
    await crew.say(pull, "/capuchin stop")
    await crew.settle()
    ended = "No run is active. The result of the latest run, requested by @alice: "
    status, explained, stop = sorted(crew.said(pull), key=_order)
    assert status.startswith(ended)
    assert explained.startswith(ended)
    assert "probability of" in explained
    assert stop.startswith("I am not working on this, so there is nothing to stop.")
    await crew.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", "alice")
    other = await crew.hub.open_pull(repo, "work", "Work", "alice")
    await crew.say(other, "/capuchin status")
    await crew.settle()
    assert crew.said(other)[-1].startswith("I did not open this pull request")


def _order(said: str) -> int:
    return 2 if said.startswith("I am not") else int("probability of" in said)


async def test_nothing_is_pushed_to_what_was_closed_meanwhile(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        head = pull.head_sha
        crew.runner.revised = Revision(patch=Patch(diff=MORE), answer="Done.")

        async def closed() -> None:
            await crew.hub.close_issue(pull, "alice")

        crew.runner.meanwhile = closed
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        assert (len(crew.runner.tasks), pull.head_sha) == (1, head)
