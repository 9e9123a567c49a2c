"""`/capuchin judge #12 #34`: a verdict on pull requests of others, as a comment; nothing is pushed.

What a pull request holds is data: it is fetched, applied in the sandbox and run there, no more.
"""

from __future__ import annotations

from typing import Final

from bot.comments import status
from bot.comments.verdict import judged_pulls
from bot.errors import RepositoryGone
from bot.github.models import PullRequestFacts
from bot.runner.types import Ask, Outcome
from bot.runs.context import Scene
from bot.storage.checkpoints import RedisStore
from bot.storage.progress import WatchedStore
from bot.types import Run, RunStatus, changed
from pipeline.codebase.git import GitFailed
from pipeline.edits.external import Adopted, ForeignEdit, diff_between
from pipeline.select import ADOPTED_KEY
from pipeline.types import Issue

NONE: Final = "There is no pull request of this number here."
CLOSED: Final = "It is closed."
MERGED: Final = "It is merged already."
UNRELATED: Final = "It has no history in common with the default branch."
GONE: Final = "Its commits are no longer there."
BROKEN: Final = "git could not read it."


async def judge_pulls(scene: Scene, issue: Issue) -> Run:
    """The run as it ended, its verdict told. Raises as `SolveIssue`."""
    run, lease = scene.run, scene.lease
    store = WatchedStore(RedisStore.of(lease), scene.status.say)
    async with scene.status.shown(run):
        edits: list[ForeignEdit] = []
        if await store.load(ADOPTED_KEY, Adopted) is None:
            store.say("Fetching the pull requests.")
            edits = [await _edit(scene, number) for number in run.pulls]
        await scene.fetched(scene.checkout.base)  # a mirror that was made anew lacks it
        job = await scene.job(issue)
        chosen = await scene.workshop.choose(
            job, Ask(edits), store, steps=lease.steps, say=store.say
        )
    run = changed(lease.run, dollars=chosen.dollars)
    await lease.save(run)
    if isinstance(chosen, Outcome):
        return await scene.closed(RunStatus.JUDGED, status.not_judged(run))
    return await scene.closed(RunStatus.JUDGED, judged_pulls(run, chosen))


async def _edit(scene: Scene, number: int) -> ForeignEdit:
    """What a pull request changes since it left the default branch, or why that is not known."""
    facts = await scene.repo.pulls.get(number)
    if facts is None:
        return ForeignEdit(f"#{number}", b"", NONE)
    name = f"#{number} by {facts.author}"
    if facts.state != "open":
        return ForeignEdit(name, b"", MERGED if facts.merged_at else CLOSED)
    try:
        return await _fetched(scene, facts, name)
    except RepositoryGone:
        return ForeignEdit(name, b"", GONE)
    except GitFailed:
        return ForeignEdit(name, b"", BROKEN)


async def _fetched(scene: Scene, facts: PullRequestFacts, name: str) -> ForeignEdit:
    forked = await scene.repo.pulls.forked_at(scene.checkout.base, facts.head_sha)
    if forked is None:
        return ForeignEdit(name, b"", UNRELATED)
    await scene.fetched(forked)
    place = await scene.fetched(facts.head_sha)
    return await diff_between(place.git_dir, forked, facts.head_sha, name)
