"""The runs as JSON, for programs of the operator: `GET /api/runs`."""

from datetime import datetime

from bot.data.run import Mode, Run
from bot.server.run_list import RunListing, state_of
from sandbox.frozen import Frozen


class RunRow(Frozen):
    """One run. Fields are added, and none changes its meaning."""

    id: str
    repository: str
    issue: int
    mode: Mode
    state: str
    """As in the list of runs: `queued`, `running`, `opened pull request`, `no fix`, …"""
    asked_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    dollars: float
    """At list prices."""
    confidence: float | None
    """The estimated probability that the edit is right; null without one."""
    pull_request: int | None
    pull_request_url: str
    reason: str
    """For `no fix`, the pipeline's reason, for `failed` the failure, and for `use` that was
    refused why; else empty."""


class RunRows(Frozen):
    """One page of the list."""

    runs: tuple[RunRow, ...]
    page: int
    pages: int
    found: int
    """How many runs match, on all pages."""


def to_rows(listing: RunListing, page: int) -> RunRows:
    """The page `page` of the list."""
    rows = tuple(map(_to_row, listing.runs))
    return RunRows(runs=rows, page=page, pages=listing.pages, found=listing.found)


def _to_row(run: Run) -> RunRow:
    state = state_of(run)
    reason = run.failure or run.no_fix or run.swap_problem or ""
    same = {name: getattr(run, name) for name in RunRow.model_fields if name in Run.model_fields}
    return RunRow(**same, repository=run.repo.full_name, state=state, reason=reason)
