"""Builds and sends webhooks."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from capuchin_demo.hub import issue_json, repository_json
from capuchin_demo.hub.git_json import check_run, check_suite, status
from capuchin_demo.hub.git_repository import Commit
from capuchin_demo.hub.issue_json import issue as issue_shape
from capuchin_demo.hub.state import (
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
    from capuchin_demo.hub.hub import LocalHub


TIMEOUT_S = 10.0
"""https://docs.github.com/webhooks: a receiver has ten seconds to answer."""
ENTERPRISE_VERSION = "3.17.0"


@dataclass(eq=False)
class Delivery:
    """One webhook. `status` is the response's; None while it is pending, unsent or failed."""

    guid: str
    event: str
    action: str | None
    headers: dict[str, str]
    body: bytes = field(repr=False)
    status: int | None = None
    response: str = ""
    error: str = ""

    @property
    def payload(self) -> dict[str, Any]:
        """The body, parsed."""
        return json.loads(self.body)


def sign(secret: str, body: bytes) -> str:
    """The value of `X-Hub-Signature-256`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Webhooks:
    """Sends one webhook at a time, in order. Without `url` it only records them."""

    def __init__(self, secret: str, app_id: int) -> None:
        self.url: str | None = None
        self.enterprise_host = ""
        """The host name of this Enterprise Server; empty for github.com."""
        self.deliveries: list[Delivery] = []
        self._secret = secret
        self._app_id = app_id
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: httpx.AsyncClient | None = None

    def send(self, event: str, payload: dict[str, Any]) -> Delivery:
        """Start a delivery; `wait_until_idle` waits for it.

        With a `url`, this needs a running event loop.
        """
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        guid = str(uuid.uuid1())
        headers = self._headers(event, guid, body)
        return self._start(Delivery(guid, event, payload.get("action"), headers, body))

    def resend(self, old: Delivery) -> Delivery:
        """Send the same guid and bytes again, like GitHub's redeliver button."""
        return self._start(Delivery(old.guid, old.event, old.action, dict(old.headers), old.body))

    async def wait_until_idle(self) -> None:
        """Wait until no delivery is pending, including those that a response causes."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Cancel pending deliveries."""
        for task in self._tasks:
            task.cancel()
        await self.wait_until_idle()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _start(self, delivery: Delivery) -> Delivery:
        self.deliveries.append(delivery)
        if self.url is not None:
            task = asyncio.get_running_loop().create_task(self._post(self.url, delivery))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return delivery

    async def _post(self, url: str, delivery: Delivery) -> None:
        async with self._lock:
            if self._client is None:
                self._client = httpx.AsyncClient(
                    timeout=TIMEOUT_S,
                    trust_env=False,
                    verify=url.startswith("https:"),
                    # A kept connection may be about to be closed when the next webhook takes it.
                    limits=httpx.Limits(max_keepalive_connections=0),
                )
            try:
                answer = await self._client.post(
                    url, content=delivery.body, headers=delivery.headers
                )
            except httpx.HTTPError as failure:
                delivery.error = f"{type(failure).__name__}: {failure}"
            else:
                delivery.status, delivery.response = answer.status_code, answer.text

    def _headers(self, event: str, guid: str, body: bytes) -> dict[str, str]:
        sha1 = hmac.new(self._secret.encode(), body, hashlib.sha1).hexdigest()
        enterprise = {
            "X-GitHub-Enterprise-Host": self.enterprise_host,
            "X-GitHub-Enterprise-Version": ENTERPRISE_VERSION,
        }
        return {
            **(enterprise if self.enterprise_host else {}),
            "Accept": "*/*",
            "Content-Type": "application/json",
            "User-Agent": f"GitHub-Hookshot/{hashlib.sha256(guid.encode()).hexdigest()[:7]}",
            "X-GitHub-Delivery": guid,
            "X-GitHub-Event": event,
            "X-GitHub-Hook-ID": str(self._app_id + 1000),
            "X-GitHub-Hook-Installation-Target-ID": str(self._app_id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            "X-Hub-Signature": f"sha1={sha1}",
            "X-Hub-Signature-256": sign(self._secret, body),
        }


Json = dict[str, Any]

NO_COMMIT = "0" * 40


def send_issue_event(hub: LocalHub, one: Issue, action: str, by: User, **more: Any) -> None:
    """Send `issues` with `action`, or `pull_request` for a pull request."""
    if isinstance(one, Pull):
        shape = issue_json.pull(hub.url, one, hub.pull_facts(one))
        parts = {"number": one.number, "pull_request": shape, **more}
        emit(hub, "pull_request", one.repo, by, {"action": action, **parts})
    else:
        parts = {"issue": issue_shape(hub.url, one), **more}
        emit(hub, "issues", one.repo, by, {"action": action, **parts})


def send_check_event(hub: LocalHub, repo: Repo, run: CheckRun, action: str, by: User) -> None:
    """Send `check_run`, created or completed."""
    app = repository_json.app(hub.url, hub.app, repo.owner)
    shape = check_run(hub.url, repo, run, app)
    app = shape["app"]
    shape["check_suite"] = {
        "id": run.suite.id,
        "node_id": node_id("CS", run.suite.id),
        "head_branch": None,
        "head_sha": run.head_sha,
        "status": run.status,
        "conclusion": run.conclusion,
        "url": f"{repository_json.api_url(hub.url, repo)}/check-suites/{run.suite.id}",
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
    app = check_run(hub.url, repo, runs[0], repository_json.app(hub.url, hub.app, repo.owner))[
        "app"
    ]
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
    shape = repository_json.repository(hub.url, repo)
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
            "sender": repository_json.user(hub.url, by),
            "installation": {"id": one.id, "node_id": node_id("MDIz", one.id)},
        },
    )


def send_installation_event(hub: LocalHub, one: AppInstallation, action: str, by: User) -> None:
    """Send `installation`, created or deleted."""
    payload = {
        "action": action,
        "installation": repository_json.installation(hub.url, hub.app, one),
        "repositories": [repo_summary(repo) for repo in one.repos],
        "requester": None,
        "sender": repository_json.user(hub.url, by),
    }
    hub.webhooks.send("installation", payload)


def send_selection_event(
    hub: LocalHub, one: AppInstallation, by: User, added: list[Repo], removed: list[Repo]
) -> None:
    """Send `installation_repositories`: the account's owner changed the selection."""
    payload = {
        "action": "added" if added else "removed",
        "installation": repository_json.installation(hub.url, hub.app, one),
        "repository_selection": "selected",
        "repositories_added": [repo_summary(repo) for repo in added],
        "repositories_removed": [repo_summary(repo) for repo in removed],
        "requester": None,
        "sender": repository_json.user(hub.url, by),
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
        "created_at": repository_json.CREATED,
        "updated_at": repository_json.CREATED,
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
