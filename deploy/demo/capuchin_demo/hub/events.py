"""The payloads of webhook events."""

from typing import Any

from capuchin_demo.hub import repository_json
from capuchin_demo.hub.git_json import check_run, check_suite, runs_of, status
from capuchin_demo.hub.git_repository import Commit
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.state import (
    AppInstallation,
    CheckRun,
    CheckSuite,
    CommitStatus,
    Repo,
    User,
    node_id,
    stamp,
)

Json = dict[str, Any]

NO_COMMIT = "0" * 40


def send_check_event(state: State, repo: Repo, run: CheckRun, action: str, by: User) -> None:
    """Send `check_run`, created or completed."""
    app = repository_json.app(state.app, repo.owner)
    suite = run.suite
    shape = check_run(repo, run, app)
    app = shape["app"]
    shape["check_suite"] = {
        "id": suite.id,
        "node_id": node_id("CS", suite.id),
        "head_branch": None,
        "head_sha": run.head_sha,
        "status": run.status,
        "conclusion": run.conclusion,
        "url": f"{repo.api_url}/check-suites/{suite.id}",
        "before": None,
        "after": run.head_sha,
        "pull_requests": shape["pull_requests"],
        "app": app,
        "created_at": stamp(suite.created_at),
        "updated_at": stamp(suite.updated_at),
    }
    state.emit("check_run", repo, by, {"action": action, "check_run": shape})


def send_suite_event(state: State, repo: Repo, suite: CheckSuite, action: str, by: User) -> None:
    """Send `check_suite`: requested, rerequested or completed."""
    runs = runs_of(repo, suite)
    app = repository_json.app(state.app, repo.owner)
    (head,) = repo.git.read_commits([suite.head_sha])
    shape = check_suite(repo, suite, runs, head, app)
    state.emit("check_suite", repo, by, {"action": action, "check_suite": shape})


def send_status_event(state: State, repo: Repo, one: CommitStatus, head: Json) -> None:
    """Send `status`; `head` is the commit's JSON."""
    branches = [
        {"name": name, "protected": False, "commit": {"sha": one.sha, "url": head["url"]}}
        for name, sha in repo.git.list_refs("refs/heads/").items()
        if sha == one.sha
    ]
    shape = status(repo, one)
    payload = {
        **{key: shape[key] for key in ("id", "state", "description", "target_url", "context")},
        **{key: shape[key] for key in ("created_at", "updated_at", "avatar_url")},
        "sha": one.sha,
        "name": repo.full_name,
        "commit": head,
        "branches": branches,
    }
    state.emit("status", repo, one.author, payload)


def push_payload(repo: Repo, ref: str, before: str, after: str, by: User) -> Json:
    """The payload of `push`: a branch or tag moved, or was created or deleted (SHA of zeros)."""
    created, deleted = before == NO_COMMIT, after == NO_COMMIT
    commits: list[Commit] = []
    if not deleted:
        base = repo.default_branch if created else before
        commits = [] if created and repo.git.resolve(base) == after else repo.git.log(
            after, without=base, limit=20
        )[::-1]  # fmt: skip
    head = repo.git.read_commits([after])[0] if not deleted else None
    page = repo.page_url
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
        "repository": _pushed_repository(repo),
    }


def _pushed_repository(repo: Repo) -> Json:
    shape = repository_json.repository(repo)
    return shape | {
        "owner": {**shape["owner"], "name": repo.owner.login, "email": None},
        "created_at": int(repo.created_at.timestamp()),
        "pushed_at": int(repo.pushed_at.timestamp()),
        "url": shape["html_url"],
        "stargazers": 0,
        "master_branch": repo.default_branch,
    }


def send_installation_event(state: State, one: AppInstallation, action: str, by: User) -> None:
    """Send `installation`: created, deleted, suspend or unsuspend."""
    payload = {
        "action": action,
        "installation": repository_json.installation(state.app, one),
        "repositories": [repo_summary(repo) for repo in one.repos],
        "requester": None,
        "sender": repository_json.user(by),
    }
    state.webhooks.send("installation", payload)


def send_repository_event(state: State, repo: Repo, action: str, by: User, **more: Any) -> None:
    """Send `repository`; `more` is what changed."""
    state.emit("repository", repo, by, {"action": action, **more})


def send_selection_event(
    state: State, one: AppInstallation, by: User, added: list[Repo], removed: list[Repo]
) -> None:
    """Send `installation_repositories`: the account's owner changed the selection."""
    payload = {
        "action": "added" if added else "removed",
        "installation": repository_json.installation(state.app, one),
        "repository_selection": "selected",
        "repositories_added": [repo_summary(repo) for repo in added],
        "repositories_removed": [repo_summary(repo) for repo in removed],
        "requester": None,
        "sender": repository_json.user(by),
    }
    state.webhooks.send("installation_repositories", payload)


def send_ping(state: State) -> None:
    """Send `ping`, as GitHub does when a webhook is set up."""
    app_id = state.app.app_id
    hook = {
        "type": "App",
        "id": app_id + 1000,
        "name": "web",
        "active": True,
        "events": list(state.app.events),
        "config": {
            "content_type": "json",
            "insecure_ssl": "0",
            "secret": "********",
            "url": state.webhooks.url or f"{state.url}/nowhere",
        },
        "created_at": repository_json.CREATED,
        "updated_at": repository_json.CREATED,
        "app_id": app_id,
        "deliveries_url": f"{state.url}/api/v3/app/hook/deliveries",
    }
    zen = "Non-blocking is better than blocking."
    state.webhooks.send("ping", {"zen": zen, "hook_id": app_id + 1000, "hook": hook})


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
