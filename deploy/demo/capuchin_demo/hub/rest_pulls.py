"""Pull requests, reviews and comments on their lines, reactions."""

import asyncio
import re
from typing import Any, cast

from capuchin_demo.hub import git_compare, git_json, issue_actions, issue_json, pull_actions
from capuchin_demo.hub.git_repository import Commit
from capuchin_demo.hub.github_errors import Refusal, invalid, not_found, unprocessable
from capuchin_demo.hub.issue_actions import check_body
from capuchin_demo.hub.pull_actions import find_review_comment
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_git import find_committer
from capuchin_demo.hub.rest_issues import reaction_operations
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import Pull, Reaction, Review, ReviewComment, stamp

READ = "pull_requests:read"
WRITE = "pull_requests:write"
PULL = REPO + "/pulls/{number}"


def find_pull(call: RestCall) -> Pull:
    """The pull request in the path; the number of a plain issue is 404."""
    issue = call.repo.issues.get(call.number("number"))
    if not isinstance(issue, Pull):
        raise not_found()
    return issue


async def list_pulls(call: RestCall) -> RestResponse:
    """List pull requests. `head` is `owner:branch`; without the owner it matches nothing."""
    asked, owner = call.query, call.repo.owner.login
    state, head, base = asked.get("state", "open"), asked.get("head"), asked.get("base")
    every = [
        pull
        for pull in call.repo.pulls
        if state in ("all", pull.state)
        and head in (None, "", f"{pull.fork.owner.login if pull.fork else owner}:{pull.head_ref}")
        and base in (None, "", pull.base_ref)
    ]
    if asked.get("direction", "desc") != "asc":
        every.reverse()
    return paginate(call, [issue_json.simple_pull(pull) for pull in every])


async def list_with_commit(call: RestCall) -> RestResponse:
    """List the merged pull requests that brought a commit of the default branch, or else the open
    ones that hold it."""
    git, sha = call.repo.git, await asyncio.to_thread(call.repo.git.resolve, call.parts["ref"])
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {call.parts['ref']}")

    def holds(pull: Pull) -> bool:
        if pull.merged_at:
            return sha in {pull.merge_commit_sha, *(one.sha for one in _log(pull))}
        return pull.state == "open" and sha in {one.sha for one in _log(pull)}

    def _log(pull: Pull) -> list[Commit]:
        return git.log(pull.head_sha, without=pull.base_sha)

    found = await asyncio.to_thread(lambda: [pull for pull in call.repo.pulls if holds(pull)])
    merged = [pull for pull in found if pull.merged_at]
    return paginate(call, [issue_json.simple_pull(pull) for pull in merged or found])


async def create_pull(call: RestCall) -> RestResponse:
    """Open a pull request. `head` may contain the owner; there are no forks, so it must be ours."""
    call.state.check_new_pull(call.repo)
    body = call.json()
    head = call.text("head", "PullRequest")
    owner, colon, branch = head.partition(":")
    if colon and owner.lower() != call.repo.owner.login.lower():
        raise invalid("PullRequest", "head")
    asked = pull_actions.NewPull(
        call.text("title", "PullRequest"),
        body.get("body"),
        branch if colon else head,
        call.text("base", "PullRequest"),
        draft=body.get("draft") is True,
        maintainer_can_modify=body.get("maintainer_can_modify", True) is True,
    )
    pull = await pull_actions.open_pull(call.state, call.repo, asked, call.bearer.actor)
    return RestResponse(201, issue_json.pull(pull))


async def show_pull(call: RestCall) -> RestResponse:
    return RestResponse(200, issue_json.pull(find_pull(call)))


async def change_pull(call: RestCall) -> RestResponse:
    pull, body, by = find_pull(call), call.json(), call.bearer.actor
    state = body.get("state")
    if state not in (None, "open", "closed"):
        raise invalid("PullRequest", "state")
    issue_actions.edit_issue(call.state, pull, by, body.get("title"), body.get("body"))
    if state is not None:
        issue_actions.set_issue_state(call.state, pull, by, state, "completed")
    return RestResponse(200, issue_json.pull(pull))


async def list_commits(call: RestCall) -> RestResponse:
    """The commits, oldest first."""
    pull = find_pull(call)
    log = await asyncio.to_thread(pull.repo.git.log, pull.head_sha, without=pull.base_sha)
    return paginate(
        call, [git_json.commit(pull.repo, c, find_committer(call.state, c)) for c in log[::-1]]
    )


async def list_files(call: RestCall) -> RestResponse:
    pull = find_pull(call)
    changed = await asyncio.to_thread(git_compare.changed_files, pull)
    shape = (git_json.diff_entry(pull.repo, one, pull.head_sha) for one in changed)
    return paginate(call, list(shape))


async def request_reviewers(call: RestCall) -> RestResponse:
    pull = find_pull(call)
    asked = call.json().get("reviewers", [])
    users = [call.state.find_user(str(login)) for login in asked]
    known = [user for user in users if user is not None]
    if len(known) != len(users):
        raise invalid("PullRequest", "reviewers")
    pull_actions.request_reviewers(call.state, pull, known, call.bearer.actor)
    return RestResponse(201, issue_json.simple_pull(pull))


