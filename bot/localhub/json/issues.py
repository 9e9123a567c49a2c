"""Issues, comments and reactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bot.localhub.json import repositories
from bot.localhub.json.people import association, user
from bot.localhub.state import (
    Comment,
    Issue,
    Pull,
    Reaction,
    TimelineEntry,
    node_id,
    stamp,
)

Json = dict[str, Any]


def issue(url: str, one: Issue) -> Json:
    """`issue`; for a pull request too, as the issues API shows it."""
    repo = one.repo
    api = f"{repositories.api_url(url, repo)}/issues/{one.number}"
    return {
        "id": one.id,
        "node_id": node_id("I", one.id),
        "url": api,
        "repository_url": repositories.api_url(url, repo),
        "labels_url": f"{api}/labels{{/name}}",
        "comments_url": f"{api}/comments",
        "events_url": f"{api}/events",
        "html_url": f"{url}/{one.html_path}",
        "number": one.number,
        "state": one.state,
        "state_reason": one.state_reason,
        "title": one.title,
        "body": one.body,
        "user": user(url, one.author),
        "labels": labels(url, one),
        "assignee": user(url, one.assignees[0]) if one.assignees else None,
        "assignees": [user(url, account) for account in one.assignees],
        "milestone": None,
        "locked": one.locked,
        "active_lock_reason": None,
        "comments": len(one.comments),
        "closed_at": stamp(one.closed_at) if one.closed_at else None,
        "closed_by": user(url, one.closed_by) if one.closed_by else None,
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.updated_at),
        "author_association": association(repo.role_of(one.author)),
        "reactions": reaction_rollup(f"{api}/reactions", one.reactions),
        "timeline_url": f"{api}/timeline",
        "performed_via_github_app": None,
        **(_pull_fields(url, one) if isinstance(one, Pull) else {}),
    }


def labels(url: str, one: Issue) -> list[Json]:
    """The labels in the order in which they were added."""
    found = (one.repo.labels[name.lower()] for name in one.labels)
    return [repositories.label(url, one.repo, label) for label in found]


def comment(url: str, one: Comment) -> Json:
    """`issue-comment`."""
    repo = one.issue.repo
    api = f"{repositories.api_url(url, repo)}/issues/comments/{one.id}"
    return {
        "id": one.id,
        "node_id": node_id("IC", one.id),
        "url": api,
        "html_url": f"{url}/{one.issue.html_path}#issuecomment-{one.id}",
        "issue_url": f"{repositories.api_url(url, repo)}/issues/{one.issue.number}",
        "body": one.body,
        "user": user(url, one.author),
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.updated_at),
        "author_association": association(repo.role_of(one.author)),
        "reactions": reaction_rollup(f"{api}/reactions", one.reactions),
        "performed_via_github_app": None,
    }


def reaction(url: str, one: Reaction) -> Json:
    """`reaction`."""
    return {
        "id": one.id,
        "node_id": node_id("REA", one.id),
        "user": user(url, one.user),
        "content": one.content,
        "created_at": stamp(one.created_at),
    }


def label_event(url: str, one: Issue, entry: TimelineEntry) -> Json:
    """`issue-event-for-issue` for an added or removed label."""
    number = one.timeline.index(entry) + one.id * 1000
    label = one.repo.labels[entry.label.lower()]
    return {
        "id": number,
        "node_id": node_id("LE", number),
        "url": f"{repositories.api_url(url, one.repo)}/issues/events/{number}",
        "actor": user(url, entry.actor),
        "event": entry.event,
        "commit_id": None,
        "commit_url": None,
        "created_at": stamp(entry.at),
        "performed_via_github_app": None,
        "label": {"name": label.name, "color": label.color},
    }


def cross_reference(url: str, by: Issue) -> Json:
    """`timeline-cross-referenced-event`: `by` mentions the issue."""
    source = {**issue(url, by), "repository": repositories.repository(url, by.repo)}
    return {
        "event": "cross-referenced",
        "actor": user(url, by.author),
        "created_at": stamp(by.created_at),
        "updated_at": stamp(by.created_at),
        "source": {"type": "issue", "issue": source},
    }


def reaction_rollup(api: str, reactions: list[Reaction]) -> Json:
    """`reaction-rollup`: the counts in issues and comments."""
    return {"url": api, "total_count": len(reactions), **reaction_counts(reactions)}


def _pull_fields(url: str, one: Pull) -> Json:
    page = f"{url}/{one.html_path}"
    links = {
        "url": f"{repositories.api_url(url, one.repo)}/pulls/{one.number}",
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "merged_at": stamp(one.merged_at) if one.merged_at else None,
    }
    return {"draft": one.draft, "pull_request": links}


def reaction_counts(reactions: Iterable[Reaction]) -> dict[str, int]:
    """The number of each of GitHub's eight reactions."""
    names = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
    given = [reaction.content for reaction in reactions]
    return {name: given.count(name) for name in names}
