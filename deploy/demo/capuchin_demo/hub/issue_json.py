"""Issues and pull requests as GitHub's JSON."""

from typing import Any

from capuchin_demo.hub import repository_json
from capuchin_demo.hub.pull_facts import pull_facts
from capuchin_demo.hub.repository_json import association, repository, user
from capuchin_demo.hub.state import (
    Comment,
    Issue,
    Pull,
    Reaction,
    Repo,
    Review,
    ReviewComment,
    TimelineEntry,
    node_id,
    stamp,
)

Json = dict[str, Any]


def issue(one: Issue) -> Json:
    """`issue`; for a pull request too, as the issues API shows it."""
    repo = one.repo
    api = f"{repo.api_url}/issues/{one.number}"
    shape: Json = {
        "id": one.id,
        "node_id": node_id("I", one.id),
        "url": api,
        "repository_url": repo.api_url,
        "labels_url": f"{api}/labels{{/name}}",
        "comments_url": f"{api}/comments",
        "events_url": f"{api}/events",
        "html_url": one.page_url,
        "number": one.number,
        "state": one.state,
        "state_reason": one.state_reason,
        "title": one.title,
        "body": one.body,
        "user": user(one.author),
        "labels": labels(one),
        "assignee": user(one.assignees[0]) if one.assignees else None,
        "assignees": [user(account) for account in one.assignees],
        "milestone": None,
        "locked": one.locked,
        "active_lock_reason": None,
        "comments": len(one.comments),
        "closed_at": stamp(one.closed_at) if one.closed_at else None,
        "closed_by": user(one.closed_by) if one.closed_by else None,
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.updated_at),
        "author_association": association(repo.role_of(one.author)),
        "reactions": reaction_rollup(f"{api}/reactions", one.reactions),
        "timeline_url": f"{api}/timeline",
        "performed_via_github_app": None,
    }
    if isinstance(one, Pull):
        shape["draft"] = one.draft
        shape["pull_request"] = {
            "url": f"{repo.api_url}/pulls/{one.number}",
            "html_url": one.page_url,
            "diff_url": f"{one.page_url}.diff",
            "patch_url": f"{one.page_url}.patch",
            "merged_at": stamp(one.merged_at) if one.merged_at else None,
        }
    return shape


def labels(one: Issue) -> list[Json]:
    """The labels in the order in which they were added."""
    found = (one.repo.labels[name.lower()] for name in one.labels)
    return [repository_json.label(one.repo, label) for label in found]


def comment(one: Comment) -> Json:
    """`issue-comment`."""
    repo = one.issue.repo
    api = f"{repo.api_url}/issues/comments/{one.id}"
    return {
        "id": one.id,
        "node_id": node_id("IC", one.id),
        "url": api,
        "html_url": f"{one.issue.page_url}#issuecomment-{one.id}",
        "issue_url": f"{repo.api_url}/issues/{one.issue.number}",
        "body": one.body,
        "user": user(one.author),
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.updated_at),
        "author_association": association(repo.role_of(one.author)),
        "reactions": reaction_rollup(f"{api}/reactions", one.reactions),
        "performed_via_github_app": None,
    }


def reaction(one: Reaction) -> Json:
    """`reaction`."""
    return {
        "id": one.id,
        "node_id": node_id("REA", one.id),
        "user": user(one.user),
        "content": one.content,
        "created_at": stamp(one.created_at),
    }


def history_event(one: Issue, entry: TimelineEntry) -> Json:
    """`issue-event-for-issue` for an added or removed label, or a merge."""
    number = one.timeline.index(entry) + one.id * 1000
    event = {
        "id": number,
        "node_id": node_id("LE", number),
        "url": f"{one.repo.api_url}/issues/events/{number}",
        "actor": user(entry.actor),
        "event": entry.event,
        "commit_id": entry.commit or None,
        "commit_url": f"{one.repo.api_url}/commits/{entry.commit}" if entry.commit else None,
        "created_at": stamp(entry.at),
        "performed_via_github_app": None,
    }
    if not entry.label:
        return event
    label = one.repo.labels[entry.label.lower()]
    return {**event, "label": {"name": label.name, "color": label.color}}


def cross_reference(by: Issue) -> Json:
    """`timeline-cross-referenced-event`: `by` mentions the issue."""
    source = {**issue(by), "repository": repository_json.repository(by.repo)}
    return {
        "event": "cross-referenced",
        "actor": user(by.author),
        "created_at": stamp(by.created_at),
        "updated_at": stamp(by.created_at),
        "source": {"type": "issue", "issue": source},
    }


def reaction_rollup(api: str, reactions: list[Reaction]) -> Json:
    """`reaction-rollup`: the counts in issues and comments."""
    names = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
    given = [reaction.content for reaction in reactions]
    return {
        "url": api,
        "total_count": len(reactions),
        **{name: given.count(name) for name in names},
    }


