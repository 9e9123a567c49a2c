"""Check runs. Nobody but the App reports on a commit here."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, cast

from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import CheckRun, now

READ = "checks:read"
WRITE = "checks:write"

Json = dict[str, Any]


async def create_run(call: RestCall) -> RestResponse:
    run = CheckRun(
        call.state.next_id(), name="", head_sha=await find_commit(call), started_at=now()
    )
    apply_fields(run, call.json())
    call.repo.check_runs.append(run)
    return RestResponse(201, call.shapes.check_run(call.repo, run, call.state.app))


async def change_run(call: RestCall) -> RestResponse:
    run = find_run(call)
    apply_fields(run, call.json())
    return RestResponse(200, call.shapes.check_run(call.repo, run, call.state.app))


async def list_runs(call: RestCall) -> RestResponse:
    """The check runs of a commit: the latest of each name, unless `filter=all`."""
    sha = await resolve_commit(call)
    name, status = call.query.get("check_name"), call.query.get("status")
    found = [
        run
        for run in call.repo.check_runs
        if run.head_sha == sha and name in (None, run.name) and status in (None, run.status)
    ]
    if call.query.get("filter", "latest") == "latest":
        found = list({run.name: run for run in found}.values())
    shown = [call.shapes.check_run(call.repo, run, call.state.app) for run in found]
    return paginate(call, shown, wrap="check_runs")


async def list_others(call: RestCall) -> RestResponse:
    """The check suites or statuses of a commit: only other services would have some."""
    await resolve_commit(call)
    return paginate(call, [], wrap="check_suites" if "check-suites" in call.path else "statuses")


async def set_preferences(call: RestCall) -> RestResponse:
    """Accept what the App prefers: no suites are made here in any case."""
    return RestResponse(200, {"preferences": call.json()})


async def find_commit(call: RestCall) -> str:
    """The commit in the body.

    Raises:
        Refusal: there is none (422).
    """
    asked = call.text("head_sha", "CheckRun")
    sha = await asyncio.to_thread(call.repo.git.resolve, asked)
    if sha is None or sha != asked:
        raise Refusal(422, f"No commit found for SHA: {asked}")
    return sha


async def resolve_commit(call: RestCall) -> str:
    """The commit in the path.

    Raises:
        Refusal: there is none (422).
    """
    sha = await asyncio.to_thread(call.repo.git.resolve, call.parts["ref"])
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {call.parts['ref']}")
    return sha


def find_run(call: RestCall) -> CheckRun:
    """The check run in the path.

    Raises:
        Refusal: there is none (404).
    """
    number = call.number("run")
    run = next((run for run in call.repo.check_runs if run.id == number), None)
    if run is None:
        raise not_found()
    return run


def apply_fields(run: CheckRun, fields: Json) -> None:
    """Set what the body has."""
    status, conclusion = fields.get("status"), fields.get("conclusion")
    run.name = str(fields.get("name") or run.name)
    run.details_url = fields.get("details_url", run.details_url)
    run.external_id = str(fields.get("external_id", run.external_id))
    run.started_at = _parse_time(fields.get("started_at")) or run.started_at
    output = cast("Json", fields.get("output") or {})
    run.title = output.get("title", run.title)
    run.summary = output.get("summary", run.summary)
    run.text = output.get("text", run.text)
    run.annotations = [*run.annotations, *output.get("annotations", [])]
    if conclusion is not None:
        run.status, run.conclusion = "completed", conclusion
        run.completed_at = _parse_time(fields.get("completed_at")) or now()
    elif status is not None:
        run.status = status
        if status != "completed":
            run.conclusion, run.completed_at = None, None


def _parse_time(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


OPERATIONS = (
    operation("PATCH", REPO + "/check-suites/preferences", set_preferences, WRITE),
    operation("POST", REPO + "/check-runs", create_run, WRITE),
    operation("PATCH", REPO + "/check-runs/{run}", change_run, WRITE),
    operation("GET", REPO + "/commits/{ref...}/check-runs", list_runs, READ),
    operation("GET", REPO + "/commits/{ref...}/check-suites", list_others, READ),
    operation("GET", REPO + "/commits/{ref...}/status", list_others, "statuses:read"),
)
