"""What happens to issues and comments."""

from collections.abc import Iterable
from typing import Literal

from capuchin_demo.hub import issue_json, repository_json
from capuchin_demo.hub.github_errors import Refusal, custom_error, invalid
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.state import Comment, Issue, Reaction, Repo, User, now

LONGEST_LABEL = 50


def check_title(title: str, resource: str = "Issue") -> None:
    """Check that a title is neither blank nor too long.

    Raises:
        Refusal: it is (422).
    """
    if not title.strip():
        raise invalid(resource, "title", "missing_field")
    if len(title) > 256:
        raise custom_error(resource, "title is too long (maximum is 256 characters)")


def check_body(body: str | None, resource: str = "Issue") -> None:
    """Check that a body is not longer than GitHub's limit.

    Raises:
        Refusal: it is (422).
    """
    if body is not None and len(body) > 65_536:
        raise custom_error(resource, "body is too long (maximum is 65536 characters)")


def open_issue(
    state: State, repo: Repo, title: str, body: str | None, by: User, labels: Iterable[str] = ()
) -> Issue:
    """Open an issue.

    Raises:
        Refusal: the title, body or a label is not valid (422).
    """
    check_title(title)
    check_body(body)
    repo.last_number += 1
    issue = Issue(state.next_id(), repo.last_number, repo, title, body, by)
    repo.issues[issue.number] = issue
    issue.add_to_timeline(by, "opened this")
    state.emit_change(issue, "opened", by)
    add_labels(state, issue, labels, by)
    return issue


def edit_issue(state: State, issue: Issue, by: User, title: str | None, body: str | None) -> None:
    """Edit an issue; None leaves a field unchanged."""
    changes: dict[str, dict[str, str]] = {}
    if title is not None and title != issue.title:
        check_title(title)
        changes["title"] = {"from": issue.title}
        issue.title = title
    if body is not None and body != issue.body:
        check_body(body)
        changes["body"] = {"from": issue.body or ""}
        issue.body = body
    if changes:
        issue.add_to_timeline(by, f"edited the {' and the '.join(changes)}")
        state.emit_change(issue, "edited", by, changes=changes)


def close_issue(state: State, issue: Issue, by: User, reason: str = "completed") -> None:
    """Close an open issue."""
    if issue.state == "closed":
        return
    issue.state, issue.state_reason = "closed", reason
    issue.closed_at, issue.closed_by = now(), by
    issue.add_to_timeline(by, "closed this")
    state.emit_change(issue, "closed", by)


def reopen_issue(state: State, issue: Issue, by: User) -> None:
    """Reopen a closed issue."""
    if issue.state == "open":
        return
    issue.state, issue.state_reason = "open", "reopened"
    issue.closed_at, issue.closed_by = None, None
    issue.add_to_timeline(by, "reopened this")
    state.emit_change(issue, "reopened", by)


def set_issue_state(
    state: State, issue: Issue, by: User, wanted: Literal["open", "closed"], reason: str
) -> None:
    """Close or reopen an issue, as wanted."""
    if wanted == "closed":
        close_issue(state, issue, by, reason)
    else:
        reopen_issue(state, issue, by)


def add_labels(state: State, issue: Issue, names: Iterable[str], by: User) -> None:
    """Add labels; like GitHub, create those that the repository lacks.

    Raises:
        Refusal: a label is not valid (422).
    """
    for name in names:
        if not name.strip() or len(name) > LONGEST_LABEL:
            raise invalid("Label", "name")
        label = state.add_repo_label(issue.repo, name)
        if label.name in issue.labels:
            continue
        issue.labels.append(label.name)
        issue.add_to_timeline(
            by, f"added the label {label.name}", event="labeled", label=label.name
        )
        shape = repository_json.label(issue.repo, label)
        state.emit_change(issue, "labeled", by, label=shape)


def remove_label(state: State, issue: Issue, name: str, by: User) -> None:
    """Remove a label.

    Raises:
        Refusal: the issue does not have it (404).
    """
    label = issue.repo.labels.get(name.lower())
    if label is None or label.name not in issue.labels:
        raise Refusal(404, "Label does not exist")
    issue.labels.remove(label.name)
    issue.add_to_timeline(
        by, f"removed the label {label.name}", event="unlabeled", label=label.name
    )
    shape = repository_json.label(issue.repo, label)
    state.emit_change(issue, "unlabeled", by, label=shape)


def assign(state: State, issue: Issue, user: User, by: User) -> None:
    """Assign a person, unless already assigned."""
    if user not in issue.assignees:
        issue.assignees.append(user)
        issue.add_to_timeline(by, f"assigned {user.login}")
        state.emit_change(issue, "assigned", by, assignee=repository_json.user(user))


REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


def add_comment(state: State, issue: Issue, body: str, by: User) -> Comment:
    """Add a comment.

    Raises:
        Refusal: the body is blank or too long (422), or the issue is locked (403).
    """
    _check_comment_body(body)
    if issue.locked and issue.repo.role_of(by) in ("none", "read"):
        raise Refusal(403, "Unable to create comment because issue is locked.")
    comment = Comment(state.next_id(), issue, by, body)
    issue.comments.append(comment)
    issue.add_to_timeline(by, "commented", comment)
    emit_comment(state, comment, "created", by)
    return comment


def edit_comment(state: State, comment: Comment, body: str, by: User) -> None:
    """Edit a comment.

    Raises:
        Refusal: the body is blank or too long (422).
    """
    _check_comment_body(body)
    before, comment.body, comment.editor = comment.body, body, by
    comment.updated_at = comment.issue.updated_at = now()
    emit_comment(state, comment, "edited", by, changes={"body": {"from": before}})


def react(state: State, reactions: list[Reaction], content: str, by: User) -> tuple[Reaction, bool]:
    """Add a reaction, once for each person and kind; return it and whether it is new.

    Raises:
        Refusal: GitHub has no such reaction (422).
    """
    if content not in REACTIONS:
        raise invalid("Reaction", "content")
    for given in reactions:
        if given.user is by and given.content == content:
            return given, False
    reaction = Reaction(state.next_id(), content, by)
    reactions.append(reaction)
    return reaction, True


def _check_comment_body(body: str) -> None:
    if not body.strip():
        raise invalid("IssueComment", "body", "custom", "body cannot be blank")
    check_body(body, "IssueComment")


def emit_comment(state: State, comment: Comment, action: str, by: User, **more: object) -> None:
    payload = {
        "action": action,
        "issue": issue_json.issue(comment.issue),
        "comment": issue_json.comment(comment),
        **more,
    }
    state.emit("issue_comment", comment.issue.repo, by, payload)


def delete_issue(state: State, issue: Issue, by: User) -> None:
    """Delete an issue; its number responds 410 from now on."""
    del issue.repo.issues[issue.number]
    issue.repo.deleted_numbers.add(issue.number)
    state.emit_change(issue, "deleted", by)


def transfer_issue(state: State, issue: Issue, to: Repo, by: User) -> Issue:
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


def delete_comment(state: State, comment: Comment, by: User) -> None:
    """Delete a comment, also from the timeline."""
    issue = comment.issue
    issue.comments.remove(comment)
    issue.timeline = [line for line in issue.timeline if line.comment is not comment]
    emit_comment(state, comment, "deleted", by)