def simple_pull(one: Pull) -> Json:
    """`pull-request-simple`, as in lists."""
    here = f"{one.repo.api_url}/pulls/{one.number}"
    page = one.page_url
    shared = issue(one)
    kept = (
        "number", "state", "title", "body", "user", "labels", "assignee", "assignees", "milestone",
        "locked", "active_lock_reason", "closed_at", "created_at", "updated_at", "comments_url",
        "author_association",
    )  # fmt: skip
    base = one.repo.api_url
    links = {
        "self": here,
        "html": one.page_url,
        "issue": f"{base}/issues/{one.number}",
        "comments": f"{base}/issues/{one.number}/comments",
        "review_comments": f"{here}/comments",
        "review_comment": f"{base}/pulls/comments{{/number}}",
        "commits": f"{here}/commits",
        "statuses": f"{base}/statuses/{one.head_sha}",
    }
    return {
        **{name: shared[name] for name in kept},
        "id": one.id,
        "node_id": node_id("PR", one.id),
        "url": here,
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": shared["url"],
        "commits_url": f"{here}/commits",
        "review_comments_url": f"{here}/comments",
        "review_comment_url": f"{one.repo.api_url}/pulls/comments{{/number}}",
        "statuses_url": f"{one.repo.api_url}/statuses/{one.head_sha}",
        "draft": one.draft,
        "merged_at": stamp(one.merged_at) if one.merged_at else None,
        "merge_commit_sha": one.merge_commit_sha,
        "requested_reviewers": [user(account) for account in one.requested_reviewers],
        "requested_teams": [],
        "head": _branch_end(one.fork or one.repo, one.head_ref, one.head_sha),
        "base": _branch_end(one.repo, one.base_ref, one.base_sha),
        "_links": {name: {"href": href} for name, href in links.items()},
        "auto_merge": None,
    }


def pull(one: Pull) -> Json:
    """`pull-request`, as for a single one."""
    facts = pull_facts(one)
    merged = one.merged_at is not None
    state = {True: "clean", False: "dirty", None: "unknown"}[facts.mergeable]
    return {
        **simple_pull(one),
        "merged": merged,
        "mergeable": None if merged else facts.mergeable,
        "rebaseable": None if merged else facts.mergeable,
        "mergeable_state": "unknown" if merged else "draft" if one.draft else state,
        "merged_by": user(one.merged_by) if one.merged_by else None,
        "comments": len(one.comments),
        "review_comments": sum(len(review.comments) for review in one.reviews),
        "maintainer_can_modify": one.maintainer_can_modify,
        "commits": facts.commits,
        "additions": facts.additions,
        "deletions": facts.deletions,
        "changed_files": facts.changed_files,
    }


def review(one: Pull, submission: Review) -> Json:
    """`pull-request-review`."""
    here = f"{one.repo.api_url}/pulls/{one.number}"
    page = f"{one.page_url}#pullrequestreview-{submission.id}"
    submitted = {"submitted_at": stamp(submission.submitted_at)} if submission.submitted_at else {}
    return {
        "id": submission.id,
        "node_id": node_id("PRR", submission.id),
        "user": user(submission.author),
        "body": submission.body,
        "state": submission.state,
        "html_url": page,
        "pull_request_url": here,
        "author_association": association(one.repo.role_of(submission.author)),
        "_links": {"html": {"href": page}, "pull_request": {"href": here}},
        **submitted,
        "commit_id": submission.commit_id,
    }


def review_comment(one: Pull, comment: ReviewComment) -> Json:
    """`pull-request-review-comment`."""
    pulls = f"{one.repo.api_url}/pulls"
    here = f"{pulls}/comments/{comment.id}"
    page = f"{one.page_url}#discussion_r{comment.id}"
    commit = comment.review.commit_id
    return {
        "id": comment.id,
        "node_id": node_id("PRRC", comment.id),
        "url": here,
        "pull_request_review_id": comment.review.id,
        "diff_hunk": comment.diff_hunk,
        "path": comment.path,
        "position": 1,
        "original_position": 1,
        "line": comment.line,
        "original_line": comment.line,
        "start_line": None,
        "original_start_line": None,
        "side": comment.side,
        "start_side": None,
        "subject_type": "line",
        "commit_id": commit,
        "original_commit_id": commit,
        "user": user(comment.review.author),
        "body": comment.body,
        "created_at": stamp(comment.created_at),
        "updated_at": stamp(comment.created_at),
        "html_url": page,
        "pull_request_url": f"{pulls}/{one.number}",
        "author_association": association(one.repo.role_of(comment.review.author)),
        "_links": {
            "self": {"href": here},
            "html": {"href": page},
            "pull_request": {"href": f"{pulls}/{one.number}"},
        },
        "reactions": reaction_rollup(f"{here}/reactions", []),
        **({"in_reply_to_id": comment.in_reply_to} if comment.in_reply_to else {}),
    }


def _branch_end(repo: Repo, ref: str, sha: str) -> Json:
    return {
        "label": f"{repo.owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": user(repo.owner),
        "repo": repository(repo),
    }
