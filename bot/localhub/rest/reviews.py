"""Reviews of pull requests, and their comments on lines."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

from bot.localhub.actions import pulls as actions
from bot.localhub.actions.issues import check_body
from bot.localhub.errors import invalid, not_found, unprocessable
from bot.localhub.git import diff
from bot.localhub.json import pulls as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.rest.pulls import PULL, READ, WRITE, find_pull
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Pull, Review, ReviewComment, stamp

STATES = {
    None: "PENDING",
    "APPROVE": "APPROVED",
    "REQUEST_CHANGES": "CHANGES_REQUESTED",
    "COMMENT": "COMMENTED",
}


async def list_reviews(call: RestCall) -> RestResponse:
    pull = find_pull(call)
    return paginate(call, [shapes.review(call.hub.url, pull, one) for one in pull.reviews])


async def list_comments(call: RestCall) -> RestResponse:
    pull = find_pull(call)
    every = [comment for review in pull.reviews for comment in review.comments]
    return paginate(call, [shapes.review_comment(call.hub.url, pull, one) for one in every])


async def list_all_comments(call: RestCall) -> RestResponse:
    """The comments on all pull requests, by default sorted by id, as on GitHub."""
    since = call.query.get("since", "")
    every = [(p, c) for p in call.repo.pulls for r in p.reviews for c in r.comments]
    found = [(p, c) for p, c in every if stamp(c.created_at) >= since]
    found.sort(
        key=lambda one: (stamp(one[1].created_at) if "sort" in call.query else "", one[1].id),
        reverse=call.query.get("direction") == "desc",
    )
    return paginate(call, [shapes.review_comment(call.hub.url, p, c) for p, c in found])


async def create(call: RestCall) -> RestResponse:
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
    review = Review(call.hub.next_id(), who.actor, text, STATES[event], commit)
    hunks = await asyncio.to_thread(_read_hunks, pull)
    for fields in cast("list[dict[str, Any]]", body.get("comments") or []):
        review.comments.append(_build_comment(call, review, fields, hunks))
    actions.add_review(call.hub, pull, review)
    return RestResponse(200, shapes.review(call.hub.url, pull, review))


async def reply(call: RestCall) -> RestResponse:
    """Reply to the first comment of a thread; GitHub creates a review for each reply."""
    pull, number = find_pull(call), call.number("comment")
    first = actions.find_review_comment(pull, number)
    if first is None or first.in_reply_to is not None:
        raise not_found()
    text = call.text("body", "PullRequestReviewComment")
    check_body(text, "PullRequestReviewComment")
    made = actions.reply(call.hub, pull, first, text, call.bearer.actor)
    shape = shapes.review_comment(call.hub.url, pull, made)
    return RestResponse(201, shape, {"location": shape["url"]})


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
    return ReviewComment(call.hub.next_id(), review, path, line, side, text, patch)


def _read_hunks(pull: Pull) -> dict[str, str]:
    git = pull.repo.git
    compared = diff.compare(git, pull.base_sha, pull.head_sha)
    base = compared.merge_base or pull.base_sha
    return {one.path: one.patch for one in diff.diff_files(git, base, pull.head_sha)}


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


OPERATIONS = (
    operation("GET", REPO + "/pulls/comments", list_all_comments, READ),
    operation("GET", PULL + "/reviews", list_reviews, READ),
    operation("POST", PULL + "/reviews", create, WRITE),
    operation("GET", PULL + "/comments", list_comments, READ),
    operation("POST", PULL + "/comments/{comment}/replies", reply, WRITE),
)
