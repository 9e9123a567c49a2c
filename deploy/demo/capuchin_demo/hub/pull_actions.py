"""What happens to pull requests and branches."""

import asyncio
import re
from dataclasses import dataclass

from capuchin_demo.hub import git_compare, issue_actions, issue_json, repository_json
from capuchin_demo.hub.events import NO_COMMIT, push_payload
from capuchin_demo.hub.git_repository import Signature, run_git
from capuchin_demo.hub.github_errors import (
    GitCommandFailed,
    Refusal,
    custom_error,
    invalid,
    unprocessable,
)
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.state import Pull, Repo, Review, ReviewComment, User, now


async def announce_ref_changes(
    state: State, repo: Repo, before: dict[str, str], after: dict[str, str], by: User
) -> None:
    """Emit a push for each ref that changed, and update the pull requests of its branch.

    `before` and `after` map all refs by full name, as `GitRepo.list_refs("")` returns them.
    """
    for ref in sorted(before.keys() | after.keys()):
        old, new = (before.get(ref, NO_COMMIT), after.get(ref, NO_COMMIT))
        if old == new or not ref.startswith(("refs/heads/", "refs/tags/")):
            continue
        repo.pushed_at = now()
        payload = await asyncio.to_thread(push_payload, repo, ref, old, new, by)
        state.emit("push", repo, by, payload)
        if ref.startswith("refs/heads/"):
            await _update_pulls(state, repo, ref.removeprefix("refs/heads/"), new, by)


async def _update_pulls(state: State, repo: Repo, branch: str, new: str, by: User) -> None:
    for pull in [pull for pull in repo.pulls if pull.state == "open"]:
        if pull.base_ref == branch and new != NO_COMMIT:
            pull.base_sha = new
        if pull.head_ref != branch or pull.fork is not None:
            continue
        if new == NO_COMMIT:
            issue_actions.close_issue(state, pull, by)
        else:
            await _synchronize(state, pull, new, by)


async def _synchronize(state: State, pull: Pull, new: str, by: User) -> None:
    old, pull.head_sha = pull.head_sha, new
    await asyncio.to_thread(pull.repo.git.set_ref, f"refs/pull/{pull.number}/head", new)
    pull.add_to_timeline(by, f"pushed {new[:7]}")
    state.emit_change(pull, "synchronize", by, before=old, after=new)


@dataclass(frozen=True)
class NewPull:
    """A pull request to open. Both branches are in one repository unless `fork` is given."""

    title: str
    body: str | None
    head: str
    base: str
    draft: bool = False
    maintainer_can_modify: bool = True
    fork: tuple[Repo, str] | None = None
    """The fork of the branch `head`, and its commit: forks share their objects."""


async def open_pull(state: State, repo: Repo, new_pull: NewPull, by: User) -> Pull:
    """Open a pull request.

    Raises:
        Refusal: a branch is missing, there is nothing to merge, or one is already open (422).
    """
    issue_actions.check_title(new_pull.title, "PullRequest")
    issue_actions.check_body(new_pull.body, "PullRequest")
    head_sha, base_sha = await asyncio.to_thread(_resolve_ends, repo, new_pull)
    ends = (new_pull.fork[0] if new_pull.fork else None, new_pull.head, new_pull.base)
    if any(p.state == "open" and (p.fork, p.head_ref, p.base_ref) == ends for p in repo.pulls):
        label = f"{repo.owner.login}:{new_pull.head}"
        raise custom_error("PullRequest", f"A pull request already exists for {label}.")
    repo.last_number += 1
    pull = Pull(
        state.next_id(),
        repo.last_number,
        repo,
        new_pull.title,
        new_pull.body,
        by,
        head_ref=new_pull.head,
        head_sha=head_sha,
        base_ref=new_pull.base,
        base_sha=base_sha,
        draft=new_pull.draft,
        maintainer_can_modify=new_pull.maintainer_can_modify,
        fork=new_pull.fork[0] if new_pull.fork else None,
    )
    repo.issues[pull.number] = pull
    await asyncio.to_thread(repo.git.set_ref, f"refs/pull/{pull.number}/head", head_sha)
    pull.add_to_timeline(by, f"wants to merge {new_pull.head} into {new_pull.base}")
    state.emit_change(pull, "opened", by)
    return pull


def request_reviewers(state: State, pull: Pull, users: list[User], by: User) -> None:
    """Request reviews.

    Raises:
        Refusal: a reviewer is the author, or has no access (422).
    """
    for user in users:
        if user is pull.author:
            raise Refusal(422, "Review cannot be requested from pull request author.")
        if pull.repo.role_of(user) == "none" or user.login.lower() not in {
            *pull.repo.roles,
            pull.repo.owner.login.lower(),
        }:
            raise Refusal(
                422,
                "Reviews may only be requested from collaborators. One or more of the users or "
                f"teams you specified is not a collaborator of the {pull.repo.full_name} "
                "repository.",
            )
    for user in users:
        if user not in pull.requested_reviewers:
            pull.requested_reviewers.append(user)
            pull.add_to_timeline(by, f"requested a review from {user.login}")
            shape = repository_json.user(user)
            state.emit_change(pull, "review_requested", by, requested_reviewer=shape)


