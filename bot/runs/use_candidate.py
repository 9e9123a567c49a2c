"""`/capuchin use 2`: another edit of a run takes the place of the one in its pull request.

Two commits on top of what is there, one that takes the old edit back and one that holds the new:
reviews keep their place, nothing is forced, and a branch with somebody else's commit is let be.
Every effect is find-or-create, as in `bot.publish.publish`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bot.comments import candidates as replies
from bot.comments import pull_request
from bot.errors import PushRejected, UnfitDiff
from bot.git.commits import commit, push, retake
from bot.github.models import PullRequestFacts
from bot.publish.prepare import Found, answer_to
from bot.publish.publish import Answer
from bot.runs.context import Scene
from bot.storage.branch_history import Content, Contents, order_of
from bot.storage.checkpoints import RedisStore
from bot.storage.client import patiently
from bot.storage.keys import CONTENTS_KEY, ISSUE_KEY
from bot.storage.progress import WatchedStore
from bot.storage.pulls import PullRecord, Records
from bot.storage.runs import Runs
from bot.types import Mode, Run, RunStatus
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.solve import OUTCOME_KEY, Solved
from pipeline.types import Issue, Selection
from pipeline.workflows.substitute import instead


class Refused(Exception):
    """It cannot be done; `str(error)` is the sentence for the maintainer."""


@dataclass(frozen=True)
class Source:
    """The run whose pull request is changed."""

    run: Run
    store: RedisStore
    chosen: Selection
    pull: PullRequestFacts
    contents: Contents


async def use_candidate(scene: Scene) -> Run:
    """The run as it ended, its maintainer told. Raises as `SolveIssue`."""
    try:
        source = await _source(scene)
        told = await _used(scene, source)
    except Refused as refused:
        return await scene.closed(
            RunStatus.REFUSED, replies.not_used(scene.lease.run, str(refused))
        )
    fields = {"pull_request": source.pull.number, "pull_request_url": source.pull.html_url}
    return await scene.closed(RunStatus.SWAPPED, told, **fields)


async def _source(scene: Scene) -> Source:
    lease, run = scene.lease, scene.run
    source = await Runs(lease.redis, lease.keys.prefix).readable(run.published)
    if source is None or source.pull_request is None:
        raise Refused(replies.run_not_kept())
    store = RedisStore(lease.redis, lease.keys, source.id, lease.steps)
    solved = await store.load(OUTCOME_KEY, Solved)
    pull = await scene.repo.pulls.get(source.pull_request)
    if solved is None or not isinstance(solved.result, Selection):
        raise Refused(replies.edits_not_kept())
    if pull is None or pull.state != "open":
        raise Refused(replies.not_open(source.pull_request))
    if not 1 <= run.candidate <= len(order_of(solved.result)):
        raise Refused(replies.no_such_edit(run.candidate))
    contents = await store.load(CONTENTS_KEY, Contents) or Contents.of(source)
    return Source(source, store, solved.result, pull, contents)


async def _used(scene: Scene, source: Source) -> str:
    run, number = scene.run, source.pull.number
    state = source.contents.at(source.pull.head_sha)
    if state is None:
        raise Refused(await _why_not_known(scene, source))
    if state.candidate == run.candidate and state.run != run.id:
        raise Refused(replies.held_already(number, run.candidate))
    selection = await _tried(scene, source)
    answer = await _answer(scene, source, selection)
    head = state.head if state.run == run.id else await _pushed(scene, source, state, answer)
    await _noted(scene, number, head=head, about_to_push="")
    await scene.lease.require()
    body = pull_request.body(
        source.run, selection, answer.accounts, answer.template, sent=answer.sent
    )
    await scene.repo.pulls.describe(number, body)
    await _looked_after(scene, number)
    return replies.used(scene.lease.run, number, selection)


async def _answer(scene: Scene, source: Source, selection: Selection) -> Answer:
    """What is published, in the form that the repository wants."""
    ledger = await source.store.load(LEDGER_KEY, Ledger)
    issue = await source.store.load(ISSUE_KEY, Issue) or _unknown(scene)
    accounts, sent_to = (ledger.accounts, ledger.sent_to) if ledger else ((), ())
    found = Found(issue, selection, accounts, sent_to)
    answer = await answer_to(
        found, scene.repo, scene.checkout, scene.lease, scene.may, scene.ending.settings
    )
    return replace(answer, run=source.run)


async def _why_not_known(scene: Scene, source: Source) -> str:
    """Why the head of the branch is none that an edit of ours could be exchanged on."""
    number = source.pull.number
    record = await _record(scene, number)
    if record is not None and record.ours(source.pull.head_sha):
        return replies.changed_since(number)
    return replies.pushed_to(number)


async def _record(scene: Scene, number: int) -> PullRecord | None:
    records = Records(scene.lease.redis, scene.lease.keys)
    return await patiently(lambda: records.get(scene.run.repo, number))


async def _noted(scene: Scene, number: int, **fields: object) -> None:
    """For whoever looks after the pull request: what is pushed is ours, no person's."""
    records = Records(scene.lease.redis, scene.lease.keys)
    await scene.lease.require()
    seconds = scene.ending.settings.tend_seconds
    await patiently(lambda: records.change(scene.run.repo, number, fields, look_in=seconds))


