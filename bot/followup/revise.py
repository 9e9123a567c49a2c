"""Follows what reviewers said, and mends what a newer base broke: new commits, and an answer."""

from __future__ import annotations

from dataclasses import replace

from bot.comments import followup
from bot.comments.pull_request import test_title
from bot.errors import PublishRefused, PushRejected, UnfitDiff
from bot.followup.context import Care
from bot.followup.feedback import Batch, Listener
from bot.followup.limits import affords, of_the_day, pause, paused, served
from bot.followup.respond import answered, seen
from bot.git.commits import commit, push
from bot.git.merge import changes, merged
from bot.git.mirrors import Checkout
from bot.markdown import line
from bot.settings import host_of
from bot.storage.pulls import MOST_ANSWERED
from bot.types import Frozen, Run
from pipeline.codebase.commit import Codebase
from pipeline.edits.patches import patch_of
from pipeline.workflows.revise import Revised, Task

BATCH_KEY = "feedback"
CLASH_KEY = "clash"


class Superseded(Exception):
    """The pull request was closed, or we put another edit into it: another run does the rest."""


class Clash(Frozen):
    """What is mended. Saved, so that who goes on after a crash mends the same."""

    tip: str
    head: str
    done: bool = False
    """It is mended, or told of."""


async def followed(care: Care) -> Care:
    """New commits for what is new in reviews, and an answer to each, in its thread."""
    batch = await care.store.load(BATCH_KEY, Batch)
    if batch is None and not paused(care):
        batch = await served(care, await Listener(care).batch())
    if batch is None or not batch.said or batch.done:
        return care
    await care.store.save(BATCH_KEY, batch)
    await seen(care, batch)
    head = await care.fetched(batch.head)
    code = await Codebase.open(head.git_dir, head.base)
    revised = await _revised(care, code, await _task(care, batch, code))
    if of_the_day(revised.spent):
        return await pause(care, revised.spent, tell=True)
    sha = ""
    if revised.patch is not None:
        title = care.record.manners.titled("fix", followup.follow_title())
        try:
            sha = await _commit(care, head, head.base, revised.patch.diff, title, revised.answer)
        except UnfitDiff:
            revised = Revised(patch=None, answer="")
    if sha:
        care = await _pushed(care, head, sha, expected=batch.head)
    await answered(care, batch, revised, sha)
    care = await settled(care, batch)
    await care.store.save(BATCH_KEY, batch.model_copy(update={"done": True}))
    return care


async def unfinished(care: Care) -> bool:
    """Whether mending was begun, and broke off: until it is done the head is in between."""
    clash = await care.store.load(CLASH_KEY, Clash)
    return clash is not None and not clash.done


async def settled(care: Care, batch: Batch) -> Care:
    """Nothing of the batch is to be followed again."""
    ids = dict.fromkeys((*care.record.answered, *(said.id for said in batch.said)))
    return await care.noted(answered=tuple(ids)[-MOST_ANSWERED:])


async def stopped(care: Care, run: Run) -> None:
    """Somebody wanted it: told, with what was spent; nothing that was said until then is left."""
    marker = followup.note_marker("stopped", run.id)
    await care.say_once(marker, followup.stopped(run, marker))
    await settled(care, await Listener(care).batch())


async def mended(care: Care, tip: Checkout) -> Care:
    """The change written anew upon the base branch's head, if the two clash; or why it is not."""
    clash = await care.store.load(CLASH_KEY, Clash)
    if clash is not None and clash.done:
        return care
    if clash is None:
        known = care.record.refused == care.pull.head_sha or paused(care)
        if known or await _fits(care, tip) or not await affords(care):
            return care
        clash = Clash(tip=tip.base, head=care.pull.head_sha)
        await care.store.save(CLASH_KEY, clash)
    care = await _anew_upon(care, clash, tip.branch)
    if paused(care):
        return care
    await care.store.save(CLASH_KEY, clash.model_copy(update={"done": True}))
    return care


