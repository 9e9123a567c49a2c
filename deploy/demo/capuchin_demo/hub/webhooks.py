"""Builds webhook payloads and sends them if the App is installed and subscribes to the event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.localhub.git.types import Commit
from bot.localhub.json import people, pulls, repositories
from bot.localhub.json.checks import check_run, check_suite, status
from bot.localhub.json.issues import issue as issue_shape
from bot.localhub.state import (
    AppInstallation,
    CheckRun,
    CheckSuite,
    CommitStatus,
    Issue,
    Pull,
    Repo,
    User,
    node_id,
    stamp,
)

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

Json = dict[str, Any]

NO_COMMIT = "0" * 40


def send_issue_event(hub: LocalHub, one: Issue, action: str, by: User, **more: Any) -> None:
    """Send `issues` with `action`, or `pull_request` for a pull request."""
    if isinstance(one, Pull):
        shape = pulls.pull(hub.url, one, hub.pull_facts(one))
        parts = {"number": one.number, "pull_request": shape, **more}
        emit(hub, "pull_request", one.repo, by, {"action": action, **parts})
    else:
        parts = {"issue": issue_shape(hub.url, one), **more}
        emit(hub, "issues", one.repo, by, {"action": action, **parts})


def send_check_event(hub: LocalHub, repo: Repo, run: CheckRun, action: str, by: User) -> None:
    """Send `check_run`, created or completed."""
    app = people.app(hub.url, hub.app, repo.owner)
    shape = check_run(hub.url, repo, run, app)
    app = shape["app"]
    shape["check_suite"] = {
        "id": run.suite.id,
        "node_id": node_id("CS", run.suite.id),
        "head_branch": None,
        "head_sha": run.head_sha,
        "status": run.status,
        "conclusion": run.conclusion,
        "url": f"{repositories.api_url(hub.url, repo)}/check-suites/{run.suite.id}",
        "before": None,
        "after": run.head_sha,
        "pull_requests": shape["pull_requests"],
        "app": app,
        "created_at": stamp(run.suite.created_at),
        "updated_at": stamp(run.suite.updated_at),
    }
    emit(hub, "check_run", repo, by, {"action": action, "check_run": shape})


def send_suite_event(hub: LocalHub, repo: Repo, suite: CheckSuite, action: str, by: User) -> None:
    """Send `check_suite`, completed."""
    runs = [run for run in repo.check_runs if run.suite is suite]
    app = check_run(hub.url, repo, runs[0], people.app(hub.url, hub.app, repo.owner))["app"]
    shape = check_suite(hub.url, repo, suite, runs, repo.git.read_commits([suite.head_sha])[0], app)
    emit(hub, "check_suite", repo, by, {"action": action, "check_suite": shape})


def send_status_event(hub: LocalHub, repo: Repo, one: CommitStatus, head: Json) -> None:
    """Send `status`; `head` is the commit's JSON."""
    branches = [
        {"name": name, "protected": False, "commit": {"sha": one.sha, "url": head["url"]}}
        for name, sha in repo.git.list_refs("refs/heads/").items()
        if sha == one.sha
    ]
    shape = status(hub.url, repo, one)
    payload = {
        **{key: shape[key] for key in ("id", "state", "description", "target_url", "context")},
        **{key: shape[key] for key in ("created_at", "updated_at", "avatar_url")},
        "sha": one.sha,
        "name": repo.full_name,
        "commit": head,
        "branches": branches,
    }
    emit(hub, "status", repo, one.author, payload)