async def _looked_after(scene: Scene, number: int) -> None:
    """Have the evidence gathered on the new head."""
    run = scene.run
    runs = Runs(scene.lease.redis, scene.lease.keys.prefix)
    await scene.lease.require()
    await patiently(
        lambda: runs.create(
            run.repo,
            number,
            asked_by=run.asked_by,
            delivery=f"used-{run.id}",
            mode=Mode.TEND,
        )
    )


def _unknown(scene: Scene) -> Issue:
    return Issue(repository=scene.run.repo.full_name, title="", body="")


async def _tried(scene: Scene, source: Source) -> Selection:
    """The edit with what is known of it, after the reproduction test and the suite ran with it."""
    run, lease = scene.run, scene.lease
    at = order_of(source.chosen)[run.candidate - 1]
    store = WatchedStore(RedisStore.of(lease), scene.status.say)
    saved = await store.load("used", Solved)
    if saved and isinstance(saved.result, Selection):
        return saved.result
    issue = await source.store.load(ISSUE_KEY, Issue)
    if run.candidate == 1:
        selection = source.chosen
    else:
        job = await scene.job(issue or _unknown(scene))
        async with (
            scene.status.shown(run),
            scene.workshop.sandboxed(job, store.say) as (_, sandbox),
        ):
            store.say("Running the tests with that edit.")
            selection = await instead(
                source.chosen,
                at,
                by=run.asked_by,
                issue=job.issue,
                codebase=job.codebase,
                sandbox=sandbox,
                store=store,
                options=job.options,
            )
    await store.save("used", Solved(result=selection))
    return selection


async def _pushed(scene: Scene, source: Source, state: Content, answer: Answer) -> str:
    run, lease = scene.run, scene.lease
    try:
        head = await _commits(scene, state, answer)
    except UnfitDiff as unfit:
        raise Refused(replies.may_not_push(str(unfit))) from unfit
    await lease.require()
    noted = source.contents.plus(Content(head=head, candidate=run.candidate, run=run.id))
    await source.store.save(CONTENTS_KEY, noted)
    number = source.pull.number
    await _noted(scene, number, about_to_push=head)
    try:
        await push(
            scene.checkout.git_dir, scene.remote,
            sha=head, branch=source.run.branch, expected=state.head,
        )  # fmt: skip
    except PushRejected:
        raise Refused(replies.push_refused(source.pull.number)) from None
    return head


async def _commits(scene: Scene, state: Content, answer: Answer) -> str:
    """The old edit taken back, then the new one. Dated by the run: each try makes the same two."""
    run, base, selection = scene.run, scene.checkout.base, answer.selection
    await scene.fetched(state.head)
    author, at = scene.repo.identity, run.created_at
    git_dir, proof = scene.checkout.git_dir, selection.evidence.reproduction
    kept = base
    if proof.after.passed:
        kept = await commit(
            git_dir, parent=base, diff=proof.diff,
            message=pull_request.test_title(run.issue), author=author, at=at,
        )  # fmt: skip
    back = answer.manners.titled("revert", pull_request.take_back_title(run.asked_by))
    undone = await retake(
        git_dir, parent=state.head, like=kept,
        message=answer.message(back, "", author), author=author, at=at,
    )  # fmt: skip
    message = answer.message(answer.title, pull_request.change(selection), author)
    return await commit(
        git_dir,
        parent=undone,
        diff=selection.candidate.patch.diff,
        message=message,
        author=author,
        at=at,
    )
