"""A chosen edit becomes two commits, a pull request with labels, and a review request.

Every effect is find-or-create and asks for the lease first: after a crash anywhere the same call
made again finds what is there, and opens no second pull request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.comments import pull_request
from bot.comments.status import pull_marker
from bot.errors import PublishRefused, PushRejected
from bot.git.commit_style import CommitStyle
from bot.git.commits import branch_name, create_commit, push
from bot.git.mirrors import Checkout
from bot.git.remote import Remote
from bot.github.errors import Forbidden, NotFound, Unprocessable
from bot.github.models import PullRequestFacts
from bot.github.repository import Identity, Repository
from bot.storage.lease import Lease
from bot.types import Run, replace
from pipeline.types import Account, Issue, Selection

MAX_BRANCH_NAMES = 20
"""How many names are tried when the branch of an earlier run is still there."""


PLAIN_STYLE: Final = CommitStyle()


@dataclass(frozen=True)
class Publication:
    """What is published, and what it answers."""

    run: Run
    issue: Issue
    selection: Selection
    accounts: Sequence[Account] = ()
    destinations: str = ""
    """Where the code went, in a line."""
    draft: bool = True
    ready_when_green: bool = False
    """A draft only until the repository's own checks pass."""
    commit_style: CommitStyle = PLAIN_STYLE
    template: str | None = None
    """The repository's own, for the body."""
    labels: tuple[str, ...] = ()
    host: str = field(kw_only=True)
    """Of GitHub: people's addresses in trailers are there."""

    @property
    def title(self) -> str:
        """The pull request's, and the fix commit's."""
        return self.commit_style.format_title(
            "fix", pull_request.pull_title(self.selection, self.run.issue)
        )

    def commit_message(self, title: str, body: str, identity: Identity) -> str:
        """Of one of the two commits."""
        return self.commit_style.format_message(title, body, identity, self.run.asked_by, self.host)


async def publish(
    publication: Publication, *, repo: Repository, checkout: Checkout, remote: Remote, lease: Lease
) -> PullRequestFacts:
    """The pull request, with nothing half made left behind when there can be none.

    Raises:
        PublishRefused: the branch is gone again.
        LeaseLost: this run is another worker's now. GitHubUnavailable: try again later.
    """
    pull = await _find_pull(repo, lease)
    if pull is None:
        green = await _create_commits(publication, repo, checkout)
        branch = await _push(publication, green, repo, checkout, remote, lease)
        pull = await _open_pull(publication, branch, repo, checkout, lease)
    await lease.require()
    await repo.pulls.request_review(pull.number, publication.run.asked_by)
    if publication.labels:
        await lease.require()
        await _add_labels(publication, pull, repo)
    return pull


async def _find_pull(repo: Repository, lease: Lease) -> PullRequestFacts | None:
    """What an earlier try opened, whatever people have pushed to its branch since."""
    branch = lease.run.branch
    return await repo.pulls.find(branch, pull_marker(lease.run.id)) if branch else None


async def _add_labels(publication: Publication, pull: PullRequestFacts, repo: Repository) -> None:
    try:
        await repo.issues.add_labels(pull.number, publication.labels)
    except (Unprocessable, Forbidden, NotFound):  # no label is worth the pull request
        return


async def _create_commits(publication: Publication, repo: Repository, checkout: Checkout) -> str:
    """The failing test, then the edit upon it. Dated by the run: each try makes the same two."""
    run, selection = publication.run, publication.selection
    red = await create_commit(
        checkout.git_dir,
        parent=checkout.base,
        diff=selection.evidence.reproduction.diff,
        message=publication.commit_message(
            publication.commit_style.format_title(
                "test", pull_request.reproduction_title(run.issue)
            ),
            "",
            repo.identity,
        ),
        author=repo.identity,
        at=run.created_at,
    )
    return await create_commit(
        checkout.git_dir,
        parent=red,
        diff=selection.candidate.patch.diff,
        message=publication.commit_message(
            publication.title, pull_request.commit_body(selection), repo.identity
        ),
        author=repo.identity,
        at=run.created_at,
    )


async def _push(
    publication: Publication,
    head: str,
    repo: Repository,
    checkout: Checkout,
    remote: Remote,
    lease: Lease,
) -> str:
    """The branch that points at `head`: ours already, or a name nobody uses.

    A branch of that name which points elsewhere may hold somebody's work and is left alone.
    """
    for attempt in range(1, MAX_BRANCH_NAMES + 1):
        branch = branch_name(publication.run.issue, publication.issue.title, attempt)
        found = await repo.get_branch_head(branch)
        if found == head:
            return branch
        if found is not None:
            continue
        await lease.save(replace(lease.run, branch=branch, head_commit=head))
        try:
            await push(checkout.git_dir, remote, sha=head, branch=branch, expected="")
        except PushRejected:
            if await repo.get_branch_head(branch) is None:
                raise PublishRefused("the repository's rules forbid the branch") from None
            continue
        return branch
    raise PublishRefused("every name for the branch is taken")


async def _open_pull(
    publication: Publication, branch: str, repo: Repository, checkout: Checkout, lease: Lease
) -> PullRequestFacts:
    await lease.require()
    try:
        return await repo.pulls.open_once(
            branch=branch,
            base=checkout.branch,
            title=publication.title,
            body=pull_request.pull_body(
                publication.run,
                publication.selection,
                publication.accounts,
                publication.template,
                destinations=publication.destinations,
            ),
            marker=pull_marker(publication.run.id),
            draft=publication.draft,
        )
    except (Unprocessable, Forbidden, NotFound) as error:
        await lease.require()
        await _delete_branch(repo, branch)
        raise PublishRefused("GitHub refused the pull request") from error


async def delete_unused_branch(run: Run, *, repo: Repository, lease: Lease) -> None:
    """Delete the branch of a run that came to no pull request, if it is as the run left it.

    Raises as `publish`.
    """
    if not run.branch or await repo.get_branch_head(run.branch) != run.head_commit:
        return
    if await repo.pulls.find(run.branch, pull_marker(run.id)) is None:
        await lease.require()
        await _delete_branch(repo, run.branch)


async def _delete_branch(repo: Repository, branch: str) -> None:
    try:
        await repo.delete_branch(branch)
    except (Forbidden, NotFound):  # nothing we may do about it
        return
