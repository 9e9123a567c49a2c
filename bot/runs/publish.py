"""Publishes a chosen edit: two commits, a pull request with labels, and a review request.

Every effect is find-or-create and renews the lease first. After a crash anywhere, the same call
finds what is there and opens no second pull request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from bot.comments import pull_request
from bot.comments.evidence.opening import unproven_title
from bot.comments.status import pull_marker
from bot.errors import PublishRefused, PushRejected
from bot.git.commit_style import CommitStyle
from bot.git.commits import branch_name, create_commit, push
from bot.git.mirrors import Checkout
from bot.git.remote import Remote
from bot.github.errors import Forbidden, NotFound, Unprocessable
from bot.github.models import PullRequestFacts
from bot.github.repository import Identity, Repository
from bot.repo_config.model import RepoConfig
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.types import CommitSha, Run, now, replace
from pipeline.edits.unified_diff import list_paths, remove_files
from pipeline.types import Account, Issue, Selection

MAX_BRANCH_NAMES = 20
"""How many names are tried when the branch of an earlier run is still there."""
PLAIN_STYLE: Final = CommitStyle()


class PublishContext(Protocol):
    """What publishing uses of a run's context."""

    @property
    def lease(self) -> Lease: ...
    @property
    def repo(self) -> Repository: ...
    @property
    def remote(self) -> Remote: ...
    @property
    def checkout(self) -> Checkout: ...
    @property
    def config(self) -> RepoConfig: ...
    @property
    def settings(self) -> Settings: ...


@dataclass(frozen=True)
class Publication:
    """A chosen edit, and everything that its commits and its pull request say."""

    run: Run
    issue: Issue
    selection: Selection
    accounts: Sequence[Account] = ()
    destinations: str = ""
    """The hosts that the code was sent to, as a sentence; empty: no other than the operator's."""
    draft: bool = True
    ready_when_green: bool = False
    """A draft only until the repository's own checks pass."""
    commit_style: CommitStyle = PLAIN_STYLE
    template: str | None = None
    """The repository's own template for the description."""
    labels: tuple[str, ...] = ()
    host: str = field(kw_only=True)
    """GitHub's host name, for the e-mail addresses in commit trailers."""

    @property
    def title(self) -> str:
        """The title of the commit that holds the edit."""
        return self.commit_style.format_title(
            "fix", pull_request.pull_title(self.selection, self.run.issue)
        )

    @property
    def pull_title(self) -> str:
        """The title of the pull request: that of its commit, marked when the edit is unproven."""
        return self.title if self.selection.is_proven else unproven_title(self.title)

    def commit_message(self, title: str, body: str, identity: Identity) -> str:
        """The whole message of a commit, with its trailers."""
        return self.commit_style.format_message(title, body, identity, self.run.asked_by, self.host)


async def publish(publication: Publication, ctx: PublishContext) -> PullRequestFacts:
    """Open the pull request; when there can be none, leave nothing half made behind.

    Raises:
        PublishRefused: the repository's rules forbid it; the branch is deleted again.
        LeaseLost: another worker has the run. GitHubUnavailable: try again later.
    """
    pull = await _find_pull(ctx)
    if pull is None:
        head = await _create_commits(publication, ctx)
        branch = await _push(publication, head, ctx)
        pull = await _open_pull(publication, branch, ctx)
    await ctx.lease.require()
    await ctx.repo.pulls.request_review(pull.number, publication.run.asked_by)
    if publication.labels:
        await ctx.lease.require()
        await _add_labels(publication, pull, ctx.repo)
    return pull


async def _find_pull(ctx: PublishContext) -> PullRequestFacts | None:
    """The pull request of an earlier try, even if people have pushed to its branch since."""
    run = ctx.lease.run
    return await ctx.repo.pulls.find(run.branch, pull_marker(run.id)) if run.branch else None


async def _add_labels(publication: Publication, pull: PullRequestFacts, repo: Repository) -> None:
    try:
        await repo.issues.add_labels(pull.number, publication.labels)
    except (Unprocessable, Forbidden, NotFound):  # no label is worth the pull request
        return


async def _create_commits(publication: Publication, ctx: PublishContext) -> CommitSha:
    """Commit the failing test, if there is one, then the rest of the edit.

    Dated by the run, so each try makes the same commits.
    """
    run, selection, author = publication.run, publication.selection, ctx.repo.identity
    style, test_title = publication.commit_style, pull_request.reproduction_title(run.issue)
    parent, test = ctx.checkout.base, selection.evidence.reproduction
    if test.is_committed:
        parent = await create_commit(
            ctx.checkout.git_dir,
            parent=parent,
            diff=test.diff,
            message=publication.commit_message(style.format_title("test", test_title), "", author),
            author=author,
            at=run.created_at,
        )
    body = pull_request.commit_body(selection)
    return await create_commit(
        ctx.checkout.git_dir,
        parent=parent,
        diff=remove_files(selection.candidate.patch.diff, list_paths(test.diff)),
        message=publication.commit_message(publication.title, body, author),
        author=author,
        at=run.created_at,
    )


async def _push(publication: Publication, head: CommitSha, ctx: PublishContext) -> str:
    """The name of the branch that points at `head`: an earlier try's, or one that nobody uses.

    A branch of that name that points elsewhere may hold somebody's work; it stays untouched.
    """
    repo, lease = ctx.repo, ctx.lease
    for attempt in range(1, MAX_BRANCH_NAMES + 1):
        branch = branch_name(publication.run.issue, publication.issue.title, attempt)
        found = await repo.get_branch_head(branch)
        if found == head:
            return branch
        if found is not None:
            continue
        await repo.count_push()
        await lease.save(replace(lease.run, branch=branch, head_commit=head))
        try:
            await push(ctx.checkout.git_dir, ctx.remote, sha=head, branch=branch, expected=None)
        except PushRejected:
            if await repo.get_branch_head(branch) is None:
                raise PublishRefused("the repository's rules forbid the branch") from None
            continue
        return branch
    raise PublishRefused("every name for the branch is taken")


async def _open_pull(
    publication: Publication, branch: str, ctx: PublishContext
) -> PullRequestFacts:
    await ctx.lease.require()
    try:
        return await ctx.repo.pulls.open_once(
            branch=branch,
            base=ctx.checkout.branch,
            title=publication.pull_title,
            body=pull_request.pull_body(
                replace(publication.run, finished_at=publication.run.finished_at or now()),
                publication.selection,
                publication.accounts,
                publication.template,
                destinations=publication.destinations,
            ),
            marker=pull_marker(publication.run.id),
            draft=publication.draft,
        )
    except (Unprocessable, Forbidden, NotFound) as error:
        await ctx.lease.require()
        await _delete_branch(ctx.repo, branch)
        raise PublishRefused("GitHub refused the pull request") from error


async def delete_unused_branch(run: Run, *, repo: Repository, lease: Lease) -> None:
    """Delete the branch of a run without a pull request, if it is as the run left it.

    Raises:
        LeaseLost, GitHubUnavailable.
    """
    if not run.branch or await repo.get_branch_head(run.branch) != run.head_commit:
        return
    if await repo.pulls.find(run.branch, pull_marker(run.id)) is None:
        await lease.require()
        await _delete_branch(repo, run.branch)


async def _delete_branch(repo: Repository, branch: str) -> None:
    try:
        await repo.delete_branch(branch)
    except (Forbidden, NotFound):  # we may not, or it is gone
        return