def push_payload(hub: LocalHub, repo: Repo, ref: str, before: str, after: str, by: User) -> Json:
    """The payload of `push`: a branch or tag moved, or was created or deleted (SHA of zeros)."""
    created, deleted = before == NO_COMMIT, after == NO_COMMIT
    commits: list[Commit] = []
    if not deleted:
        base = repo.default_branch if created else before
        commits = [] if created and repo.git.resolve(base) == after else repo.git.log(
            after, without=base, limit=20
        )[::-1]  # fmt: skip
    head = repo.git.read_commits([after])[0] if not deleted else None
    page = f"{hub.url}/{repo.full_name}"
    return {
        "ref": ref,
        "before": before,
        "after": after,
        "base_ref": None,
        "created": created,
        "deleted": deleted,
        "forced": False,
        "compare": f"{page}/compare/{before[:12]}...{after[:12]}",
        "commits": [_commit_payload(page, one) for one in commits],
        "head_commit": _commit_payload(page, head) if head else None,
        "pusher": {"name": by.login, "email": f"{by.login}@users.noreply.github.com"},
    }


def emit(hub: LocalHub, event: str, repo: Repo, by: User, payload: Json) -> None:
    """Send an event if the App has access to the repository and subscribes to the event."""
    one = repo.installation
    if one is None or event not in hub.app.events:
        return
    shape = repositories.repository(hub.url, repo)
    if event == "push":
        shape |= {
            "owner": {**shape["owner"], "name": repo.owner.login, "email": None},
            "created_at": int(repo.created_at.timestamp()),
            "pushed_at": int(repo.pushed_at.timestamp()),
            "url": shape["html_url"],
            "stargazers": 0,
            "master_branch": repo.default_branch,
        }
    hub.webhooks.send(
        event,
        {
            **payload,
            "repository": shape,
            "sender": people.user(hub.url, by),
            "installation": {"id": one.id, "node_id": node_id("MDIz", one.id)},
        },
    )


def send_installation_event(hub: LocalHub, one: AppInstallation, action: str, by: User) -> None:
    """Send `installation`, created or deleted."""
    payload = {
        "action": action,
        "installation": people.installation(hub.url, hub.app, one),
        "repositories": [repo_summary(repo) for repo in one.repos],
        "requester": None,
        "sender": people.user(hub.url, by),
    }
    hub.webhooks.send("installation", payload)


def send_selection_event(
    hub: LocalHub, one: AppInstallation, by: User, added: list[Repo], removed: list[Repo]
) -> None:
    """Send `installation_repositories`: the account's owner changed the selection."""
    payload = {
        "action": "added" if added else "removed",
        "installation": people.installation(hub.url, hub.app, one),
        "repository_selection": "selected",
        "repositories_added": [repo_summary(repo) for repo in added],
        "repositories_removed": [repo_summary(repo) for repo in removed],
        "requester": None,
        "sender": people.user(hub.url, by),
    }
    hub.webhooks.send("installation_repositories", payload)


def send_ping(hub: LocalHub) -> None:
    """Send `ping`, as GitHub does when a webhook is set up."""
    app_id = hub.app.app_id
    hook = {
        "type": "App",
        "id": app_id + 1000,
        "name": "web",
        "active": True,
        "events": list(hub.app.events),
        "config": {
            "content_type": "json",
            "insecure_ssl": "0",
            "secret": "********",
            "url": hub.webhook_url or f"{hub.url}/nowhere",
        },
        "created_at": people.CREATED,
        "updated_at": people.CREATED,
        "app_id": app_id,
        "deliveries_url": f"{hub.url}/api/v3/app/hook/deliveries",
    }
    zen = "Non-blocking is better than blocking."
    hub.webhooks.send("ping", {"zen": zen, "hook_id": app_id + 1000, "hook": hook})


def repo_summary(repo: Repo) -> Json:
    """A repository as it appears in the payloads of installations."""
    return {
        "id": repo.id,
        "node_id": node_id("R", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
    }


def _commit_payload(page: str, one: Commit) -> Json:
    people_ = {
        "author": {"name": one.author.name, "email": one.author.email},
        "committer": {"name": one.committer.name, "email": one.committer.email},
    }
    return {
        "id": one.sha,
        "tree_id": one.tree,
        "distinct": True,
        "message": one.message.rstrip("\n"),
        "timestamp": stamp(one.committer.at),
        "url": f"{page}/commit/{one.sha}",
        **people_,
        "added": [],
        "removed": [],
        "modified": [],
    }
