"""GitHub's JSON, as far as the bot reads it."""

from __future__ import annotations

import base64
from typing import Any

from capuchin_demo.hub.git_repository import ChangedFile, Commit, Entry
from capuchin_demo.hub.state import (
    AppInstallation,
    CheckRun,
    Comment,
    Issue,
    Label,
    Pull,
    Reaction,
    Repo,
    Review,
    TimelineEntry,
    User,
    node_id,
    stamp,
)
from capuchin_demo.hub.tokens import AppIdentity

Json = dict[str, Any]


class Shapes:
    """One method for each kind of object, named as in GitHub's API."""

    # People, Apps and repositories

    def user(self, account: User) -> Json:
        return {"login": account.login, "id": account.id, "type": account.type}

    def app(self, identity: AppIdentity) -> Json:
        return {
            "id": identity.app_id,
            "slug": identity.slug,
            "permissions": dict(identity.permissions),
            "events": list(identity.events),
        }

    def installation(self, one: AppInstallation) -> Json:
        return {
            "id": one.id,
            "account": self.user(one.account),
            "permissions": dict(one.permissions),
            "events": list(one.events),
        }

    def repository(self, repo: Repo) -> Json:
        return {
            "id": repo.id,
            "name": repo.name,
            "full_name": repo.full_name,
            "owner": self.user(repo.owner),
            "default_branch": repo.default_branch,
            "clone_url": f"{repo.page_url}.git",
        }

    def label(self, repo: Repo, one: Label) -> Json:
        del repo
        return {"name": one.name, "color": one.color}

    def permission(self, repo: Repo, account: User) -> Json:
        role = repo.role_of(account)
        coarse = {"maintain": "write", "triage": "read"}.get(role, role)
        return {"permission": coarse, "role_name": role}

    # Issues and pull requests

    def issue(self, one: Issue) -> Json:
        """For a pull request too, as the issues API shows it."""
        pull = {"pull_request": {"html_url": one.page_url}} if isinstance(one, Pull) else {}
        return {
            **self._thread(one),
            "node_id": node_id("I", one.id),
            "locked": one.locked,
            "assignees": [self.user(account) for account in one.assignees],
            "closed_by": self.user(one.closed_by) if one.closed_by else None,
            **pull,
        }

    def _thread(self, one: Issue) -> Json:
        return {
            "number": one.number,
            "title": one.title,
            "body": one.body,
            "state": one.state,
            "user": self.user(one.author),
            "html_url": one.page_url,
            "comments": len(one.comments),
            "labels": self.labels(one),
            "created_at": stamp(one.created_at),
            "updated_at": stamp(one.updated_at),
        }

    def labels(self, one: Issue) -> list[Json]:
        """The labels in the order in which they were added."""
        return [self.label(one.repo, one.repo.labels[name.lower()]) for name in one.labels]

    def comment(self, one: Comment) -> Json:
        return {
            "id": one.id,
            "body": one.body,
            "user": self.user(one.author),
            "created_at": stamp(one.created_at),
            "updated_at": stamp(one.updated_at),
            "issue_url": f"{one.issue.repo.api_url}/issues/{one.issue.number}",
            "html_url": f"{one.issue.page_url}#issuecomment-{one.id}",
        }

    def reaction(self, one: Reaction) -> Json:
        return {"id": one.id, "content": one.content, "user": self.user(one.user)}

    def history_event(self, one: Issue, entry: TimelineEntry) -> Json:
        """An added or removed label, or a merge."""
        label = one.repo.labels.get(entry.label.lower())
        return {
            "event": entry.event,
            "commit_id": entry.commit or None,
            "actor": self.user(entry.actor),
            "created_at": stamp(entry.at),
            **({"label": {"name": label.name}} if label else {}),
        }

    def cross_reference(self, by: Issue) -> Json:
        """`by` mentions the issue."""
        source = {**self.issue(by), "repository": self.repository(by.repo)}
        return {"event": "cross-referenced", "source": {"issue": source}}

    def simple_pull(self, one: Pull) -> Json:
        """As in lists."""
        shape = self._thread(one)
        del shape["comments"]
        return {
            **shape,
            "node_id": node_id("PR", one.id),
            "draft": one.draft,
            "merged_at": stamp(one.merged_at) if one.merged_at else None,
            "head": {"ref": one.head_ref, "sha": one.head_sha},
            "base": {"ref": one.base_ref, "sha": one.base_sha},
        }

    def pull(self, one: Pull) -> Json:
        """As for a single one."""
        return {**self.simple_pull(one), "comments": len(one.comments)}

    def review(self, one: Pull, submission: Review) -> Json:
        del one
        return {
            "id": submission.id,
            "node_id": node_id("PRR", submission.id),
            "user": self.user(submission.author),
            "body": submission.body,
            "state": submission.state,
        }

    # Git

    def push(self, repo: Repo, ref: str, before: str, after: str, by: User) -> Json:
        """A branch or tag moved, or was created or deleted (SHA of zeros)."""
        del repo, by
        return {"ref": ref, "before": before, "after": after}

    def ref(self, repo: Repo, name: str, sha: str) -> Json:
        del repo
        return {"ref": name, "object": {"sha": sha}}

    def git_commit(self, repo: Repo, one: Commit) -> Json:
        """The object itself."""
        del repo
        return {"sha": one.sha, "tree": {"sha": one.tree}}

    def commit(self, repo: Repo, one: Commit, author: User | None) -> Json:
        """As lists of commits show it. `author` is the account with the author's e-mail."""
        del repo
        return {
            "sha": one.sha,
            "commit": {
                "message": one.message.rstrip("\n"),
                "author": {"name": one.author.name, "email": one.author.email},
                "committer": {"date": stamp(one.committer.at)},
            },
            "author": self.user(author) if author else None,
            "parents": [{"sha": parent} for parent in one.parents],
        }

    def tree(self, repo: Repo, sha: str, entries: list[Entry]) -> Json:
        del repo, entries
        return {"sha": sha}

    def branch(self, repo: Repo, name: str, sha: str) -> Json:
        del repo
        return {"name": name, "commit": {"sha": sha}}

    def file(self, entry: Entry, data: bytes) -> Json:
        text = base64.b64encode(data).decode()
        kind = "symlink" if entry.mode == "120000" else "file"
        return {"type": kind, "size": len(data), "encoding": "base64", "content": text}

    def diff_entry(self, repo: Repo, one: ChangedFile, sha: str) -> Json:
        """`sha` is the commit that contains the file."""
        del repo, sha
        return {"filename": one.path, "status": one.status}

    def check_run(self, repo: Repo, one: CheckRun, app: AppIdentity) -> Json:
        return {
            "id": one.id,
            "head_sha": one.head_sha,
            "external_id": one.external_id,
            "html_url": f"{repo.page_url}/runs/{one.id}",
            "status": one.status,
            "conclusion": one.conclusion,
            "name": one.name,
            "output": {
                "title": one.title,
                "summary": one.summary,
                "text": one.text,
                "annotations_count": len(one.annotations),
            },
            "app": {"slug": app.slug},
        }
