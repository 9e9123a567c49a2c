"""The places of bars in pictures; `figures.html` draws them as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bot.server.run_list import Day

WIDTH: Final = 320
HEIGHT: Final = 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 4, 10, 22
_GAP: Final = 1.5


class Bar(NamedTuple):
    """One bar, or a part of a stacked one, in the picture's units."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    """The style."""
    title: str


class Tick(NamedTuple):
    """A line across the picture with its label."""

    at: float
    label: str


class Chart(NamedTuple):
    """A picture with its alternative in words."""

    name: str
    """Identifies it on the page."""
    title: str
    text: str
    """What the picture shows, in a sentence."""
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    days: tuple[Tick, ...]
    """Labels below, across."""
    legend: tuple[tuple[str, str], ...] = ()
    """Styles and what they stand for."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    base: int = HEIGHT - _BOTTOM


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
        _draw("ends", "Runs a day, by how they ended", days, ends, "{:.0f}"),
        _draw(
            "minutes",
            "Median minutes a day",
            days,
            [("plain", "", minutes, "minutes")],
            "{:.0f}",
        ),
        _draw("dollars", "Dollars a day", days, [("plain", "", dollars, "dollars")], "${:.2f}"),
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
    room = HEIGHT - _TOP - _BOTTOM
    bars: list[Bar] = []
    for place, day in enumerate(days):
        floor = float(HEIGHT - _BOTTOM)
        for kind, _, values, words in stacks:
            if not values[place]:
                continue
            height = values[place] / top * room
            floor -= height
            x = _LEFT + place * step
            said = f"{day.day}: {form.format(values[place])} {words}"
            bars.append(
                Bar(
                    round(x, 1),
                    round(floor, 1),
                    round(step - _GAP, 1),
                    round(height, 1),
                    kind,
                    said,
                )
            )
    ticks = [
        Tick(round(HEIGHT - _BOTTOM - share * room, 1), _label(share * top, form))
        for share in (0.0, 0.5, 1.0)
    ]
    labels = [
        Tick(round(_LEFT + (place + 0.5) * step, 1), f"{days[place].day.day} {days[place].day:%b}")
        for place in range(4, len(days), 10)
    ]
    return Chart(
        name=name,
        title=title,
        text=_describe(days, sums, form),
        bars=tuple(bars),
        ticks=tuple(ticks),
        days=tuple(labels),
        legend=tuple((kind, words) for kind, words, _, _ in stacks if words),
    )


def _describe(days: Sequence[Day], sums: Sequence[float], form: str) -> str:
    known = [value for value in sums if value]
    if not known:
        return "Nothing in these days."
    highest = max(range(len(days)), key=lambda place: sums[place])
    return (
        f"{days[0].day} to {days[-1].day}: something on {len(known)} of {len(days)} days; "
        f"the most, {form.format(sums[highest])}, on {days[highest].day}."
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
