"""Who spent what, in the form of CodeMonkeys' Table 1: stages by kinds of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.models.base import Price
from pipeline.types import Account, Usage

PAPER_STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Relevance", ("relevance",)),
    ("Ranking", ("ranking",)),
    ("Gen. tests", ("testing",)),
    ("Gen. edits", ("approaches", "editing", "exploring")),
    ("Selection", ("selecting",)),
    ("Reproduction", ("reproduction",)),
)
"""The paper's stages with the names of our calls, in its order, and one that it does not have."""
OTHERS = "Other"
TOTAL = "Total"


class CostLine(NamedTuple):
    """Tokens, and US dollars by kind."""

    stage: str
    calls: int
    usage: Usage
    input: float
    output: float
    cache_read: float
    cache_write: float

    @property
    def dollars(self) -> float:
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def read_share(self) -> float:
        """The share of the input tokens that the cache served, from 0 to 1."""
        read = self.usage.cache_read
        whole = self.usage.input + self.usage.cache_write + read
        return read / whole if whole else 0.0

    def add(self, other: CostLine) -> CostLine:
        """The sum, under this one's name."""
        return CostLine(
            self.stage,
            self.calls + other.calls,
            self.usage + other.usage,
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


def cost_table(accounts: Sequence[Account], prices: Mapping[str, Price]) -> list[CostLine]:
    """A line for each stage that made calls, in the paper's order, and the total.

    `prices` are by the accounts' model names; a model without a price is counted as free.
    """
    order = {name: stage for stage, names in PAPER_STAGES for name in names}
    lines = {stage: _empty_line(stage) for stage, _ in (*PAPER_STAGES, (OTHERS, ()))}
    for account in accounts:
        stage = order.get(account.stage, OTHERS)
        lines[stage] = lines[stage].add(_cost_line(account, prices.get(account.model, Price())))
    total = _empty_line(TOTAL)
    for line in lines.values():
        total = total.add(line)
    return [*(line for line in lines.values() if line.calls), total]


def render_table(lines: Sequence[CostLine]) -> str:
    """The table as text: dollars by kind, their sum, its share in percent, and tokens read."""
    whole = lines[-1].dollars if lines else 0.0
    head = ("Stage", "Calls", "Input", "Output", "Cache read", "Cache write", "Total", "%", "Read")
    rows = [
        (
            line.stage,
            str(line.calls),
            *(f"{kind:.2f}" for kind in (line.input, line.output)),
            *(f"{kind:.2f}" for kind in (line.cache_read, line.cache_write, line.dollars)),
            f"{100 * line.dollars / whole if whole else 0:.1f}",
            f"{100 * line.read_share:.1f} %",
        )
        for line in lines
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )


def _empty_line(stage: str) -> CostLine:
    return CostLine(stage, 0, Usage(), 0, 0, 0, 0)


def _cost_line(account: Account, price: Price) -> CostLine:
    usage = account.usage
    listed = price.of(usage)
    # A discount, such as that of batches, is spread over the kinds.
    share = account.dollars / listed if listed and account.dollars else 1.0
    return CostLine(
        account.stage,
        account.calls,
        usage,
        share * price.of(Usage(input=usage.input)),
        share * price.of(Usage(output=usage.output)),
        share * price.of(Usage(cache_read=usage.cache_read)),
        share * price.of(Usage(cache_write=usage.cache_write)),
    )