def add_review(state: State, pull: Pull, review: Review) -> None:
    """Add a review.

    Raises:
        Refusal: authors cannot approve or reject their own work (422).
    """
    own = review.author is pull.author and review.state in ("APPROVED", "CHANGES_REQUESTED")
    if own:
        verb = "approve" if review.state == "APPROVED" else "request changes on"
        raise unprocessable(f"Can not {verb} your own pull request")
    pull.reviews.append(review)
    if review.state == "PENDING":
        return
    review.submitted_at = now()
    pull.add_to_timeline(review.author, f"reviewed: {review.state.replace('_', ' ').lower()}")
    shape = issue_json.review(pull, review)
    payload = {
        "action": "submitted",
        "review": {**shape, "state": review.state.lower()},
        "pull_request": issue_json.simple_pull(pull),
    }
    state.emit("pull_request_review", pull.repo, review.author, payload)
    for comment in review.comments:
        payload = {
            "action": "created",
            "comment": issue_json.review_comment(pull, comment),
            "pull_request": issue_json.simple_pull(pull),
        }
        state.emit("pull_request_review_comment", pull.repo, review.author, payload)


def find_review_comment(pull: Pull, number: int) -> ReviewComment | None:
    """The comment on a line with this id."""
    every = (comment for review in pull.reviews for comment in review.comments)
    return next((comment for comment in every if comment.id == number), None)


def reply(state: State, pull: Pull, first: ReviewComment, text: str, by: User) -> ReviewComment:
    """Reply in the thread of the comment `first`."""
    review = Review(state.next_id(), by, "", "COMMENTED", pull.head_sha)
    made = ReviewComment(
        state.next_id(), review, first.path, first.line, first.side, text, first.diff_hunk, first.id
    )
    review.comments.append(made)
    add_review(state, pull, review)
    return made


def mark_ready(state: State, pull: Pull, by: User) -> None:
    """Mark a draft as ready for review."""
    if pull.draft:
        pull.draft = False
        pull.add_to_timeline(by, "marked this pull request as ready for review")
        state.emit_change(pull, "ready_for_review", by)


def convert_to_draft(state: State, pull: Pull, by: User) -> None:
    """Make it a draft again."""
    if not pull.draft:
        pull.draft = True
        pull.add_to_timeline(by, "marked this pull request as draft")
        state.emit_change(pull, "converted_to_draft", by)


async def merge(state: State, pull: Pull, by: User, *, squash: bool = False) -> str:
    """Create the merge commit, or one that holds all, close the issues that it fixes; its id.

    Raises:
        Refusal: it cannot be merged (405).
    """
    git = pull.repo.git
    unmergeable = Refusal(405, "Pull Request is not mergeable")
    if pull.state != "open" or pull.draft:
        raise unmergeable
    try:
        tree = run_git(git.path, "merge-tree", "--write-tree", pull.base_sha, pull.head_sha)
    except GitCommandFailed:  # they conflict
        raise unmergeable from None
    who = Signature(by.login, f"{by.login}@users.noreply.github.com", now())
    message = f"Merge pull request #{pull.number} from {pull.head_ref}\n\n{pull.title}\n"
    parents = (pull.base_sha,) if squash else (pull.base_sha, pull.head_sha)
    if squash:
        message = f"{pull.title} (#{pull.number})\n"
    sha = git.write_commit(tree.decode().strip(), parents, message, who, who)
    before = git.list_refs("")
    git.set_ref(f"refs/heads/{pull.base_ref}", sha)
    pull.merged_at, pull.merged_by, pull.merge_commit_sha = now(), by, sha
    pull.add_to_timeline(by, f"merged {sha[:7]}", event="merged", commit=sha)
    issue_actions.close_issue(state, pull, by)
    await announce_ref_changes(state, pull.repo, before, git.list_refs(""), by)
    if pull.base_ref == pull.repo.default_branch:
        _close_linked_issues(state, pull, by)
    return sha


def _close_linked_issues(state: State, pull: Pull, by: User) -> None:
    # https://docs.github.com/issues: the keywords that link a pull request to an issue.
    for number in {
        int(found)
        for found in re.findall(
            r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)",
            pull.body or "",
            re.IGNORECASE,
        )
    }:
        fixed = pull.repo.issues.get(number)
        if fixed is not None and not isinstance(fixed, Pull):
            issue_actions.close_issue(state, fixed, by)


def _resolve_ends(repo: Repo, new_pull: NewPull) -> tuple[str, str]:
    heads = repo.git.list_refs("refs/heads/")
    for field, name in (("base", new_pull.base), ("head", new_pull.head)):
        if name not in heads and not (field == "head" and new_pull.fork):
            raise invalid("PullRequest", field)
    base = heads[new_pull.base]
    head = new_pull.fork[1] if new_pull.fork else heads[new_pull.head]
    compared = git_compare.compare(repo.git, base, head)
    if compared.merge_base is None:
        raise custom_error("PullRequest", f"The {new_pull.head} branch has no history in common "
                     f"with {new_pull.base}")  # fmt: skip
    if compared.ahead == 0:
        message = f"No commits between {new_pull.base} and {new_pull.head}"
        raise custom_error("PullRequest", message)
    return head, base
