"""One measured figure beside its baseline, and how a list of them is printed and written."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """`ratio` is value over baseline, both of the same run."""

    name: str
    value: float
    unit: str
    baseline: str
    baseline_value: float

    @property
    def ratio(self) -> float:
        return self.value / self.baseline_value if self.baseline_value else float("inf")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of `values` lies (nearest rank); infinite without values."""
    if not values:
        return float("inf")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def render(rows: Sequence[Row]) -> str:
    head = ("what", "value", "unit", "baseline", "its value", "ratio")
    body = [
        (r.name, f"{r.value:.2f}", r.unit, r.baseline, f"{r.baseline_value:.2f}", f"{r.ratio:.2f}")
        for r in rows
    ]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True))
        for line in [head, *body]
    ]
    return "\n".join(line.rstrip() for line in lines)


def write(rows: Sequence[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps([{**asdict(r), "ratio": r.ratio} for r in rows], indent=1) + "\n",
        encoding="utf-8",
    )
