"""The solver ranks the relevant files; several rankings are merged into one."""

from collections.abc import Collection, Mapping, Sequence

from pydantic import Field

from pipeline.data.types import Issue
from pipeline.machine import Machine
from pipeline.models.base import Model
from pipeline.replies import Malformed, only_tag
from pipeline.state import ReplyKind, State
from prompts.templates import render


class RankingState(State):
    order: list[str] = Field(default_factory=list[str])
    """Paths, most important first; empty if the model never gave a ranking."""
    invented: int = 0
    """How many lines of the ranking name no path of the repository."""
    unread: list[str] = Field(default_factory=list[str])
    """Paths in it that are of the repository, and are not read to choose among files."""


class RankingMachine(Machine[RankingState]):
    """Replies: `<ranking>` with one path a line."""

    def __init__(
        self,
        model: Model,
        issue: Issue,
        files: Sequence[Mapping[str, object]],
        *,
        there: Collection[str] = (),
        tree: Collection[str] = (),
        budget: int,
        cap: int,
        number: int,
    ) -> None:
        """`files` have the keys path, summary, tokens and test. A ranking may name others that are
        `there`, too: it mends a list made by words. What else is in the `tree` is not read.

        `budget` is how many tokens of files are wanted, `cap` how many are possible.
        """
        # Table 4 of CodeMonkeys: rankings are greedy.
        super().__init__(model, call=f"ranking/{number}", attempts=3, temperature=0.0)
        self._issue = issue
        self._files = files
        self._known = {*there, *(str(file["path"]) for file in files)}
        self._tree = tree
        self._budget, self._cap = budget, cap

    @property
    def system(self) -> str:
        return render("ranking/system")

    def start(self) -> RankingState:
        return RankingState(
            pending=render(
                "ranking/order",
                issue=self._issue,
                files=self._files,
                budget=self._budget,
                cap=self._cap,
            )
        )

    async def read(self, state: RankingState, reply: str) -> ReplyKind | Malformed:
        match only_tag(reply, "ranking"):
            case Malformed() as malformed:
                return malformed
            case tag:
                order, unread, invented = parse_order(tag.body, self._known, self._tree)
        if not order:
            return Malformed(
                "No path in your <ranking> is in this repository. Copy the paths from the list, "
                "one a line."
            )
        state.order, state.unread, state.invented = order, unread, invented
        return ReplyKind.APPROVED

    async def execute(self, state: RankingState) -> str | None:
        raise AssertionError(f"a ranking runs nothing, asked for in {state.phase}")


def parse_order(
    body: str, known: Collection[str], tree: Collection[str] = ()
) -> tuple[list[str], list[str], int]:
    """The distinct paths of `body` that are in `known`, those that are in the `tree` alone, and the
    number of other lines."""
    found: list[str] = []
    unread: list[str] = []
    invented = 0
    for exact in filter(None, (line.strip() for line in body.splitlines())):
        item = exact.lstrip("-*0123456789.) \t")
        forms = [exact, *(form.strip("`'\",:* ") for form in (item, item.partition(" ")[0]))]
        if path := next((form for form in forms if form in known), ""):
            found.append(path)
        elif path := next((form for form in forms if form in tree), ""):
            unread.append(path)
        else:
            invented += 1
    return list(dict.fromkeys(found)), list(dict.fromkeys(unread)), invented


def merge(orders: Sequence[Sequence[str]]) -> list[str]:
    """One ranking by the mean of relative ranks.

    The relative rank of a path is its index over the ranking's length, and 1 in a ranking without
    it (the rule of the paper's code). Ties keep the earlier ranking's order.
    """
    full = [order for order in orders if order]
    paths = list(dict.fromkeys(path for order in full for path in order))
    places = [{path: at / len(order) for at, path in enumerate(order)} for order in full]
    return sorted(paths, key=lambda path: sum(place.get(path, 1.0) for place in places))
