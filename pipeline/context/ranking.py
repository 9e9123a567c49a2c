"""The solver orders the relevant files; several orders are merged and cut to a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from pipeline.machine import Attempt, Machine, State
from pipeline.models.base import Model
from pipeline.replies import Malformed, only_tag
from pipeline.types import Issue
from prompts import render

_ATTEMPTS = 3


class Ranked(State):
    order: list[str] = Field(default_factory=list[str])
    """Paths, the most important first; empty when the model never gave an order."""


class RankingMachine(Machine[Ranked]):
    """Replies: `<ranking>` with one path a line."""

    def __init__(
        self,
        model: Model,
        issue: Issue,
        files: Sequence[Mapping[str, object]],
        *,
        budget: int,
        number: int,
    ) -> None:
        """`files` have the keys path, summary, tokens and test; `budget` is in tokens."""
        super().__init__(model, call=f"ranking/{number}", attempts=_ATTEMPTS)
        self._issue = issue
        self._files = files
        self._budget = budget

    @property
    def system(self) -> str:
        return render("ranking/system")

    def start(self) -> Ranked:
        return Ranked(
            pending=render(
                "ranking/order", issue=self._issue, files=self._files, budget=self._budget
            )
        )

    async def read(self, state: Ranked, reply: str) -> Attempt | Malformed:
        match only_tag(reply, "ranking"):
            case Malformed() as malformed:
                return malformed
            case tag:
                order = read_order(tag.body, [str(file["path"]) for file in self._files])
        if not order:
            return Malformed(
                "No path in your <ranking> is in the list. Copy the paths from the list, one a "
                "line."
            )
        state.order = order
        return Attempt.APPROVED

    async def execute(self, state: Ranked) -> str | None:
        raise AssertionError(f"a ranking runs nothing, asked for in {state.phase}")


def read_order(body: str, known: Sequence[str]) -> list[str]:
    """The paths of `body` that are in `known`, once each; invented ones are left out."""
    lines = (line.strip().lstrip("-*0123456789.) \t").strip("`'\", ") for line in body.splitlines())
    exact = (line.strip() for line in body.splitlines())
    allowed = set(known)
    found = [bare if bare in allowed else line for bare, line in zip(exact, lines, strict=True)]
    return list(dict.fromkeys(path for path in found if path in allowed))


def merge(orders: Sequence[Sequence[str]]) -> list[str]:
    """One order by the mean of relative ranks.

    The place of a path in an order is its index over the order's length; in an order without it,
    it counts as just past the end: 1 (the rule of the paper's code). Ties keep the earlier order.
    """
    full = [order for order in orders if order]
    paths = list(dict.fromkeys(path for order in full for path in order))
    places = [{path: at / len(order) for at, path in enumerate(order)} for order in full]
    return sorted(paths, key=lambda path: sum(place.get(path, 1.0) for place in places))


def pack(
    order: Sequence[str], tokens: Mapping[str, int], budget: int
) -> tuple[list[str], list[str]]:
    """Which of `order` fit into `budget` tokens, taken in turn, and which do not."""
    taken: list[str] = []
    left: list[str] = []
    room = budget
    for path in order:
        if tokens[path] <= room:
            taken.append(path)
            room -= tokens[path]
        else:
            left.append(path)
    return taken, left
