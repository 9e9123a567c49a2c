"""The line in the log, and the samples, of a run's end."""

from __future__ import annotations

import logging

from structlog.contextvars import bound_contextvars

from bot.telemetry.histograms import RECORDER, RUN, RUN_DOLLARS
from bot.types import Run, RunStatus, now

logger = logging.getLogger(__name__)


def report_end(run: Run, cause: str) -> None:
    """Log one line with the run's status, the class of its failure and `cause`, and count it."""
    seconds = ((run.finished_at or now()) - (run.started_at or run.created_at)).total_seconds()
    RECORDER.add(RUN, seconds, run.status.value)
    RECORDER.add(RUN_DOLLARS, run.dollars, run.status.value)
    facts = {"status": run.status.value}
    if run.failure is not None:
        facts["failure"] = run.failure.value
    if cause and run.status is RunStatus.FAILED:
        facts["cause"] = cause
    level = logging.WARNING if run.status is RunStatus.FAILED else logging.INFO
    with bound_contextvars(**facts):
        logger.log(level, "Run %s ended after %.0f s and $%.2f", run.id, seconds, run.dollars)
