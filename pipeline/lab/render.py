"""Markdown tables, and line and bar charts as SVG: labelled, readable without colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from pipeline.svg import element, picture, text

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 220, 48, 56
_COLOURS = ("#0b5394", "#b45f06", "#38761d", "#741b47", "#666666", "#990000", "#134f5c")


def table(head: Sequence[str], rows: Iterable[Sequence[str | int]]) -> list[str]:
    """The lines of a Markdown table; all columns but the first are aligned to the right."""
    return [
        f"| {' | '.join(head)} |",
        "|---|" + "--:|" * (len(head) - 1),
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
        "",
    ]


def section(
    title: str, words: str, head: Sequence[str], rows: Iterable[Sequence[str | int]]
) -> list[str]:
    """The lines of a section with a table; none without rows."""
    rows = list(rows)
    return [f"## {title}\n", *([f"{words}\n"] if words else []), *table(head, rows)] if rows else []


@dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    ticks: Sequence[float]

    def share(self, value: float) -> float:
        """How far along the axis `value` is, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def percent_axis(label: str) -> Axis:
    """An axis from 0 to 100 per cent."""
    return Axis(label, 0, 100, tuple(float(n) for n in range(0, 101, 20)))


def line_chart(
    title: str, x: Axis, y: Axis, series: Mapping[str, Sequence[tuple[float, float]]]
) -> str:
    """A line chart of `series`, with a legend at the right."""
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def place_x(value: float) -> float:
        return _LEFT + x.share(value) * (right - _LEFT)

    def place_y(value: float) -> float:
        return bottom - y.share(value) * (bottom - _TOP)

    middle = (_TOP + bottom) / 2
    parts = [
        text(_LEFT, 28, title, font_size=16),
        *(_grid_line(_LEFT, place_y(tick), right, place_y(tick)) for tick in y.ticks),
        *(
            text(_LEFT - 8, place_y(tick) + 4, f"{tick:g}", text_anchor="end", font_size=12)
            for tick in y.ticks
        ),
        *(_middle_text(place_x(tick), bottom + 20, f"{tick:g}") for tick in x.ticks),
        element("path", d=f"M{_LEFT} {_TOP}V{bottom}H{right}", stroke="#333", fill="none"),
        _middle_text((_LEFT + right) / 2, bottom + 42, x.label),
        _middle_text(18, middle, y.label, transform=f"rotate(-90 18 {middle:g})"),
    ]
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        placed = [(place_x(px), place_y(py)) for px, py in points]
        top, left = _TOP + 12 + 20 * number, right + 16
        parts += [
            element(
                "polyline",
                points=" ".join(f"{px:.1f},{py:.1f}" for px, py in placed),
                fill="none",
                stroke=colour,
                stroke_width=2,
                stroke_dasharray=None if number < len(_COLOURS) else "4 3",
            ),
            *(_mark(px, py, number, colour) for px, py in placed),
            _mark(left, top - 4, number, colour),
            text(left + 12, top, name, font_size=12),
        ]
    return _picture(title, parts, _WIDTH, _HEIGHT)


def bar_chart(
    title: str,
    axis: Axis,
    rows: Sequence[tuple[str, float, tuple[float, float] | None]],
    *,
    left: int = 270,
) -> str:
    """A bar chart of names and values, with an interval where one is given.

    `left`: the width of the names, in pixels.
    """
    right, step = 56, 26
    width, base = _WIDTH + left - 190, _TOP + step * len(rows)

    def place(value: float) -> float:
        return left + axis.share(value) * (width - left - right)

    parts = [text(left, 28, title, font_size=16)]
    for tick in axis.ticks:
        parts.append(_grid_line(place(tick), _TOP, place(tick), base))
        parts.append(_middle_text(place(tick), base + 18, f"{tick:g}"))
    parts.append(text(left, base + 40, axis.label, font_size=12))
    for number, (name, value, interval) in enumerate(rows):
        top = _TOP + step * number + 4
        span, end = max(place(value) - left, 0), place(value)
        parts.append(text(left - 8, top + 13, name, text_anchor="end", font_size=12))
        parts.append(element("rect", x=left, y=top, width=span, height=18, fill="#9fc5e8"))
        if interval:
            low, end = place(interval[0]), place(interval[1])
            middle = top + 9
            shape = f"M{low:.1f} {top + 5}v8M{low:.1f} {middle}H{end:.1f}M{end:.1f} {top + 5}v8"
            parts.append(element("path", d=shape, stroke="#333", fill="none"))
        parts.append(text(end + 6, top + 13, f"{value:.1f}", font_size=12))
    return _picture(title, parts, width, base + _BOTTOM)


def _grid_line(x1: float, y1: float, x2: float, y2: float) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke="#ddd")


def _middle_text(x: float, y: float, words: str, transform: str | None = None) -> str:
    return text(x, y, words, text_anchor="middle", font_size=12, transform=transform)


def _mark(x: float, y: float, number: int, colour: str) -> str:
    match number % 3:
        case 0:
            return element("circle", cx=x, cy=y, r=4, fill=colour)
        case 1:
            return element("rect", x=x - 4, y=y - 4, width=8, height=8, fill=colour)
        case _:
            return element("path", d=f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z", fill=colour)


def _picture(title: str, parts: Iterable[str], width: int, height: int) -> str:
    background = element("rect", width=width, height=height, fill="white")
    head = [element("title", escape(title)), background]
    return picture(width, height, [*head, *parts], font_family="sans-serif") + "\n"
