"""What else people do to issues and comments."""

from __future__ import annotations

from capuchin_demo.hub.issue_actions import add_labels, emit_comment, remove_label
from capuchin_demo.hub.state import Comment, Issue, Repo, User
from tests.support.github import issue_json, repository_json
from tests.support.github.hub_state import GitHubState


def set_labels(state: GitHubState, issue: Issue, names: list[str], by: User) -> None:
    """Replace all labels of an issue."""
    wanted = {name.lower() for name in names}
    for name in [name for name in issue.labels if name.lower() not in wanted]:
        remove_label(state, issue, name, by)
    add_labels(state, issue, names, by)


def unassign(state: GitHubState, issue: Issue, user: User, by: User) -> None:
    """Unassign a person, if assigned."""
    if user in issue.assignees:
        issue.assignees.remove(user)
        issue.add_to_timeline(by, f"unassigned {user.login}")
        state.emit_change(issue, "unassigned", by, assignee=state.shapes.user(user))


def delete_issue(state: GitHubState, issue: Issue, by: User) -> None:
    """Delete an issue; its number responds 410 from now on."""
    del issue.repo.issues[issue.number]
    issue.repo.deleted_numbers.add(issue.number)
    state.emit_change(issue, "deleted", by)


def transfer_issue(state: GitHubState, issue: Issue, to: Repo, by: User) -> Issue:
    """Move an issue to another repository and return the copy there; its old number is gone."""
    to.last_number += 1
    moved = Issue(state.next_id(), to.last_number, to, issue.title, issue.body, issue.author)
    to.issues[moved.number] = moved
    changes = {
        "new_issue": issue_json.issue(moved),
        "new_repository": repository_json.repository(to),
    }
    del issue.repo.issues[issue.number]
    state.emit_change(issue, "transferred", by, changes=changes)
    return moved


def delete_comment(state: GitHubState, comment: Comment, by: User) -> None:
    """Delete a comment, also from the timeline."""
    issue = comment.issue
    issue.comments.remove(comment)
    issue.timeline = [line for line in issue.timeline if line.comment is not comment]
    emit_comment(state, comment, "deleted", by)
