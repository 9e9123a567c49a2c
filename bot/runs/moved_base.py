"""What commits stand on where the base branch has moved since the run began.

GitHub refuses the push of an App without the permission `workflows` if a workflow file differs from
the default branch's, and a branch on commits that were taken out by force would bring them back.
"""

import dataclasses

from bot.data.job import VerificationRequest
from bot.errors import PublishRefused
from bot.git.commits import have_same_workflows, read_changes, replay_commits
from bot.git.mirrors import Checkout
from bot.runs.context import IssueRun
from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import list_paths
from pipeline.data.types import CommitSha, Issue, Selection
from pipeline.store import ScopedStore
from sandbox.errors import EnvironmentFailed
from sandbox.frozen import Frozen


class PublicationBase(Frozen):
    """What a run's commits stand on. Saved: after a crash the next worker publishes the same."""

    tip: CommitSha
    """The head of the base branch when it was looked at."""
    base: CommitSha
    head: CommitSha
    """The last of the commits on `base`."""
    note: str = ""
    """A sentence for the description; empty where the base branch has not moved."""


BASE_KEY = "publication-base"


async def choose_base(
    ctx: IssueRun, head: CommitSha, selection: Selection, issue: Issue, *, anew: bool = False
) -> PublicationBase:
    """Ask GitHub where the base branch is, and put the commits up to `head` there if they fit.

    `head` stands on the run's base commit. `anew`: an earlier answer does not count.

    Raises:
        PublishRefused: the repository or branch takes no commit, or not this one.
        GitHubError, GitFailed, SandboxUnavailable: try again later.
    """
    facts = await ctx.repo.get_facts()
    if facts is None:
        raise PublishRefused("gone")
    if facts.archived:
        raise PublishRefused("archived")
    ctx = dataclasses.replace(ctx, facts=facts)
    tip = await ctx.repo.get_branch_head(ctx.base_branch)
    if tip is None:
        raise PublishRefused("base gone")
    saved = await ctx.store.load(BASE_KEY, PublicationBase)
    if saved is None or anew or (saved.tip != tip and not ctx.run.head_commit):
        saved = await _look(ctx, tip, head, selection, issue)
        await ctx.store.save(BASE_KEY, saved)
    there = await ctx.fetch(saved.base)  # another worker's mirror lacks these commits
    moved = await replay_commits(
        there.git_dir, onto=saved.base, since=ctx.checkout.base, head=head,
        identity=ctx.repo.identity,
    )  # fmt: skip
    assert moved == saved.head
    return saved


async def _look(
    ctx: IssueRun, tip: CommitSha, head: CommitSha, selection: Selection, issue: Issue
) -> PublicationBase:
    base = ctx.checkout.base
    if tip == base:
        return PublicationBase(tip=tip, base=base, head=head)
    there = await ctx.fetch(tip)
    branch, short = ctx.base_branch, tip[:7]
    moved = await replay_commits(
        there.git_dir, onto=tip, since=base, head=head, identity=ctx.repo.identity
    )
    if moved and await _holds(ctx, there, moved, selection, issue):
        ran = "ran its test again, and those near it that there are"
        if not selection.evidence.reproduction.is_committed:
            ran = "ran nothing there, as it has no test of its own"
        note = f"`{branch}` moved to {short} while I worked: I put the edit there, and {ran}."
        return PublicationBase(tip=tip, base=tip, head=moved, note=note)
    if await ctx.repo.pulls.find_fork_point(base, tip) != base:
        raise PublishRefused("commits dropped")
    if not await have_same_workflows(there.git_dir, base, tip):
        raise PublishRefused("workflows")
    why = "its test or one near it fails there" if moved else "the edit conflicts with that"
    note = f"`{branch}` moved to {short} while I worked, and {why}: this is based on {base[:7]}."
    return PublicationBase(tip=tip, base=base, head=head, note=note)


async def _holds(
    ctx: IssueRun, there: Checkout, head: CommitSha, selection: Selection, issue: Issue
) -> bool:
    """Whether the reproduction test fails and passes there as it did, and none near it breaks."""
    test = selection.evidence.reproduction
    if not test.is_committed:
        return True
    before = await Codebase.open(there.git_dir, there.base)
    after = await Codebase.open(there.git_dir, head)
    request = VerificationRequest(
        key="moved",
        changes=await read_changes(before, after),
        test=test.path,
        test_files=tuple(sorted(list_paths(test.diff))),
        command=test.command,
        near=True,
    )
    job = await ctx.build_job(before, issue)
    store = ScopedStore(ctx.store, f"on-{head[:12]}")
    try:
        async with ctx.show_progress() as report:
            found = await ctx.runner.verify(job, request, store, on_progress=report)
    except EnvironmentFailed:
        return False
    return found.verdict == "shown" and not found.broken