async def _anew_upon(care: Care, clash: Clash, branch: str) -> Care:
    base = await care.fetched(clash.tip)
    code = await Codebase.open(base.git_dir, base.base)
    task = await _anew(care, clash, code)
    revised = await _revised(care, code, task)
    if of_the_day(revised.spent):
        return await pause(care, revised.spent, tell=False)
    if revised.patch is None:
        marker = followup.note_marker("conflict", clash.head)
        await care.say_once(marker, followup.conflict(branch, marker))
        return await care.noted(refused=clash.head)
    manners = care.record.manners
    issue = care.record.issue
    red = await _commit(
        care, base, base.base, task.test_diff,
        manners.titled("test", test_title(issue)), "",
    ) if task.test_diff else base.base  # fmt: skip
    title = manners.titled("fix", line(care.pull.title, 100) or f"Fix issue {issue}")
    sha = await _commit(care, base, red, revised.patch.diff, title, revised.answer)
    care = await _pushed(care, base, sha, expected=clash.head)
    if care.record.handed_over:
        return care
    care = await care.noted(base=base.base)
    marker = followup.note_marker("rebased", sha)
    await care.say_once(marker, followup.rebased(sha[:7], marker))
    return care


async def _fits(care: Care, tip: Checkout) -> bool:
    await care.fetched(care.pull.head_sha)
    await care.fetched(care.record.base)
    both = await merged(
        tip.git_dir,
        base=care.record.base,
        ours=care.pull.head_sha,
        theirs=tip.base,
        identity=care.repo.identity,
    )
    return both is not None


async def _task(care: Care, batch: Batch, code: Codebase) -> Task:
    base = await care.fetched(care.record.base)
    before = await Codebase.open(base.git_dir, base.base)
    changed = await changes(before, code)
    return Task(
        issue=care.record.about,
        diff=(await patch_of(before, changed)).diff,
        feedback=tuple(said.told() for said in batch.said),
        logs=batch.logs,
        files=(*changed, *(said.path for said in batch.said if said.path)),
        test=care.record.test_path,
        command=care.record.command,
    )


async def _anew(care: Care, clash: Clash, code: Codebase) -> Task:
    head = await care.fetched(clash.head)
    base = await care.fetched(care.record.base)
    before = await Codebase.open(base.git_dir, base.base)
    after = await Codebase.open(head.git_dir, head.base)
    changed = await changes(before, after)
    test = care.record.test_path
    added = {test: changed[test]} if test in changed else {}
    return Task(
        issue=care.record.about,
        diff=(await patch_of(before, changed)).diff,
        clashes=True,
        files=tuple(changed),
        test=test,
        test_diff=(await patch_of(code, added)).diff if added else "",
        command=care.record.command,
    )


async def _revised(care: Care, code: Codebase, task: Task) -> Revised:
    return await care.workshop.revise(
        await care.job(code, task.issue),
        task,
        care.store,
        steps=care.lease.steps,
        say=lambda _: None,
    )


async def _commit(care: Care, at: Checkout, parent: str, diff: str, title: str, body: str) -> str:
    """Dated by the run: each try makes the same commit."""
    record, host = care.record, host_of(care.settings)
    identity = care.repo.identity
    return await commit(
        at.git_dir,
        parent=parent,
        diff=diff,
        message=record.manners.message(title, line(body, 1000), identity, record.asked_by, host),
        author=identity,
        at=care.run.created_at,
    )


async def _pushed(care: Care, at: Checkout, sha: str, *, expected: str) -> Care:
    """The branch at `sha`, unless a person was faster: then it is theirs. Raises Superseded."""
    if care.pull.head_sha != sha:
        now = await care.repo.pulls.get(care.pull.number)
        if now is None or now.state != "open":
            raise Superseded
        care = await care.noted(about_to_push=sha)
        try:
            await push(at.git_dir, care.remote, sha=sha, branch=care.record.branch,
                       expected=expected)  # fmt: skip
        except PushRejected:
            there = await care.repo.branch_head(care.record.branch)
            if there == expected:
                raise PublishRefused("the repository's rules forbid the push") from None
            care = await care.noted(about_to_push="")
            if there is not None and care.record.ours(there):  # another edit, by `use`
                raise Superseded from None
            return await handed_over(care)
    care = replace(care, pull=care.pull.model_copy(update={"head_sha": sha}))
    return await care.noted(head=sha, about_to_push="")


async def handed_over(care: Care) -> Care:
    """The branch is a person's from now on; said once."""
    number = care.pull.number
    body = followup.handed_over(number)
    await care.say_once(followup.note_marker("handed-over", str(number)), body)
    return await care.noted(handed_over=True, about_to_push="")
