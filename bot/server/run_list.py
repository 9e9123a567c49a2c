"""The list of runs: which of them to show, and what the days looked like."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from urllib.parse import urlencode

from bot.comments.stats import MIN_FOR_RATE
from bot.types import Run, RunStatus, now

PER_PAGE: Final = 50
DAYS: Final = 30
WAITING: Final = "waiting"
"""For what does not answer; such a run is queued by its record."""
STATUS_WORDS: Final[Mapping[RunStatus, str]] = {
    RunStatus.FOLLOWED_UP: "followed up",
    RunStatus.SWAPPED: "edit replaced",
}
"""Where the record's word is not a person's."""
_ANSWERED: Final = (RunStatus.OPENED_PULL_REQUEST, RunStatus.NO_FIX)
_LONGEST: Final = 200


class RunFilter(NamedTuple):
    """What the list is narrowed to; an empty field takes every run. Untrusted."""

    repository: str = ""
    """`owner/name`, or a part of it."""
    state: str = ""
    person: str = ""
    day: date | None = None
    """When the run was asked for (UTC)."""
    page: int = 1

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> RunFilter:
        """From the address; what cannot be read is left out."""
        page = query.get("page", "")
        return cls(
            repository=_read(query, "repository"),
            state=_read(query, "state"),
            person=_read(query, "person").lstrip("@"),
            day=_parse_day(query.get("day", "")),
            page=max(1, int(page)) if page.isascii() and page.isdecimal() and len(page) < 5 else 1,
        )

    def matches(self, run: Run) -> bool:
        """Whether the list shows `run`. GitHub ignores case in names."""
        return (
            self.repository.casefold() in run.repo.full_name.casefold()
            and self.state in ("", state_of(run))
            and self.person.casefold() in ("", run.asked_by.casefold())
            and self.day in (None, run.created_at.astimezone(UTC).date())
        )

    def to_query(self, **changes: str | int | date) -> str:
        """The address of the same list with changes, from its `?` on."""
        fields = {**self._asdict(), **changes}
        kept = {name: value for name, value in fields.items() if value and (name, value) != _FIRST}
        return f"?{urlencode(kept)}"


_FIRST: Final = ("page", 1)


class Day(NamedTuple):
    """What ended on one day (UTC)."""

    day: date
    opened: int
    no_fix: int
    failed: int
    others: int
    """Stopped, refused, planned, followed up, …"""
    minutes: float | None
    """The median of the runs that came to an answer; None without one."""
    dollars: float

    @property
    def ended(self) -> int:
        return self.opened + self.no_fix + self.failed + self.others


class RunListing(NamedTuple):
    """One page of the list."""

    runs: tuple[Run, ...]
    found: int
    """How many match on all pages."""
    pages: int
    days: tuple[Day, ...]
    """The last 30, oldest first; of the runs that match."""
    summary: str
    """These days in a sentence; empty if no run ended."""
    since: datetime | None
    """The oldest finished run that was read ended then; None if all on record were read."""
    repositories: tuple[str, ...]
    people: tuple[str, ...]
    states: tuple[str, ...]


def list_runs(runs: Sequence[Run], wanted: RunFilter, *, most: int) -> RunListing:
    """The page `wanted` of `runs`, which hold at most `most` finished ones, newest first."""
    found = [run for run in runs if wanted.matches(run)]
    first = (wanted.page - 1) * PER_PAGE
    ended = [run.finished_at for run in runs if run.status.final and run.finished_at]
    days = summarize_days(found, now().date())
    return RunListing(
        runs=tuple(found[first : first + PER_PAGE]),
        found=len(found),
        pages=max(1, -(-len(found) // PER_PAGE)),
        days=days,
        summary=_summarize(found, days),
        since=min(ended) if len(ended) >= most else None,
        repositories=_most_common(runs, lambda run: run.repo.full_name),
        people=_most_common(runs, lambda run: run.asked_by),
        states=tuple(sorted({state_of(run) for run in runs} | ({wanted.state} - {""}))),
    )


def state_of(run: Run) -> str:
    """The run's state in a person's words."""
    if run.status is RunStatus.QUEUED and run.not_before is not None:
        return WAITING
    return STATUS_WORDS.get(run.status, run.status.value)


def summarize_days(runs: Sequence[Run], today: date) -> tuple[Day, ...]:
    """The last `DAYS` days up to `today`, oldest first, by when the runs ended."""
    by_day: dict[date, list[Run]] = {}
    for run in runs:
        if run.status.final and run.finished_at is not None:
            by_day.setdefault(run.finished_at.astimezone(UTC).date(), []).append(run)
    span = (today - timedelta(days=back) for back in range(DAYS - 1, -1, -1))
    return tuple(_summarize_day(day, by_day.get(day, [])) for day in span)


def _summarize_day(day: date, runs: Sequence[Run]) -> Day:
    ends = Counter(run.status for run in runs)
    opened, no_fix = ends[RunStatus.OPENED_PULL_REQUEST], ends[RunStatus.NO_FIX]
    failed = ends[RunStatus.FAILED]
    minutes = _list_minutes(runs)
    return Day(
        day=day,
        opened=opened,
        no_fix=no_fix,
        failed=failed,
        others=len(runs) - opened - no_fix - failed,
        minutes=statistics.median(minutes) if minutes else None,
        dollars=sum(run.dollars for run in runs),
    )


def minutes_of(run: Run) -> float | None:
    """How long a finished run took from its start to its end."""
    if run.started_at is None or run.finished_at is None:
        return None
    return max(0.0, (run.finished_at - run.started_at).total_seconds() / 60)


def _list_minutes(runs: Sequence[Run]) -> list[float]:
    taken = [minutes_of(run) for run in runs if run.status in _ANSWERED]
    return [minutes for minutes in taken if minutes is not None]


def _summarize(runs: Sequence[Run], days: Sequence[Day]) -> str:
    ended = sum(day.ended for day in days)
    if not ended:
        return ""
    opened = sum(day.opened for day in days)
    judged = opened + sum(day.no_fix + day.failed for day in days)
    since = days[0].day
    recent = [run for run in runs if run.finished_at and run.finished_at.date() >= since]
    minutes = _list_minutes(recent)
    parts = [f"{ended:,} ended in the last {DAYS} days"]
    if judged:
        share = f" ({opened / judged:.0%})" if judged >= MIN_FOR_RATE else ""
        parts.append(f"{opened:,} of {judged:,} that tried a fix opened a pull request{share}")
    if minutes:
        parts.append(f"median {statistics.median(minutes):.0f} min")
    parts.append(f"${sum(day.dollars for day in days):,.2f}")
    return "; ".join(parts) + "."


def _most_common(runs: Sequence[Run], name: Callable[[Run], str]) -> tuple[str, ...]:
    return tuple(sorted(one for one, _ in Counter(map(name, runs)).most_common(100)))


def _read(query: Mapping[str, str], name: str) -> str:
    return query.get(name, "").strip()[:_LONGEST]


def _parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None
