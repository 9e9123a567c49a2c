"""Check runs and check suites."""

from __future__ import annotations

from typing import Any

from bot.localhub.git.types import Commit
from bot.localhub.json.gitdata import simple_commit
from bot.localhub.json.repositories import api_url, minimal_repository
from bot.localhub.state import CheckRun, CheckSuite, CommitStatus, Repo, node_id, stamp

Json = dict[str, Any]


def check_run(url: str, repo: Repo, one: CheckRun, app: Json) -> Json:
    """`check-run`."""
    here = f"{api_url(url, repo)}/check-runs/{one.id}"
    page = f"{url}/{repo.full_name}/runs/{one.id}"
    if one.app:
        app = {**app, "id": app["id"] + 1, "slug": one.app, "name": one.app}
    return {
        "id": one.id,
        "node_id": node_id("CR", one.id),
        "head_sha": one.head_sha,
        "external_id": one.external_id,
        "url": here,
        "html_url": page,
        "details_url": one.details_url or page,
        "status": one.status,
        "conclusion": one.conclusion,
        "started_at": stamp(one.started_at) if one.started_at else None,
        "completed_at": stamp(one.completed_at) if one.completed_at else None,
        "name": one.name,
        "output": {
            "title": one.title,
            "summary": one.summary,
            "text": one.text,
            "annotations_count": len(one.annotations),
            "annotations_url": f"{here}/annotations",
        },
        "check_suite": {"id": one.suite.id},
        "app": app,
        "pull_requests": _pull_references(url, repo, one.head_sha),
    }


def check_suite(
    url: str, repo: Repo, one: CheckSuite, runs: list[CheckRun], head: Commit, app: Json
) -> Json:
    """`check-suite`; its state follows from its runs."""
    done = bool(runs) and all(run.status == "completed" for run in runs)
    here = f"{api_url(url, repo)}/check-suites/{one.id}"
    branch = next((p.head_ref for p in repo.pulls if p.head_sha == one.head_sha), None)
    return {
        "id": one.id,
        "node_id": node_id("CS", one.id),
        "head_branch": branch,
        "head_sha": one.head_sha,
        "status": "completed" if done else "queued",
        "conclusion": _suite_conclusion(runs) if done else None,
        "url": here,
        "before": head.parents[0] if head.parents else None,
        "after": one.head_sha,
        "pull_requests": _pull_references(url, repo, one.head_sha),
        "app": app,
        "repository": minimal_repository(url, repo),
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.updated_at),
        "head_commit": simple_commit(head),
        "latest_check_runs_count": len(runs),
        "check_runs_url": f"{here}/check-runs",
    }


def _suite_conclusion(runs: list[CheckRun]) -> str:
    order = ("action_required", "cancelled", "timed_out", "failure", "neutral", "skipped")
    reached = {run.conclusion for run in runs}
    return next((word for word in order if word in reached), "success")


def _pull_references(url: str, repo: Repo, sha: str) -> list[Json]:
    """Pull requests of the commit. GitHub omits those from forks."""
    base = {"id": repo.id, "url": api_url(url, repo), "name": repo.name}
    return [
        {
            "id": pull.id,
            "number": pull.number,
            "url": f"{api_url(url, repo)}/pulls/{pull.number}",
            "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": base},
            "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": base},
        }
        for pull in repo.pulls
        if pull.head_sha == sha and pull.state == "open" and pull.fork is None
    ]


def status(url: str, repo: Repo, one: CommitStatus) -> Json:
    """`simple-commit-status`."""
    return {
        "url": f"{api_url(url, repo)}/statuses/{one.sha}",
        "avatar_url": f"{url}/{one.author.login}.png",
        "id": one.id,
        "node_id": node_id("SC", one.id),
        "state": one.state,
        "description": one.description,
        "target_url": None,
        "context": one.context,
        "created_at": stamp(one.created_at),
        "updated_at": stamp(one.created_at),
    }


def status_summary(
    url: str, repo: Repo, sha: str, shown: list[Json], total: int, state: str
) -> Json:
    """`combined-commit-status`; `shown` is one page of `total` statuses."""
    here = f"{api_url(url, repo)}/commits/{sha}"
    return {
        "state": state,
        "statuses": shown,
        "sha": sha,
        "total_count": total,
        "repository": minimal_repository(url, repo),
        "commit_url": here,
        "url": f"{here}/status",
    }
