"""Begins the run that a label or an assignment asks for, found by a webhook or by the sweep."""

from __future__ import annotations

from bot.queue.nudges import Nudges
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from bot.triggers.label_events import SWEEP_PREFIX
from bot.triggers.requests import RunRequest, StartOutcome, StartResult
from bot.types import LabeledIssue, Run, StopReason


async def request_run(request: RunRequest, storage: Storage, nudges: Nudges) -> StartResult:
    """Begin the run and nudge a worker, or join the one that the issue has.

    Where that one is no answer (a plan where a fix is wanted, or it is being stopped), the request
    is queued until it ends.
    Raises redis-py's errors; asked again it does what is left to do.
    """
    runs = storage.runs
    latest = await runs.get_latest_readable(request.repo, request.issue)
    if latest is None or latest.status.final or await _can_join(latest, request, runs):
        return await runs.start(request, latest, nudges.build_first)
    if await runs.is_handled(request):
        return StartResult(StartOutcome.REPEATED, latest.id)
    await storage.requests.put(request)
    await runs.mark_handled(request, latest.id)
    return StartResult(StartOutcome.RUNNING, latest.id)


async def request_labeled_run(found: LabeledIssue, storage: Storage, nudges: Nudges) -> StartResult:
    """`request_run` for a label that we found at GitHub instead of in a webhook."""
    delivery = f"{SWEEP_PREFIX}{found.repo.full_name}-{found.issue}-{found.at.timestamp():.0f}"
    request = RunRequest(
        repo=found.repo,
        issue=found.issue,
        asked_by=found.actor,
        delivery=delivery,
        mode=found.mode,
        label=found.label,
        found_at=found.at,
    )
    return await request_run(request, storage, nudges)


async def _can_join(under_way: Run, request: RunRequest, runs: Runs) -> bool:
    """Whether the run does what the request asks for, and was not stopped before the request."""
    if under_way.mode is not request.mode:
        return False
    stop = under_way.stop or await runs.get_stop(under_way.id)
    if stop is None or stop.why is not StopReason.COMMAND or stop.at is None or request.at is None:
        return True
    return request.at <= stop.at
