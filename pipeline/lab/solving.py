"""The paper's tables from runs of one's own; who spent what."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from pydantic import Field

from pipeline.data.types import Account, Usage
from pipeline.lab.render import section
from pipeline.models.base import Price
from prompts.text import pluralize
from sandbox.frozen import Frozen

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

    def add(self, other: "CostLine") -> "CostLine":
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


def cost_cells(line: CostLine, whole: float) -> tuple[str | int, ...]:
    """A row of the table, with the share of `whole` dollars in per cent."""
    kinds = (line.input, line.output, line.cache_read, line.cache_write, line.dollars)
    share = f"{100 * line.dollars / whole if whole else 0:.1f}"
    return (line.stage, line.calls, *(f"{kind:.2f}" for kind in kinds), share)


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


class SolvedInstance(Frozen):
    """One instance: what the pipeline chose, and which of its edits resolve it."""

    instance_id: str
    outcome: str = ""
    """The outcome in `report.json`; empty where nothing ran."""
    resolved: bool = False
    chosen: str = ""
    """The chosen edit; empty without one."""
    note: str = ""
    """Why the instance is not resolved. Untrusted."""
    cannot_tell: str = ""
    """Why it cannot be graded here; no model was asked then. Untrusted."""
    unfinished: str = ""
    """Why the run has not ended yet. Never saved."""
    labels: dict[int, tuple[int, ...]] = Field(default_factory=dict[int, tuple[int, ...]])
    """By sample: its revisions that resolve the instance, from 0; see `SampleLabels`."""
    accounts: tuple[Account, ...] = ()
    seconds: float = 0.0
    """Wall time, grading included."""
    environment: str = ""
    """How the environment was made, and how healthy it is. Untrusted."""

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)


class SolveReport(Frozen):
    """What `capuchin evaluate --solve` prints as JSON, beside the evaluation of the runs."""

    instances: int
    resolved: tuple[str, ...]
    unresolved: dict[str, str]
    """Instance to why."""
    cannot_tell: dict[str, str]
    """Instance to why it cannot be graded here; no model was asked."""
    unfinished: dict[str, str]
    """Instance to why its run has not ended; the same command goes on."""
    score: float | None
    """Per cent resolved of the instances that ended and can be graded; None without any."""
    dollars: float
    """At list prices, unfinished runs included."""
    seconds: float
    """Total for all instances, earlier starts included."""


def build_solve_report(found: Sequence[SolvedInstance]) -> SolveReport:
    ended = list_graded(found)
    right = tuple(one.instance_id for one in ended if one.resolved)
    return SolveReport(
        instances=len(found),
        resolved=right,
        unresolved={one.instance_id: one.note for one in ended if not one.resolved},
        cannot_tell={one.instance_id: one.cannot_tell for one in found if one.cannot_tell},
        unfinished={one.instance_id: one.unfinished for one in found if one.unfinished},
        score=round(100 * len(right) / len(ended), 1) if ended else None,
        dollars=round(sum(one.dollars for one in found), 4),
        seconds=round(sum(one.seconds for one in found), 1),
    )


def list_graded(found: Sequence[SolvedInstance]) -> list[SolvedInstance]:
    """The instances that ended and can be graded: those in all tables and figures."""
    return [one for one in found if not one.cannot_tell and not one.unfinished]


def render_summary(report: SolveReport, costs: Sequence[CostLine], graded: int) -> str:
    """The summary and Table 1 in Markdown, over the `graded` instances."""
    score = "" if report.score is None else f", {report.score:.1f} %"
    parts = [
        "# Our own runs\n",
        f"{pluralize(report.instances, 'instance')}, {graded} finished and graded: "
        f"{len(report.resolved)} resolved{score}. ${report.dollars:.2f} at list prices, "
        f"{report.seconds:,.0f} s.\n",
        *_render_costs(costs, graded),
    ]
    for title, some in (
        ("Not resolved", report.unresolved),
        ("Cannot be graded here, and no model was asked", report.cannot_tell),
        ("Not finished; the same command continues", report.unfinished),
    ):
        if some:
            lines = (
                f"- `{name}`: {escape(' '.join(why.split())[:500])}" for name, why in some.items()
            )
            parts += [f"{title}:\n", *lines, ""]
    return "\n".join(parts)


def _render_costs(lines: Sequence[CostLine], instances: int) -> list[str]:
    """CodeMonkeys, Table 1."""
    if not lines or not instances:
        return []
    whole = lines[-1].dollars
    return section(
        "Costs",
        f"In US dollars at list prices, over {pluralize(instances, 'instance')}: "
        f"{whole / instances:.2f} for each.",
        ("stage", "calls", "input", "output", "cache read", "cache write", "total", "%"),
        [cost_cells(line, whole) for line in lines],
    )
