"""Whatever a worker dies of that looks after a pull request: one push, one answer, one end."""

import pytest

from bot.data.run import Login, Mode
from bot.storage.lease import Lease
from capuchin_demo.hub.state import Pull, Repo
from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import FOLLOW_UP_DIFF
from tests.e2e.harness import BotHarness
from tests.support.hub import ref_of


async def opened(manual_bot: BotHarness) -> tuple[Repo, Pull]:
    """A pull request of ours that was looked after once."""
    repo, _, _ = await manual_bot.publish()
    (pull,) = repo.pulls
    await manual_bot.work_on(await leased(manual_bot, pull, ""))
    manual_bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Said so.")
    return repo, pull


async def leased(manual_bot: BotHarness, pull: Pull, delivery: str) -> Lease:
    """Of a new run on the pull request, or of the one that it has."""
    ref = ref_of(pull.repo)
    run = await manual_bot.runs.get_current(ref, pull.number)
    if run is None:
        asked = await manual_bot.runs.create(
            ref, pull.number, asked_by=Login("alice"), delivery=delivery, mode=Mode.FOLLOW_UP
        )
        return await manual_bot.take(asked.run_id)
    return await manual_bot.take(run.id)


COMMIT = ("trees", "commits")
"""What GitHub makes of a commit, and makes again after a crash; nobody sees it before the push."""
FOLLOWING = ("reactions", *COMMIT, "receive-pack", "replies", "comments", "check-runs", "check-run")


@pytest.mark.parametrize("effect", range(1, len(FOLLOWING) + 1))
async def test_a_review_is_followed_once(manual_bot: BotHarness, effect: int) -> None:
    repo, pull = await opened(manual_bot)
    line = [("shop.py", 2, "Why?")]
    await manual_bot.hub.review(pull, "alice", "Say why.", "CHANGES_REQUESTED", line)
    done = len(manual_bot.effects)
    lease = await leased(manual_bot, pull, "review")
    lease = await manual_bot.die_after(effect, lease)
    await manual_bot.work_on(lease)
    await manual_bot.work_on(await leased(manual_bot, pull, "again"))
    assert repo.list_commits(pull.head_ref)[:2] == ["Address review comments", "Make total() add"]
    assert [len(review.comments) for review in pull.reviews] == [1, 1]
    assert len(pull.comments) == 1
    assert [run.head_sha == pull.head_sha for run in repo.check_runs] == [False, True]
    seen = [effect for effect in manual_bot.effects[done:] if not effect.endswith(COMMIT)]
    assert len(seen) == len(FOLLOWING) - len(COMMIT)


CLOSING = ("comments", "pull", "branch")


@pytest.mark.parametrize("effect", range(1, len(CLOSING) + 1))
async def test_a_pull_request_is_let_go_once(manual_bot: BotHarness, effect: int) -> None:
    repo, pull = await opened(manual_bot)
    await manual_bot.hub.close_issue(repo.issues[1], "alice")
    lease = await manual_bot.die_after(effect, await leased(manual_bot, pull, "closed"))
    await manual_bot.work_on(lease)
    assert (pull.state, repo.list_branches(), len(pull.comments)) == ("closed", ["main"], 1)


NEWER = "def total(a, b):\n    # Newer.\n    return a - b\n"
ANEW = (
    "diff --git a/shop.py b/shop.py\n--- a/shop.py\n+++ b/shop.py\n@@ -1,3 +1,3 @@\n"
    " def total(a, b):\n     # Newer.\n-    return a - b\n+    return a + b\n"
)
MENDING = (*COMMIT, *COMMIT, "receive-pack", "comments", "check-runs", "check-run")


@pytest.mark.parametrize("effect", range(1, len(MENDING) + 1))
async def test_a_conflict_is_mended_once_whatever_is_said_meanwhile(
    manual_bot: BotHarness, effect: int
) -> None:
    repo, pull = await opened(manual_bot)
    manual_bot.runner.revised = Revision(patch=Patch(diff=ANEW), answer="It adds.")
    await manual_bot.hub.commit(repo, "main", {"shop.py": NEWER}, "Newer", "alice")
    lease = await leased(manual_bot, pull, "moved")
    lease = await manual_bot.die_after(effect, lease)
    await manual_bot.hub.review(pull, "alice", "Why?", "CHANGES_REQUESTED")
    await manual_bot.work_on(lease)
    assert repo.list_commits(pull.head_ref)[-5:] == [
        "Make total() add",
        "Add a failing test for #1",
        "Newer",
        "Initial commit",
    ]
    assert sum("I rewrote the change" in c.body for c in pull.comments) == 1
    assert not any("Somebody else" in c.body for c in pull.comments)
