"""Commits of ours made anew by GitHub, which signs them, on workflow files that it lets us push.

Where GitHub does not make them, or makes other ones, an operator's SSH key signs them instead.

https://docs.github.com/authentication/managing-commit-signature-verification/about-commit-signature-verification#signature-verification-for-bots
"""

import logging
from pathlib import Path

from bot.errors import (
    Forbidden,
    NotFound,
    PublishRefused,
    RepositoryGone,
    Unprocessable,
    describe_cause,
)
from bot.git.commits import (
    SigningKey,
    commit_files,
    have_same_workflows,
    list_changed_files,
    list_commits,
    merge_commits,
    read_commit,
    replay_commits,
    sign_commits,
    write_commit,
)
from bot.runs.context import RunContext
from pipeline.codebase.git import GitFailed, git
from pipeline.data.types import CommitSha
from sandbox.frozen import Frozen

logger = logging.getLogger(__name__)


class PreparedPush(Frozen):
    """Commits that can be pushed. Saved: each call of GitHub makes other ones, by their date."""

    base: CommitSha
    """The commit of the base branch that they hold."""
    head: CommitSha
    commits: tuple[str, ...] = ()
    """Those that an operator's key has signed, which nobody has before the push."""


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
    if saved is not None and not saved.commits:
        await ctx.fetch(saved.head)  # another worker's mirror lacks it
        return saved
    local = PreparedPush(base=base, head=head)
    if message and (saved is None or saved.base != base):
        onto = saved.base if saved else None
        local = await _merge_moved_workflows(ctx, local, since, message, onto)
    git_dir = ctx.mirrors.path_of(ctx.remote, ctx.facts.full_name)
    if saved is not None:
        for commit in saved.commits:
            await write_commit(git_dir, commit)
        return saved
    await ctx.lease.require()
    signed = await _sign(ctx, git_dir, since, local)
    if signed is None:
        return local
    await ctx.store.save(key, signed)  # also commits equal to ours: a second later they are not
    return signed


async def _merge_moved_workflows(
    ctx: RunContext, local: PreparedPush, since: CommitSha, message: str, onto: CommitSha | None
) -> PreparedPush:
    """`onto` is what an earlier worker merged; None: the base branch's head."""
    tip = await ctx.fetch(onto)
    git_dir, author = tip.git_dir, ctx.repo.identity
    if await have_same_workflows(git_dir, since, tip.base):
        return local
    await ctx.fetch(local.base)
    files = await merge_commits(
        git_dir, base=local.base, ours=since, theirs=tip.base, identity=author
    )
    if files is not None:
        merged = await commit_files(
            git_dir, since, tip.base, files=files,
            message=message, author=author, at=ctx.run.created_at,
        )  # fmt: skip
        head = await replay_commits(
            git_dir, onto=merged, since=since, head=local.head, identity=author
        )
        if head is not None:
            return PreparedPush(base=tip.base, head=head)
    raise PublishRefused("workflows")


async def _sign(
    ctx: RunContext, git_dir: Path, since: CommitSha, local: PreparedPush
) -> PreparedPush | None:
    """Equal commits that are signed; None where neither GitHub nor an operator's key does it.

    A push of unsigned commits is refused with a reason, if it is refused.
    """
    if made := await _let_github_commit(ctx, git_dir, since, local.head):
        return PreparedPush(base=local.base, head=made)
    settings = ctx.settings
    if not settings.signing_key:
        return None
    key = SigningKey.parse(settings.signing_key)
    try:
        commits = await sign_commits(git_dir, key, since=since, head=local.head)
        if not commits:
            return None
        head = await write_commit(git_dir, commits[-1])
    except GitFailed as failure:
        logger.warning("CAPUCHIN_SIGNING_KEY signs no commits: %s", failure.words)
        return None
    return PreparedPush(base=local.base, head=head, commits=tuple(commits))


async def _let_github_commit(
    ctx: RunContext, git_dir: Path, since: CommitSha, head: CommitSha
) -> CommitSha | None:
    """The head of equal commits by GitHub; None where it does not make them, or other files."""
    signed: dict[CommitSha, CommitSha] = {}
    try:
        for local in await list_commits(git_dir, since=since, head=head):
            made = await _make_commit(ctx, git_dir, local, signed)
            if made is None:
                logger.warning("GitHub makes other files of the commit %s: it is not signed", local)
                return None
            signed[local] = made
        last = signed.get(head, head)
        await ctx.fetch(last)
    except (Forbidden, NotFound, Unprocessable, RepositoryGone) as error:
        logger.warning("GitHub makes no signed commits of ours: %s", describe_cause(error))
        return None
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
