"""What else people do to pull requests."""

from __future__ import annotations

from capuchin_demo.hub import pull_actions
from capuchin_demo.hub.state import Pull, Review, ReviewComment, User
from tests.support.github import issue_json
from tests.support.github.hub_state import GitHubState


def find_review_comment(pull: Pull, number: int) -> ReviewComment | None:
    """The comment on a line with this id."""
    every = (comment for review in pull.reviews for comment in review.comments)
    return next((comment for comment in every if comment.id == number), None)


def reply(
    state: GitHubState, pull: Pull, first: ReviewComment, text: str, by: User
) -> ReviewComment:
    """Reply in the thread of the comment `first`."""
    review = Review(state.next_id(), by, "", "COMMENTED", pull.head_sha)
    made = ReviewComment(
        state.next_id(), review, first.path, first.line, first.side, text, first.diff_hunk, first.id
    )
    review.comments.append(made)
    add_review(state, pull, review)
    return made


def add_review(state: GitHubState, pull: Pull, review: Review) -> None:
    """Add a review with comments on lines.

    Raises:
        Refusal: authors cannot approve or reject their own work (422).
    """
    pull_actions.add_review(state, pull, review)
    if review.state == "PENDING":
        return
    for comment in review.comments:
        payload = {
            "action": "created",
            "comment": issue_json.review_comment(pull, comment),
            "pull_request": issue_json.simple_pull(pull),
        }
        state.emit("pull_request_review_comment", pull.repo, review.author, payload)
