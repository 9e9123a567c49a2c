"""Check runs: create and update, with GitHub's rules on status, conclusion and output."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from bot.localhub import webhook_payloads
from bot.localhub.errors import Refusal
from bot.localhub.state import CheckRun, CheckSuite, Repo, User, now

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

Json = dict[str, Any]

STATUSES = ("queued", "in_progress", "completed")
CONCLUSIONS = (
    "action_required", "cancelled", "failure", "neutral", "skipped", "stale", "success",
    "timed_out",
)  # fmt: skip
MAX_TEXT = 65_535
MAX_ANNOTATIONS = 50


def create(hub: LocalHub, repo: Repo, sha: str, fields: Json, by: User) -> CheckRun:
    """Create a check run on the existing commit `sha`.

    Raises:
        Refusal: the fields are not valid (422).
    """
    suite = next((s for s in repo.check_suites if s.head_sha == sha), None)
    if suite is None:
        suite = CheckSuite(hub.next_id(), sha)
    run = CheckRun(hub.next_id(), suite, "", sha, started_at=now())
    _apply(run, fields)
    if suite not in repo.check_suites:
        repo.check_suites.append(suite)
    repo.check_runs.append(run)
    webhook_payloads.send_check_event(hub, repo, run, "created", by)
    if run.status == "completed":
        webhook_payloads.send_check_event(hub, repo, run, "completed", by)
    return run


def create_foreign(
    hub: LocalHub, repo: Repo, sha: str, app: str, fields: Json, by: User
) -> CheckRun:
    """Create the only check run of another App's suite; sends the suite's completion."""
    suite = CheckSuite(hub.next_id(), sha)
    run = CheckRun(hub.next_id(), suite, "", sha, started_at=now(), app=app)
    _apply(run, fields)
    repo.check_suites.append(suite)
    repo.check_runs.append(run)
    if run.status == "completed":
        webhook_payloads.send_suite_event(hub, repo, suite, "completed", by)
    return run


def update(hub: LocalHub, repo: Repo, run: CheckRun, fields: Json, by: User) -> None:
    """Update a check run.

    Raises:
        Refusal: the fields are not valid (422).
    """
    before = run.status
    _apply(run, fields)
    run.suite.updated_at = now()
    if run.status == "completed" and before != "completed":
        webhook_payloads.send_check_event(hub, repo, run, "completed", by)


def _apply(run: CheckRun, fields: Json) -> None:
    status, conclusion = fields.get("status"), fields.get("conclusion")
    if status is not None and status not in STATUSES:
        raise _invalid_value("status")
    if conclusion is not None and conclusion not in CONCLUSIONS:
        raise _invalid_value("conclusion")
    if status == "completed" and conclusion is None and run.conclusion is None:
        raise Refusal(422, "Invalid request.\n\nMissing required key: conclusion")
    _check_output(fields)
    run.name = str(fields.get("name") or run.name)
    run.details_url = fields.get("details_url", run.details_url)
    run.external_id = str(fields.get("external_id", run.external_id))
    run.started_at = _parse_time(fields.get("started_at")) or run.started_at
    _apply_output(run, fields)
    if conclusion is not None:
        run.status, run.conclusion = "completed", conclusion
        run.completed_at = _parse_time(fields.get("completed_at")) or now()
    elif status is not None:
        run.status = status
        if status != "completed":
            run.conclusion, run.completed_at = None, None


def _apply_output(run: CheckRun, fields: Json) -> None:
    output = cast("Json", fields.get("output") or {})
    run.title = output.get("title", run.title)
    run.summary = output.get("summary", run.summary)
    run.text = output.get("text", run.text)
    run.annotations = [*run.annotations, *output.get("annotations", [])]


def _check_output(fields: Json) -> None:
    output = fields.get("output")
    if output is None:
        return
    if not isinstance(output, dict) or "summary" not in output:
        raise _invalid_value("output")
    shown = cast("Json", output)
    if any(len(shown.get(key) or "") > MAX_TEXT for key in ("summary", "text")):
        raise Refusal(422, "Invalid request.\n\nOnly 65535 characters are allowed; more were "
                      "supplied.")  # fmt: skip
    if len(shown.get("annotations", [])) > MAX_ANNOTATIONS:
        raise Refusal(422, "Invalid request.\n\nNo more than 50 items are allowed.")


def _parse_time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _invalid_value("started_at") from None


def _invalid_value(field: str) -> Refusal:
    return Refusal(422, f"Invalid request.\n\n{field} is not a permitted value")
