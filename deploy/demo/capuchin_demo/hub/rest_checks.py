"""Check runs, suites and statuses."""

import asyncio
from typing import Any

from capuchin_demo.hub import check_actions, git_json, repository_json
from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import CheckRun, CheckSuite, CommitStatus

READ = "checks:read"
WRITE = "checks:write"


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
    shown = [git_json.check_run(call.repo, run, call.state.app_json) for run in found]
    return paginate(call, shown, wrap="check_runs")


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


async def create_run(call: RestCall) -> RestResponse:
    _require_app(call)
    body = call.json()
    call.text("name", "CheckRun")
    sha = await find_commit(call)
    run = check_actions.create(call.state, call.repo, sha, body, call.bearer.actor)
    return RestResponse(201, git_json.check_run(call.repo, run, call.state.app_json))


async def change_run(call: RestCall) -> RestResponse:
    _require_app(call)
    run = find_run(call)
    check_actions.update(call.state, call.repo, run, call.json(), call.bearer.actor)
    return RestResponse(200, git_json.check_run(call.repo, run, call.state.app_json))


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
    head = await asyncio.to_thread(call.repo.git.read_commit, sha)
    shown: list[dict[str, Any]] = []
    for suite in call.repo.suites:
        if suite.head_sha == sha:
            runs = git_json.runs_of(call.repo, suite)
            app = call.state.app_json
            shown.append(git_json.check_suite(call.repo, suite, runs, head, app))
    return paginate(call, shown, wrap="check_suites")


async def create_suite(call: RestCall) -> RestResponse:
    """Create the App's suite of a commit (201), or show it (200)."""
    _require_app(call)
    sha = await find_commit(call)
    suite = check_actions.find_own_suite(call.repo, sha)
    status = 200 if suite else 201
    if suite is None:
        suite = CheckSuite(call.state.next_id(), sha)
        call.repo.suites.append(suite)
    head = await asyncio.to_thread(call.repo.git.read_commit, sha)
    runs = git_json.runs_of(call.repo, suite)
    shape = git_json.check_suite(call.repo, suite, runs, head, call.state.app_json)
    return RestResponse(status, shape)


async def set_preferences(call: RestCall) -> RestResponse:
    """Switch the automatic suites of the App on or off."""
    _require_app(call)
    for one in call.json().get("auto_trigger_checks", []):
        if one["app_id"] != call.state.app.app_id:
            raise Refusal(422, "You may only change the preferences of your own App.")
        call.repo.makes_suites = bool(one["setting"])
    own = {"app_id": call.state.app.app_id, "setting": call.repo.makes_suites}
    shape = repository_json.minimal_repository(call.repo)
    body = {"preferences": {"auto_trigger_checks": [own]}, "repository": shape}
    return RestResponse(200, body)


def _require_app(call: RestCall) -> None:
    if call.bearer.installation is None:
        raise Refusal(403, "You must authenticate via a GitHub App.")


async def show_status(call: RestCall) -> RestResponse:
    """The latest status of each context. Without any, the state is "pending", as on GitHub."""
    sha = await asyncio.to_thread(call.repo.git.resolve, call.parts["ref"])
    if sha is None:
        raise not_found()
    found = latest(call.repo.statuses, sha)
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
    operation("PATCH", REPO + "/check-runs/{run}", change_run, WRITE),
    operation("GET", REPO + "/check-runs/{run}/annotations", list_annotations, READ),
    operation("GET", REPO + "/commits/{ref...}/check-suites", list_suites, READ),
    operation("GET", REPO + "/commits/{ref...}/status", show_status, "statuses:read"),
    operation("GET", REPO + "/commits/{ref...}/check-runs", list_runs, READ),
)