async def list_reviews(call: RestCall) -> RestResponse:
    pull = find_pull(call)
    return paginate(call, [issue_json.review(pull, one) for one in pull.reviews])


STATES = {
    None: "PENDING",
    "APPROVE": "APPROVED",
    "REQUEST_CHANGES": "CHANGES_REQUESTED",
    "COMMENT": "COMMENTED",
}


async def create_review(call: RestCall) -> RestResponse:
    """Create a review. Its comments must be on lines that the diff shows (422)."""
    pull, body, who = find_pull(call), call.json(), call.bearer
    event = body.get("event")
    if event not in STATES:
        raise invalid("PullRequestReview", "event")
    text = body.get("body") or ""
    check_body(text, "PullRequestReview")
    if not text and event in ("COMMENT", "REQUEST_CHANGES"):
        raise unprocessable("Body can't be blank")
    commit = str(body.get("commit_id") or pull.head_sha)
    review = Review(call.state.next_id(), who.actor, text, STATES[event], commit)
    hunks = {
        one.path: one.patch for one in await asyncio.to_thread(git_compare.changed_files, pull)
    }
    for fields in cast("list[dict[str, Any]]", body.get("comments") or []):
        review.comments.append(_build_comment(call, review, fields, hunks))
    pull_actions.add_review(call.state, pull, review)
    return RestResponse(200, issue_json.review(pull, review))


async def reply(call: RestCall) -> RestResponse:
    """Reply to the first comment of a thread; GitHub creates a review for each reply."""
    pull, number = find_pull(call), call.number("comment")
    first = pull_actions.find_review_comment(pull, number)
    if first is None or first.in_reply_to is not None:
        raise not_found()
    text = call.text("body", "PullRequestReviewComment")
    check_body(text, "PullRequestReviewComment")
    made = pull_actions.reply(call.state, pull, first, text, call.bearer.actor)
    return RestResponse(201, issue_json.review_comment(pull, made))


def _build_comment(
    call: RestCall, review: Review, fields: dict[str, Any], hunks: dict[str, str]
) -> ReviewComment:
    path, line, side = str(fields.get("path")), fields.get("line"), fields.get("side", "RIGHT")
    patch = hunks.get(path)
    if patch is None:
        raise unprocessable("Path could not be resolved")
    if not isinstance(line, int) or line not in _line_numbers(patch, side == "RIGHT"):
        raise unprocessable("Line could not be resolved")
    text = str(fields.get("body") or "")
    return ReviewComment(call.state.next_id(), review, path, line, side, text, patch)


def _line_numbers(patch: str, right: bool) -> set[int]:
    """The line numbers that a patch shows on one side."""
    shown: set[int] = set()
    number = 0
    for line in patch.split("\n"):
        if start := re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)", line):
            number = int(start[2 if right else 1])
        elif line[:1] in (" ", "+" if right else "-"):
            shown.add(number)
            number += 1
    return shown


async def list_comments(call: RestCall) -> RestResponse:
    pull = find_pull(call)
    every = [comment for review in pull.reviews for comment in review.comments]
    if call.query.get("direction") == "desc":
        every.reverse()
    return paginate(call, [issue_json.review_comment(pull, one) for one in every])


async def list_all_comments(call: RestCall) -> RestResponse:
    """The comments on all pull requests, by default sorted by id, as on GitHub."""
    since = call.query.get("since", "")
    every = [(p, c) for p in call.repo.pulls for r in p.reviews for c in r.comments]
    found = [(p, c) for p, c in every if stamp(c.created_at) >= since]
    found.sort(
        key=lambda one: (stamp(one[1].created_at) if "sort" in call.query else "", one[1].id),
        reverse=call.query.get("direction") == "desc",
    )
    return paginate(call, [issue_json.review_comment(p, c) for p, c in found])


def _find_line_reactions(call: RestCall) -> list[Reaction]:
    number = call.number("comment")
    for pull in call.repo.pulls:
        if comment := find_review_comment(pull, number):
            return comment.reactions
    raise not_found()


OPERATIONS = (
    operation("GET", REPO + "/pulls/comments", list_all_comments, READ),
    operation("POST", PULL + "/reviews", create_review, WRITE),
    operation("GET", PULL + "/comments", list_comments, READ),
    operation("POST", PULL + "/comments/{comment}/replies", reply, WRITE),
    *reaction_operations(REPO + "/pulls/comments/{comment}", _find_line_reactions, READ, WRITE),
    operation("GET", REPO + "/pulls", list_pulls, READ),
    operation("POST", REPO + "/pulls", create_pull, WRITE),
    operation("GET", PULL, show_pull, READ),
    operation("PATCH", PULL, change_pull, WRITE),
    operation("GET", PULL + "/commits", list_commits, READ),
    operation("GET", PULL + "/files", list_files, READ),
    operation("GET", PULL + "/reviews", list_reviews, READ),
    operation("POST", PULL + "/requested_reviewers", request_reviewers, WRITE),
    operation("GET", REPO + "/commits/{ref...}/pulls", list_with_commit, READ),
)
