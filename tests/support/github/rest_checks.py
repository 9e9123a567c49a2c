"""Check runs and statuses."""

from __future__ import annotations

import asyncio
from typing import Any

from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_checks import READ, WRITE, find_commit, find_run, resolve_commit
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import CheckRun
from tests.support.github import check_actions, git_json, repository_json
from tests.support.github.hub_state import CheckSuite, CommitStatus, hub_of


async def create_run(call: RestCall) -> RestResponse:
    _require_app(call)
    body = call.json()
    call.text("name", "CheckRun")
    sha = await find_commit(call)
    run = check_actions.create(hub_of(call), call.repo, sha, body, call.bearer.actor)
    return RestResponse(201, _run_json(call, run))


async def show_run(call: RestCall) -> RestResponse:
    return RestResponse(200, _run_json(call, find_run(call)))


async def change_run(call: RestCall) -> RestResponse:
    _require_app(call)
    run = find_run(call)
    check_actions.update(hub_of(call), call.repo, run, call.json(), call.bearer.actor)
    return RestResponse(200, _run_json(call, run))


async def list_annotations(call: RestCall) -> RestResponse:
    """The annotations, in their order of creation."""
    here = f"{call.repo.page_url}/blob"
    empty = {"start_column": None, "end_column": None, "title": None, "raw_details": None}
    run = find_run(call)
    return paginate(
        call,
        [
            {**empty, "blob_href": f"{here}/{run.head_sha}/{one['path']}", **one}
            for one in run.annotations
        ],
    )


async def list_suites(call: RestCall) -> RestResponse:
    sha = await resolve_commit(call)
    hub, head = hub_of(call), await asyncio.to_thread(call.repo.git.read_commit, sha)
    shown: list[dict[str, Any]] = []
    for suite in hub.suites[call.repo.id]:
        if suite.head_sha == sha:
            runs = hub.runs_of(call.repo, suite)
            app = _app_json(call)
            shown.append(git_json.check_suite(call.repo, suite, runs, head, app))
    return paginate(call, shown, wrap="check_suites")


async def create_suite(call: RestCall) -> RestResponse:
    """Create the App's suite of a commit (201), or show it (200)."""
    _require_app(call)
    sha, hub = await find_commit(call), hub_of(call)
    suite = check_actions.find_own_suite(hub, call.repo, sha)
    status = 200 if suite else 201
    if suite is None:
        suite = CheckSuite(hub.next_id(), sha)
        hub.suites[call.repo.id].append(suite)
    head = await asyncio.to_thread(call.repo.git.read_commit, sha)
    runs = hub.runs_of(call.repo, suite)
    shape = git_json.check_suite(call.repo, suite, runs, head, _app_json(call))
    return RestResponse(status, shape)


async def set_preferences(call: RestCall) -> RestResponse:
    """Switch the automatic suites of the App on or off."""
    _require_app(call)
    hub = hub_of(call)
    for one in call.json().get("auto_trigger_checks", []):
        if one["app_id"] != call.state.app.app_id:
            raise Refusal(422, "You may only change the preferences of your own App.")
        change = hub.without_suites.discard if one["setting"] else hub.without_suites.add
        change(call.repo.id)
    own = {"app_id": call.state.app.app_id, "setting": call.repo.id not in hub.without_suites}
    shape = repository_json.minimal_repository(call.repo)
    body = {"preferences": {"auto_trigger_checks": [own]}, "repository": shape}
    return RestResponse(200, body)


def _require_app(call: RestCall) -> None:
    if call.bearer.installation is None:
        raise Refusal(403, "You must authenticate via a GitHub App.")


def _app_json(call: RestCall) -> dict[str, Any]:
    return repository_json.app(call.state.app, call.state.bot)


def _run_json(call: RestCall, run: CheckRun) -> dict[str, Any]:
    return call.shapes.check_run(call.repo, run, call.state.app)


async def show_status(call: RestCall) -> RestResponse:
    """The latest status of each context. Without any, the state is "pending", as on GitHub."""
    sha = await asyncio.to_thread(call.repo.git.resolve, call.parts["ref"])
    if sha is None:
        raise not_found()
    found = latest(hub_of(call).statuses[call.repo.id], sha)
    page = paginate(call, [git_json.status(call.repo, one) for one in found])
    body = git_json.status_summary(call.repo, sha, page.body, len(found), _overall_state(found))
    return RestResponse(200, body, page.headers)


def latest(every: list[CommitStatus], sha: str) -> list[CommitStatus]:
    """The latest status of each context."""
    return list({one.context: one for one in every if one.sha == sha}.values())


def _overall_state(found: list[CommitStatus]) -> str:
    states = {one.state for one in found}
    if states & {"error", "failure"}:
        return "failure"
    return "success" if states == {"success"} else "pending"


OPERATIONS = (
    operation("POST", REPO + "/check-suites", create_suite, WRITE),
    operation("PATCH", REPO + "/check-suites/preferences", set_preferences, WRITE),
    operation("POST", REPO + "/check-runs", create_run, WRITE),
    operation("GET", REPO + "/check-runs/{run}", show_run, READ),
    operation("PATCH", REPO + "/check-runs/{run}", change_run, WRITE),
    operation("GET", REPO + "/check-runs/{run}/annotations", list_annotations, READ),
    operation("GET", REPO + "/commits/{ref...}/check-suites", list_suites, READ),
    operation("GET", REPO + "/commits/{ref...}/status", show_status, "statuses:read"),
)
