"""Whatever a worker dies of that looks after a pull request: one push, one answer, one end."""

from __future__ import annotations

import pytest

from bot.followup.run import FollowUpRun
from bot.git.mirrors import Mirrors
from bot.localhub import Repo
from bot.localhub.state import Pull
from bot.storage.lease import Lease
from bot.types import Mode
from pipeline.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.single_run_harness import Office
from tests.support.hub import ref_of

MORE = (
    "diff --git a/shop.py b/shop.py\n--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,3 @@\n"
    " def total(a, b):\n+    # Both count.\n     return a + b\n"
)


def tend(office: Office) -> FollowUpRun:
    mirrors = Mirrors(office.settings.data_dir)
    return FollowUpRun(office.settings, office.github, mirrors, office.runner)


async def opened(office: Office) -> tuple[Repo, Pull]:
    """A pull request of ours that was looked after once."""
    repo, issue = await office.prepare()
    await office.do(await office.lease(repo, issue))
    (pull,) = repo.pulls
    await ended(office, await leased(office, pull, ""))
    office.runner.revised = Revision(patch=Patch(diff=MORE), answer="Said so.")
    return repo, pull


async def leased(office: Office, pull: Pull, delivery: str) -> Lease:
    """Of a new run on the pull request, or of the one that it has."""
    ref = ref_of(pull.repo)
    run = await office.runs.get_current(ref, pull.number)
    if run is None:
        asked = await office.runs.create(
            ref, pull.number, asked_by="alice", delivery=delivery, mode=Mode.FOLLOW_UP
        )
        return await office.taken(asked.run_id)
    return await office.taken(run.id)


async def ended(office: Office, lease: Lease) -> None:
    await lease.finish(await tend(office)(lease.run, lease))


FOLLOWING = ("reactions", "receive-pack", "replies", "comments", "check-runs", "check-run")


@pytest.mark.parametrize("effect", range(1, len(FOLLOWING) + 1))
async def test_a_review_is_followed_once(office: Office, effect: int) -> None:
    repo, pull = await opened(office)
    line = [("shop.py", 2, "Why?")]
    await office.hub.review(pull, "alice", "Say why.", "CHANGES_REQUESTED", line)
    done = len(office.effects)
    lease = await leased(office, pull, "review")
    lease = await office.die_after(effect, lease, tend(office))
    await ended(office, lease)
    await ended(office, await leased(office, pull, "again"))
    assert repo.list_commits(pull.head_ref)[:2] == ["Address review comments", "Make total() add"]
    assert [len(review.comments) for review in pull.reviews] == [1, 1]
    assert len(pull.comments) == 1
    assert [run.head_sha == pull.head_sha for run in repo.check_runs] == [False, True]
    assert len(office.effects) - done == len(FOLLOWING)


CLOSING = ("comments", "pull", "branch")


@pytest.mark.parametrize("effect", range(1, len(CLOSING) + 1))
async def test_a_pull_request_is_let_go_once(office: Office, effect: int) -> None:
    repo, pull = await opened(office)
    await office.hub.close_issue(repo.issues[1], "alice")
    lease = await office.die_after(effect, await leased(office, pull, "closed"), tend(office))
    await ended(office, lease)
    assert (pull.state, repo.list_branches(), len(pull.comments)) == ("closed", ["main"], 1)


NEWER = "def total(a, b):\n    # Newer.\n    return a - b\n"
ANEW = (
    "diff --git a/shop.py b/shop.py\n--- a/shop.py\n+++ b/shop.py\n@@ -1,3 +1,3 @@\n"
    " def total(a, b):\n     # Newer.\n-    return a - b\n+    return a + b\n"
)
MENDING = ("receive-pack", "comments", "check-runs", "check-run")


@pytest.mark.parametrize("effect", range(1, len(MENDING) + 1))
async def test_a_conflict_is_mended_once_whatever_is_said_meanwhile(
    office: Office, effect: int
) -> None:
    repo, pull = await opened(office)
    office.runner.revised = Revision(patch=Patch(diff=ANEW), answer="It adds.")
    await office.hub.commit(repo, "main", {"shop.py": NEWER}, "Newer", "alice")
    lease = await leased(office, pull, "moved")
    lease = await office.die_after(effect, lease, tend(office))
    await office.hub.review(pull, "alice", "Why?", "CHANGES_REQUESTED")
    await ended(office, lease)
    assert repo.list_commits(pull.head_ref)[-5:] == [
        "Make total() add",
        "Add a failing test for #1",
        "Newer",
        "Initial commit",
    ]
    assert sum("I rewrote the change" in c.body for c in pull.comments) == 1
    assert not any("it is yours now" in c.body for c in pull.comments)
