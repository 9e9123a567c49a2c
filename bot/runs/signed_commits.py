"""Commits of ours made anew by GitHub, which signs them, on workflow files that it lets us push.

https://docs.github.com/authentication/managing-commit-signature-verification/about-commit-signature-verification#signature-verification-for-bots
"""

from __future__ import annotations

from pathlib import Path

from bot.errors import Forbidden, NotFound, PublishRefused, RepositoryGone, Unprocessable
from bot.git.commits import (
    have_same_workflows,
    list_changed_files,
    list_commits,
    merge_branch,
    merge_commits,
    read_commit,
    replay_commits,
)
from bot.runs.context import RunContext
from pipeline.codebase.git import git
from pipeline.data.types import CommitSha
from sandbox.frozen import Frozen


class PreparedPush(Frozen):
    """Commits that can be pushed. Saved: each call of GitHub makes other ones, by their date."""

    base: CommitSha
    """The commit of the base branch that they hold."""
    head: CommitSha


async def prepare_push(
    ctx: RunContext, *, base: CommitSha, since: CommitSha, head: CommitSha, message: str = ""
) -> PreparedPush:
    """What to push in place of the commits from `since`, which GitHub has, to `head`.

    With a `message` for the merge, `since` is the head of our branch, which holds `base` of the
    base branch; that is merged first where its workflow files have changed.

    Raises:
        PublishRefused: workflow files have changed, and the base branch conflicts with the commits.
        GitHubError, GitFailed, LeaseLost: try again later.
    """
    key = f"pushed/{head}"
    saved = await ctx.store.load(key, PreparedPush)
    if saved is not None:
        await ctx.fetch(saved.head)  # another worker's mirror lacks it
        return saved
    local = PreparedPush(base=base, head=head)
    if message:
        local = await _merge_moved_workflows(ctx, local, since, message)
    await ctx.lease.require()
    signed = PreparedPush(base=local.base, head=await _sign(ctx, since, local.head))
    if signed != local:  # else only this mirror has it
        await ctx.store.save(key, signed)
    return signed


async def _merge_moved_workflows(
    ctx: RunContext, local: PreparedPush, since: CommitSha, message: str
) -> PreparedPush:
    tip = await ctx.fetch()
    git_dir, author = tip.git_dir, ctx.repo.identity
    if await have_same_workflows(git_dir, since, tip.base):
        return local
    await ctx.fetch(local.base)
    files = await merge_commits(
        git_dir, base=local.base, ours=since, theirs=tip.base, identity=author
    )
    if files is not None:
        merged = await merge_branch(
            git_dir, ours=since, theirs=tip.base, files=files.commit,
            message=message, author=author, at=ctx.run.created_at,
        )  # fmt: skip
        head = await replay_commits(
            git_dir, onto=merged, since=since, head=local.head, identity=author
        )
        if head is not None:
            return PreparedPush(base=tip.base, head=head)
    raise PublishRefused("workflows")


async def _sign(ctx: RunContext, since: CommitSha, head: CommitSha) -> CommitSha:
    """The head of equal commits by GitHub; `head` where it does not make them, or other files."""
    git_dir = ctx.mirrors.path_of(ctx.remote, ctx.facts.full_name)
    signed: dict[CommitSha, CommitSha] = {}
    try:
        for local in await list_commits(git_dir, since=since, head=head):
            made = await _make_commit(ctx, git_dir, local, signed)
            if made is None:
                return head
            signed[local] = made
        last = signed.get(head, head)
        await ctx.fetch(last)
    except (Forbidden, NotFound, Unprocessable, RepositoryGone):
        return head  # a push is refused with a reason, if it is refused
    return last


async def _make_commit(
    ctx: RunContext, git_dir: Path, local: CommitSha, signed: dict[CommitSha, CommitSha]
) -> CommitSha | None:
    """None if GitHub makes another tree."""
    commit = await read_commit(git_dir, local)
    base = commit.parents[-1]  # of a merge, the base branch: the fewest files differ from it
    files: list[dict[str, str | None]] = []
    for path, mode, blob in await list_changed_files(git_dir, base, local):
        entry: dict[str, str | None] = {"path": path, "mode": mode, "type": "blob"}
        if blob is None or mode == "160000":
            files.append({**entry, "sha": blob, "type": "commit" if blob else "blob"})
            continue
        content = await git(git_dir, "cat-file", "blob", blob)
        try:
            files.append({**entry, "content": content.decode()})
        except UnicodeDecodeError:
            files.append({**entry, "sha": await ctx.repo.create_blob(content)})
    tree = await ctx.repo.create_tree((await read_commit(git_dir, base)).tree, files)
    if tree != commit.tree:
        return None
    parents = [signed.get(parent, parent) for parent in commit.parents]
    return await ctx.repo.create_commit(tree, parents, commit.message)
