"""Which runs the list shows, and its bar charts."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from urllib.parse import urlencode

from bot.comments.statistics import MIN_FOR_RATE
from bot.data.run import Mode, Run, RunId, RunStatus, now

PER_PAGE: Final = 50
DAYS: Final = 30
_FOR_A_FIX: Final = (Mode.FIX, Mode.AUTO)


class RunFilter(NamedTuple):
    """Which runs the list shows; an empty field selects all. Untrusted."""

    repository: str = ""
    """`owner/name`, or a part of it."""
    state: str = ""
    person: str = ""
    day: date | None = None
    """The day of the request (UTC)."""
    page: int = 1

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "RunFilter":
        """Read the address; ignore what is not valid."""
        page = query.get("page", "")
        try:
            day = date.fromisoformat(query.get("day", "")[:10])
        except ValueError:
            day = None
        return cls(
            repository=_read(query, "repository"),
            state=_read(query, "state"),
            person=_read(query, "person").lstrip("@"),
            day=day,
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
        fields = {**self._asdict(), **changes}
        if fields["page"] == 1:
            del fields["page"]
        return f"?{urlencode({name: value for name, value in fields.items() if value})}"


class Day(NamedTuple):
    day: date
    opened: int
    no_fix: int
    failed: int
    """Of the runs that were to fix an issue, as the two before."""
    others: int
    """All others: stopped, refused, plans, comparisons, follow-ups, …"""
    minutes: float | None
    """The median of the runs with a pull request or no fix; None without one."""
    dollars: float

    @property
    def ended(self) -> int:
        return self.opened + self.no_fix + self.failed + self.others


class RunListing(NamedTuple):
    runs: tuple[Run, ...]
    found: int
    pages: int
    days: tuple[Day, ...]
    """The last 30 of the matching runs, oldest first."""
    summary: str
    """These days in a sentence; empty if no run ended."""
    since: datetime | None
    """The end of the oldest finished run that was read; None if all were read."""
    repositories: tuple[str, ...]
    people: tuple[str, ...]
    states: tuple[str, ...]


def list_runs(runs: Sequence[Run], wanted: RunFilter, *, most: int) -> RunListing:
    """The page `wanted` of `runs`, newest first; at most `most` of `runs` are finished."""
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


def group_follow_ups(runs: Sequence[Run]) -> list[tuple[Run, list[Run]]]:
    """The runs in order, each with what came after it on its pull request.

    Where the run that opened it is not among them, the newest follow-up stands for it.
    """
    opened = {
        (run.repo.id, run.pull_request): run
        for run in runs
        if run.pull_request and not _find_tended(run)
    }
    groups: dict[RunId, list[Run]] = {}
    newest: dict[tuple[int, int], Run] = {}
    for run in runs:
        head = run
        if pull := _find_tended(run):
            about = (run.repo.id, pull)
            head = opened.get(about) or newest.setdefault(about, run)
        groups.setdefault(head.id, []).append(run)
    by_id = {run.id: run for run in runs}
    return [
        (by_id[head], [run for run in group if run.id != head]) for head, group in groups.items()
    ]


def _find_tended(run: Run) -> int | None:
    """The pull request that was there before the run, and that it was about."""
    if run.mode.is_follow_up:
        return run.issue
    swaps = run.status is RunStatus.SWAPPED or run.swap_problem is not None
    return run.pull_request if swaps else None


def state_of(run: Run) -> str:
    """The run's state as people call it."""
    if run.status is RunStatus.QUEUED and run.not_before is not None:
        return "waiting"  # for a service that does not answer
    return run.status.words


def summarize_days(runs: Sequence[Run], today: date) -> tuple[Day, ...]:
    """The last `DAYS` days up to `today`, oldest first, by when the runs ended."""
    by_day: dict[date, list[Run]] = {}
    for run in runs:
        if run.status.final and run.finished_at is not None:
            by_day.setdefault(run.finished_at.astimezone(UTC).date(), []).append(run)
    span = (today - timedelta(days=back) for back in range(DAYS - 1, -1, -1))
    return tuple(_summarize_day(day, by_day.get(day, [])) for day in span)


def _summarize_day(day: date, runs: Sequence[Run]) -> Day:
    ends = Counter(run.status for run in runs if run.mode in _FOR_A_FIX)
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
    if run.started_at is None or run.finished_at is None:
        return None
    return max(0.0, (run.finished_at - run.started_at).total_seconds() / 60)


def _list_minutes(runs: Sequence[Run]) -> list[float]:
    answered = (RunStatus.OPENED_PULL_REQUEST, RunStatus.NO_FIX)
    fixes = (run for run in runs if run.mode in _FOR_A_FIX and run.status in answered)
    taken = map(minutes_of, fixes)
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
    return query.get(name, "").strip()[:200]


class Bar(NamedTuple):
    kind: str
    value: float
    said: str


class Chart(NamedTuple):
    """What `figures.html` draws."""

    name: str
    title: str
    columns: tuple[tuple[date, tuple[Bar, ...]], ...]
    """The bars of each day, from the bottom."""
    top: float
    """The end of the scale."""
    unit: str
    text: str
    """The chart in a sentence, for those who do not see it."""
    legend: tuple[tuple[str, str], ...] = ()


def draw_days(days: Sequence[Day]) -> tuple[Chart, ...]:
    ends: list[tuple[str, str, list[float], str]] = [
        ("good", "pull request", [day.opened for day in days], "pull request"),
        ("odd", "no fix", [day.no_fix for day in days], "no fix"),
        ("bad", "failed", [day.failed for day in days], "failed"),
        ("rest", "other", [day.others for day in days], "other"),
    ]
    minutes = [("plain", "", [day.minutes or 0.0 for day in days], "minutes")]
    dollars = [("plain", "", [day.dollars for day in days], "dollars")]
    return (
        _draw("ends", "Runs per day, by how they ended", days, ends, "{:.0f}"),
        _draw("minutes", "Median minutes per day", days, minutes, "{:.0f}"),
        _draw("dollars", "Dollars per day", days, dollars, "${:.2f}"),
    )


def _draw(
    name: str,
    title: str,
    days: Sequence[Day],
    stacks: Sequence[tuple[str, str, Sequence[float], str]],
    form: str,
) -> Chart:
    sums = [sum(values[place] for _, _, values, _ in stacks) for place in range(len(days))]
    columns = tuple(
        (
            day.day,
            tuple(
                Bar(kind, values[place], f"{day.day}: {form.format(values[place])} {words}")
                for kind, _, values, words in stacks
            ),
        )
        for place, day in enumerate(days)
    )
    legend = tuple((kind, words) for kind, words, _, _ in stacks if words)
    top, unit = _round_up(max(sums, default=0.0)), "$" if form.startswith("$") else ""
    return Chart(name, title, columns, top, unit, _describe(days, sums, form), legend)


def _describe(days: Sequence[Day], sums: Sequence[float], form: str) -> str:
    known = [value for value in sums if value]
    if not known:
        return "Nothing in this period."
    highest = max(range(len(days)), key=lambda place: sums[place])
    return (
        f"{days[0].day} to {days[-1].day}: something on {len(known)} of {len(days)} days, "
        f"at most {form.format(sums[highest])} on {days[highest].day}."
    )


def _round_up(value: float) -> float:
    """The next number that is round, as is half of it."""
    if value <= 0:
        return 1.0
    size = 1.0
    while size < value:
        size *= 10
    while size / 10 >= value:
        size /= 10
    return next(share * size for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if share * size >= value)
