"""Which runs the list shows, and its bar charts."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape
from typing import Final, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from bot.comments.statistics import MIN_FOR_RATE
from bot.data.run import Run, RunStatus, now
from pipeline.svg import element, picture, text

PER_PAGE: Final = 50
DAYS: Final = 30
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
        return "waiting"  # for what does not answer; its record says queued
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


WIDTH: Final = 320
HEIGHT: Final = 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 4, 10, 22
_BASE: Final = HEIGHT - _BOTTOM


class Chart(NamedTuple):
    """A bar chart by day."""

    title: str
    svg: Markup
    """The picture, with what it shows as a sentence."""
    legend: tuple[tuple[str, str], ...] = ()
    """Styles and what they stand for."""


_ENDS: Final[tuple[tuple[str, str, Callable[[Day], float]], ...]] = (
    ("good", "pull request", lambda day: day.opened),
    ("odd", "no fix", lambda day: day.no_fix),
    ("bad", "failed", lambda day: day.failed),
    ("rest", "other", lambda day: day.others),
)


def draw_days(days: Sequence[Day]) -> tuple[Chart, ...]:
    """How runs ended, median minutes and dollars by day."""
    ends = [(kind, words, [get(day) for day in days], words) for kind, words, get in _ENDS]
    minutes = [day.minutes or 0.0 for day in days]
    dollars = [day.dollars for day in days]
    return (
        _draw("ends", "Runs per day, by how they ended", days, ends, "{:.0f}"),
        _draw(
            "minutes", "Median minutes per day", days, [("plain", "", minutes, "minutes")], "{:.0f}"
        ),
        _draw("dollars", "Dollars per day", days, [("plain", "", dollars, "dollars")], "${:.2f}"),
    )


def _draw(
    name: str,
    title: str,
    days: Sequence[Day],
    stacks: Sequence[tuple[str, str, Sequence[float], str]],
    form: str,
) -> Chart:
    sums = [sum(values[place] for _, _, values, _ in stacks) for place in range(len(days))]
    top = _round_up(max(sums, default=0.0))
    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(days))
    room = _BASE - _TOP
    parts = [
        element("title", escape(title), id=f"{name}-title"),
        element("desc", escape(_describe(days, sums, form)), id=f"{name}-text"),
    ]
    for share in (0.0, 0.5, 1.0):
        at = _BASE - share * room
        parts.append(element("line", class_="grid", x1=_LEFT, x2=WIDTH, y1=at, y2=at))
        parts.append(text(_LEFT - 4, at + 3, _label(share * top, form), text_anchor="end"))
    for place, day in enumerate(days):
        floor = float(_BASE)
        for kind, _, values, words in stacks:
            if not values[place]:
                continue
            height = values[place] / top * room
            floor -= height
            said = escape(f"{day.day}: {form.format(values[place])} {words}")
            parts.append(
                element(
                    "rect",
                    element("title", said),
                    class_=kind,
                    x=_LEFT + place * step,
                    y=floor,
                    width=step - 1.5,
                    height=height,
                )
            )
        if place % 10 == 4:
            middle = _LEFT + (place + 0.5) * step
            label = f"{day.day.day} {day.day:%b}"
            parts.append(text(middle, _BASE + 15, label, text_anchor="middle"))
    described = f"{name}-title {name}-text"
    svg = picture(WIDTH, HEIGHT, parts, aria_labelledby=described)
    legend = tuple((kind, words) for kind, words, _, _ in stacks if words)
    return Chart(title, Markup(svg), legend)  # noqa: S704 - all words are escaped


def _describe(days: Sequence[Day], sums: Sequence[float], form: str) -> str:
    known = [value for value in sums if value]
    if not known:
        return "Nothing on these days."
    highest = max(range(len(days)), key=lambda place: sums[place])
    return (
        f"{days[0].day} to {days[-1].day}: something on {len(known)} of {len(days)} days, "
        f"at most {form.format(sums[highest])} on {days[highest].day}."
    )


def _label(value: float, form: str) -> str:
    return f"${value:g}" if form.startswith("$") else f"{value:g}"


def _round_up(value: float) -> float:
    """The next round number, so that half of it is short as well."""
    if value <= 0:
        return 1.0
    size = 1.0
    while size < value:
        size *= 10
    while size / 10 >= value:
        size /= 10
    return next(share * size for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if share * size >= value)
