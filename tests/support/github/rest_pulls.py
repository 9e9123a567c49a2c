"""Reviews on lines, and reactions to them: what the demo does not need."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

from capuchin_demo.hub import git_compare, rest_pulls
from capuchin_demo.hub.github_errors import custom_error, invalid, not_found, unprocessable
from capuchin_demo.hub.issue_actions import check_body
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_issues import reaction_operations
from capuchin_demo.hub.rest_pulls import PULL, READ, WRITE, find_pull
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import Reaction, Review, ReviewComment, stamp
from tests.support.github import issue_json, pull_actions
from tests.support.github.hub_state import hub_of
from tests.support.github.pull_actions import find_review_comment

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
    pull_actions.add_review(hub_of(call), pull, review)
    return RestResponse(200, issue_json.review(pull, review))


async def reply(call: RestCall) -> RestResponse:
    """Reply to the first comment of a thread; GitHub creates a review for each reply."""
    pull, number = find_pull(call), call.number("comment")
    first = pull_actions.find_review_comment(pull, number)
    if first is None or first.in_reply_to is not None:
        raise not_found()
    text = call.text("body", "PullRequestReviewComment")
    check_body(text, "PullRequestReviewComment")
    made = pull_actions.reply(hub_of(call), pull, first, text, call.bearer.actor)
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


async def create_pull(call: RestCall) -> RestResponse:
    if refusal := hub_of(call).rules[call.repo.id].pull_requests:
        raise custom_error("PullRequest", refusal)
    return await rest_pulls.create_pull(call)


def _find_line_reactions(call: RestCall) -> list[Reaction]:
    number = call.number("comment")
    for pull in call.repo.pulls:
        if comment := find_review_comment(pull, number):
            return comment.reactions
    raise not_found()


OPERATIONS = (
    operation("POST", REPO + "/pulls", create_pull, WRITE),
    operation("GET", REPO + "/pulls/comments", list_all_comments, READ),
    operation("POST", PULL + "/reviews", create_review, WRITE),
    operation("GET", PULL + "/comments", list_comments, READ),
    operation("POST", PULL + "/comments/{comment}/replies", reply, WRITE),
    *reaction_operations(REPO + "/pulls/comments/{comment}", _find_line_reactions, READ, WRITE),
)
