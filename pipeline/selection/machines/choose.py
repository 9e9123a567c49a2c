"""Lets a model choose among edits by reading them, in one turn (CodeMonkeys, section 2.3)."""

from __future__ import annotations

from pipeline.machine import Machine
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.selection.finalists import Finalists
from pipeline.state import ReplyKind, State
from pipeline.types import Issue
from prompts.templates import render


class ChoosingState(State):
    chosen: int = 0
    """Index of a finalist. Finalists come best voted first, so the default is the first."""


class ChoosingMachine(Machine[ChoosingState]):
    """Replies: `<choice>` with a candidate's letter. Further turns only correct the format."""

    def __init__(
        self, model: Model, options: Options, *, issue: Issue, finalists: Finalists
    ) -> None:
        # Table 4 of CodeMonkeys: the selection is greedy.
        super().__init__(
            model, call="choosing", attempts=options.selection_attempts, temperature=0.0
        )
        self._issue = issue
        self._finalists = finalists

    @property
    def system(self) -> str:
        return render("choosing/system")

    def start(self) -> ChoosingState:
        finalists = self._finalists
        diffs = [finalists.table.candidates[c].patch.diff for c in finalists.indices]
        candidates = [
            {"letter": letter, "diff": diff}
            for letter, diff in zip(finalists.letters, diffs, strict=True)
        ]
        pending = render(
            "choosing/write", issue=self._issue, files=finalists.files, candidates=candidates
        )
        return ChoosingState(pending=pending)

    async def read(self, state: ChoosingState, reply: str) -> ReplyKind | Malformed:
        match only_tag(reply, "choice"):
            case Malformed() as malformed:
                return malformed
            case Tag(_, body):
                number = self._finalists.parse_choice(body)
                if isinstance(number, Malformed):
                    return number
                state.chosen = number
                return ReplyKind.APPROVED

    async def execute(self, state: ChoosingState) -> None:
        """Never called: this machine runs nothing."""
