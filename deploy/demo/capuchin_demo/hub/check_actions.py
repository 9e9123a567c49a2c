"""Check runs, and simulated CI."""

import asyncio
from datetime import datetime
from typing import Any, Literal, cast

from capuchin_demo.hub import events, git_json
from capuchin_demo.hub.github_errors import Refusal
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.state import CheckRun, CheckSuite, CommitStatus, Pull, Repo, User, now

Json = dict[str, Any]

CONCLUSIONS = (
    "action_required", "cancelled", "failure", "neutral", "skipped", "stale", "success",
    "timed_out",
)  # fmt: skip


def create(state: State, repo: Repo, sha: str, fields: Json, by: User) -> CheckRun:
    """Create a check run on the existing commit `sha`.

    Raises:
        Refusal: the fields are not valid, or the commit has no suite and gets none (422).
    """
    suite = find_own_suite(repo, sha)
    if suite is None and not repo.makes_suites:
        # Once it is switched off, "you can manually Create a check suite": nobody else does.
        raise Refusal(422, "Invalid request.\n\nNo check suite exists for this commit.")
    suite = suite or CheckSuite(state.next_id(), sha)
    run = CheckRun(state.next_id(), suite, "", sha, started_at=now())
    _apply_valid(run, fields)
    if suite not in repo.suites:
        repo.suites.append(suite)
    repo.check_runs.append(run)
    events.send_check_event(state, repo, run, "created", by)
    if run.status == "completed":
        events.send_check_event(state, repo, run, "completed", by)
    return run


def create_foreign(
    state: State, repo: Repo, sha: str, app: str, fields: Json, by: User, log: str = ""
) -> CheckRun:
    """Create the only check run of another App's suite; sends the suite's completion."""
    queued = _find_queued(repo, sha, app)
    suite = queued or CheckSuite(state.next_id(), sha, app)
    run = CheckRun(state.next_id(), suite, "", sha, started_at=now(), log=log)
    _apply_valid(run, fields)
    if queued is None:
        repo.suites.append(suite)
    repo.check_runs.append(run)
    if run.status == "completed":
        events.send_suite_event(state, repo, suite, "completed", by)
    return run


def _find_queued(repo: Repo, sha: str, app: str) -> CheckSuite | None:
    """The suite that GitHub made for the App when `sha` was pushed, while it is empty."""
    used = {run.suite.id for run in repo.check_runs}
    return next(
        (s for s in repo.suites if (s.head_sha, s.app) == (sha, app) and s.id not in used), None
    )


def queue_suite(state: State, pull: Pull, app: str = "ci") -> CheckSuite:
    """What GitHub does at a push for each App that may write checks: a queued suite, yet empty.

    docs.github.com/rest/guides/using-the-rest-api-to-interact-with-checks
    """
    suite = CheckSuite(state.next_id(), pull.head_sha, app)
    pull.repo.suites.append(suite)
    return suite


def queue_own_suite(state: State, repo: Repo, sha: str, by: User) -> None:
    """The same for this hub's App, which hears of it, unless its preferences there say no."""
    one = repo.installation
    wanted = one is not None and one.permissions.get("checks") == "write" and repo.makes_suites
    if wanted and find_own_suite(repo, sha) is None:
        suite = CheckSuite(state.next_id(), sha)
        repo.suites.append(suite)
        events.send_suite_event(state, repo, suite, "requested", by)


def find_own_suite(repo: Repo, sha: str) -> CheckSuite | None:
    """The suite of this hub's App on a commit."""
    return next((s for s in repo.suites if s.head_sha == sha and not s.app), None)


def update(state: State, repo: Repo, run: CheckRun, fields: Json, by: User) -> None:
    """Update a check run.

    Raises:
        Refusal: the fields are not valid (422).
    """
    before = run.status
    _apply_valid(run, fields)
    run.suite.updated_at = now()
    if run.status == "completed" and before != "completed":
        events.send_check_event(state, repo, run, "completed", by)


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


def _apply_valid(run: CheckRun, fields: Json) -> None:
    status, conclusion = fields.get("status"), fields.get("conclusion")
    if status is not None and status not in ("queued", "in_progress", "completed"):
        raise _invalid_value("status")
    if conclusion is not None and conclusion not in CONCLUSIONS:
        raise _invalid_value("conclusion")
    if status == "completed" and conclusion is None and run.conclusion is None:
        raise Refusal(422, "Invalid request.\n\nMissing required key: conclusion")
    _check_output(fields)
    try:
        apply_fields(run, fields)
    except ValueError:
        raise _invalid_value("started_at") from None


def _check_output(fields: Json) -> None:
    output = fields.get("output")
    if output is None:
        return
    if not isinstance(output, dict) or "summary" not in output:
        raise _invalid_value("output")
    shown = cast("Json", output)
    if any(len(shown.get(key) or "") > 65_535 for key in ("summary", "text")):
        raise Refusal(422, "Invalid request.\n\nOnly 65535 characters are allowed; more were "
                      "supplied.")  # fmt: skip
    if len(shown.get("annotations", [])) > 50:
        raise Refusal(422, "Invalid request.\n\nNo more than 50 items are allowed.")


def _invalid_value(field: str) -> Refusal:
    return Refusal(422, f"Invalid request.\n\n{field} is not a permitted value")


StatusState = Literal["error", "failure", "pending", "success"]


async def report_check(
    state: State,
    pull: Pull,
    conclusion: str | None,
    *,
    name: str = "tests",
    app: str = "ci",
    log: str = "",
    **extra: object,
) -> CheckRun:
    """Report another App's only check run on the pull request's head; no conclusion: it runs."""
    status = "completed" if conclusion else "in_progress"
    fields = {"name": name, "status": status, **extra}
    if conclusion:
        fields["conclusion"] = conclusion
    by = state.add_user("ci")
    run = create_foreign(state, pull.repo, pull.head_sha, app, fields, by, log=log)
    await state.wait_until_delivered()
    return run


async def report_again(state: State, pull: Pull, run: CheckRun, conclusion: str) -> None:
    """A job that was to run again ends."""
    _apply_valid(run, {"status": "completed", "conclusion": conclusion})
    events.send_suite_event(state, pull.repo, run.suite, "completed", state.add_user("ci"))
    await state.wait_until_delivered()


async def report_status(
    hub: State,
    pull: Pull,
    state: StatusState,
    *,
    context: str = "ci/tests",
    description: str | None = None,
) -> CommitStatus:
    """Report a commit status on the pull request's head, like a CI without check runs."""
    repo = pull.repo
    by = hub.add_user("ci")
    one = CommitStatus(hub.next_id(), pull.head_sha, context, state, description, by)
    repo.statuses.append(one)
    (head,) = await asyncio.to_thread(repo.git.read_commits, [one.sha])
    events.send_status_event(hub, repo, one, git_json.commit(repo, head, by))
    await hub.wait_until_delivered()
    return one


async def rerun(state: State, repo: Repo, run: CheckRun, by: str) -> None:
    """Press the re-run button of a check."""
    events.send_check_event(state, repo, run, "rerequested", state.add_user(by))
    await state.wait_until_delivered()


async def rerun_all(state: State, repo: Repo, run: CheckRun, by: str) -> None:
    """Press the button that re-runs all checks of the App of `run`."""
    events.send_suite_event(state, repo, run.suite, "rerequested", state.add_user(by))
    await state.wait_until_delivered()
