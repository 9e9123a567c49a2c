"""Line and bar charts as SVG: labelled, readable without colour, no dependency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 220, 48, 56
_COLOURS = ("#0b5394", "#b45f06", "#38761d", "#741b47", "#666666", "#990000", "#134f5c")
PERCENTS = tuple(float(n) for n in range(0, 101, 20))
"""Ticks of an axis in per cent."""
_MARKS = ("circle", "square", "diamond")


@dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    ticks: Sequence[float]


def line_chart(
    title: str, x: Axis, y: Axis, series: Mapping[str, Sequence[tuple[float, float]]]
) -> str:
    """A line chart of `series`, with a legend at the right."""
    parts = [_frame(title, x, y)]
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        placed = [(_x(px, x), _y(py, y)) for px, py in points]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in placed)
        dashes = "" if number < len(_COLOURS) else ' stroke-dasharray="4 3"'
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        parts += [_mark(px, py, number, colour) for px, py in placed]
        top = _TOP + 12 + 20 * number
        left = _WIDTH - _RIGHT + 16
        parts.append(_mark(left, top - 4, number, colour))
        parts.append(_text(left + 12, top, name, size=12))
    return _svg(title, parts)


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
    height = _TOP + step * len(rows) + _BOTTOM
    width = _WIDTH + left - 190

    def place(value: float) -> float:
        return left + (value - axis.low) / (axis.high - axis.low) * (width - left - right)

    parts = [_text(left, 28, title, size=16)]
    base = _TOP + step * len(rows)
    for tick in axis.ticks:
        at = place(tick)
        parts.append(f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{base}" stroke="#ddd"/>')
        parts.append(_text(at, base + 18, f"{tick:g}", anchor="middle", size=12))
    parts.append(_text(left, base + 40, axis.label, size=12))
    for number, (name, value, interval) in enumerate(rows):
        top = _TOP + step * number + 4
        parts.append(_text(left - 8, top + 13, name, anchor="end", size=12))
        span = max(place(value) - left, 0)
        parts.append(f'<rect x="{left}" y="{top}" width="{span:.1f}" height="18" fill="#9fc5e8"/>')
        end = place(value)
        if interval:
            low, end = place(interval[0]), place(interval[1])
            middle = top + 9
            parts.append(
                f'<path d="M{low:.1f} {middle - 4}v8M{low:.1f} {middle}H{end:.1f}'
                f'M{end:.1f} {middle - 4}v8" stroke="#333" fill="none"/>'
            )
        parts.append(_text(end + 6, top + 13, f"{value:.1f}", size=12))
    return _svg(title, parts, width, height)


def _frame(title: str, x: Axis, y: Axis) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [_text(_LEFT, 28, title, size=16)]
    for tick in y.ticks:
        at = _y(tick, y)
        parts.append(f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 8, at + 4, f"{tick:g}", anchor="end", size=12))
    for tick in x.ticks:
        at = _x(tick, x)
        parts.append(f'<line x1="{at:.1f}" y1="{bottom}" x2="{at:.1f}" y2="{bottom + 5}" '
                     'stroke="#333"/>')  # fmt: skip
        parts.append(_text(at, bottom + 20, f"{tick:g}", anchor="middle", size=12))
    parts.append(f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" stroke="#333" fill="none"/>')
    parts.append(_text((_LEFT + right) / 2, bottom + 42, x.label, anchor="middle", size=12))
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text x="18" y="{middle}" font-size="12" text-anchor="middle" '
        f'transform="rotate(-90 18 {middle})">{escape(y.label)}</text>'
    )
    return "\n".join(parts)


def _x(value: float, axis: Axis) -> float:
    share = (value - axis.low) / (axis.high - axis.low)
    return _LEFT + share * (_WIDTH - _RIGHT - _LEFT)


def _y(value: float, axis: Axis) -> float:
    share = (value - axis.low) / (axis.high - axis.low)
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _mark(x: float, y: float, number: int, colour: str) -> str:
    match _MARKS[number % len(_MARKS)]:
        case "circle":
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
        case "square":
            return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
        case _:
            shape = f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"
            return f'<path d="{shape}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _svg(title: str, parts: Sequence[str], width: int = _WIDTH, height: int = _HEIGHT) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="sans-serif">\n<title>{escape(title)}</title>\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
