"""Markdown tables, and line and bar charts as SVG: labelled, readable without colour."""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]
PER_CENT = "instances, %"


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


def line_chart(title: str, x: str, y: str, series: Mapping[str, Points]) -> str:
    """A chart of `series` by name; `x` and `y` are the labels of the axes."""
    figure = _create_figure(7.2, 4.4)
    axes = figure.subplots()
    for (name, points), mark in zip(series.items(), "os^Dv*P" * len(series), strict=False):
        axes.plot([px for px, _ in points], [py for _, py in points], marker=mark, label=name)
    axes.set(title=title, xlabel=x, ylabel=y, ylim=(0, None))
    axes.grid(alpha=0.4)
    figure.legend(loc="outside right upper")
    return _render(figure)


def bar_chart(
    title: str, x: str, rows: Sequence[tuple[str, float, tuple[float, float] | None]]
) -> str:
    """A bar chart of names and values, with an interval where one is given."""
    figure = _create_figure(8, 1.2 + 0.3 * len(rows))
    axes = figure.subplots()
    values = [value for _, value, _ in rows]
    ends = [(value, *(interval or (value, value))) for _, value, interval in rows]
    errors = [[max(v - low, 0) for v, low, _ in ends], [max(high - v, 0) for v, _, high in ends]]
    bars = axes.barh(range(len(rows)), values, xerr=errors, color="#9fc5e8")
    axes.bar_label(bars, fmt="%.1f", padding=4)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.invert_yaxis()
    axes.set(title=title, xlabel=x, xlim=(0, None))
    return _render(figure)


def _create_figure(width: float, height: float) -> "Figure":
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "capuchin"})
    return Figure(figsize=(width, height), layout="constrained")


def _render(figure: "Figure") -> str:
    picture = io.StringIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()
