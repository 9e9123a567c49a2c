"""A chosen edit becomes two commits, a draft pull request, a check run and a review request.

Every effect is find-or-create and asks for the lease first: after a crash anywhere the same call
made again finds what is there, and opens no second pull request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot import evidence
from bot.checkout import Checkout
from bot.comments import request_marker
from bot.commits import branch_name, commit, push
from bot.github.errors import Forbidden, GitHubError, NotFound, Unprocessable
from bot.github.facts import PullRequestFacts
from bot.github.repository import Repository
from bot.lease import Lease
from bot.remote import PushRejected, Remote
from bot.types import Run
from pipeline.types import Account, Selection

BRANCH_NAMES = 20
"""How many names are tried when the branch of an earlier run is still there."""


class PublishRefused(Exception):
    """The repository's rules do not let us push a branch or open a pull request."""


@dataclass(frozen=True)
class Answer:
    """What is published, and what it answers."""

    run: Run
    issue_title: str
    selection: Selection
    accounts: Sequence[Account] = ()
    draft: bool = True


async def publish(
    answer: Answer, *, repo: Repository, checkout: Checkout, remote: Remote, lease: Lease
) -> PullRequestFacts:
    """The pull request, with nothing half made left behind when there can be none.

    Raises:
        PublishRefused: the branch is gone again.
        LeaseLost: this run is another worker's now. GitHubUnavailable: try again later.
    """
    green = await _commits(answer, repo, checkout)
    branch = await _pushed(answer, green, repo, checkout, remote, lease)
    pull = await _opened(answer, branch, repo, checkout, lease)
    await lease.require()
    await repo.pulls.request_review(pull.number, answer.run.asked_by)
    await lease.require()
    await _checked(answer, green, repo)
    return pull


async def _commits(answer: Answer, repo: Repository, checkout: Checkout) -> str:
    """The failing test, then the edit upon it. Dated by the run: each try makes the same two."""
    run, selection = answer.run, answer.selection
    red = await commit(
        checkout.git_dir,
        parent=checkout.base,
        diff=selection.evidence.reproduction.diff,
        message=evidence.test_message(run.issue),
        author=repo.identity,
        at=run.created_at,
    )
    return await commit(
        checkout.git_dir,
        parent=red,
        diff=selection.candidate.patch.diff,
        message=evidence.fix_message(selection, run.issue),
        author=repo.identity,
        at=run.created_at,
    )


async def _pushed(
    answer: Answer, head: str, repo: Repository, checkout: Checkout, remote: Remote, lease: Lease
) -> str:
    """The branch that points at `head`: ours already, or a name nobody uses.

    A branch of that name which points elsewhere may hold somebody's work and is left alone.
    """
    for attempt in range(1, BRANCH_NAMES + 1):
        branch = branch_name(answer.run.issue, answer.issue_title, attempt)
        found = await repo.branch_head(branch)
        if found == head:
            return branch
        if found is not None:
            continue
        await lease.require()
        try:
            await push(checkout.git_dir, remote, sha=head, branch=branch, expected="")
        except PushRejected:
            if await repo.branch_head(branch) is None:
                raise PublishRefused("the repository's rules forbid the branch") from None
            continue
        return branch
    raise PublishRefused("every name for the branch is taken")


async def _opened(
    answer: Answer, branch: str, repo: Repository, checkout: Checkout, lease: Lease
) -> PullRequestFacts:
    await lease.require()
    try:
        return await repo.pulls.open_once(
            branch=branch,
            base=checkout.branch,
            title=evidence.title(answer.selection, answer.run.issue),
            body=evidence.body(answer.run, answer.selection, answer.accounts),
            marker=request_marker(answer.run.id),
            draft=answer.draft,
        )
    except (Unprocessable, Forbidden, NotFound) as error:
        await lease.require()
        await _cleared(repo, branch)
        raise PublishRefused("GitHub refused the pull request") from error


async def _cleared(repo: Repository, branch: str) -> None:
    try:
        await repo.delete_branch(branch)
    except (Forbidden, NotFound):  # nothing we may do about it
        return


async def _checked(answer: Answer, head: str, repo: Repository) -> None:
    reproduction = answer.selection.evidence.reproduction
    shown = not reproduction.before.passed and reproduction.after.passed
    try:
        await repo.pulls.check_once(
            name=evidence.CHECK_NAME,
            head_sha=head,
            external_id=answer.run.id,
            conclusion="success" if shown else "failure",
            title="Fails before, passes after" if shown else "Not reproduced",
            summary=evidence.check_summary(reproduction),
            text=evidence.check_text(reproduction),
        )
    except GitHubError as error:
        if not isinstance(error, (Forbidden, Unprocessable, NotFound)):
            raise
        # Without the permission for checks the logs are still in the pull request.
        return
