"""Has a model choose among edits by reading them, in one turn (CodeMonkeys, section 2.3)."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.machine import Machine
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.selection.machines.discriminate import parse_choice
from pipeline.state import ReplyKind, State
from pipeline.types import Issue, SourceFile
from prompts import render


class ChoosingState(State):
    chosen: int = 0
    """Index of a candidate. They come best voted first, so saying nothing means the first."""


class ChoosingMachine(Machine[ChoosingState]):
    """Replies: `<choice>` with a candidate's number, from 1. Further turns only mend the form."""

    def __init__(
        self,
        model: Model,
        options: Options,
        *,
        issue: Issue,
        diffs: Sequence[str],
        files: Sequence[SourceFile],
    ) -> None:
        """`files` are the codebase's context."""
        super().__init__(model, call="choosing", attempts=options.selection_attempts)
        self._issue = issue
        self._diffs = diffs
        self._files = files

    @property
    def system(self) -> str:
        return render("choosing/system")

    def start(self) -> ChoosingState:
        pending = render("choosing/write", issue=self._issue, files=self._files, diffs=self._diffs)
        return ChoosingState(pending=pending)

    async def read(self, state: ChoosingState, reply: str) -> ReplyKind | Malformed:
        match only_tag(reply, "choice"):
            case Malformed() as malformed:
                return malformed
            case Tag(_, body):
                number = parse_choice(body, len(self._diffs))
                if isinstance(number, Malformed):
                    return number
                state.chosen = number
                return ReplyKind.APPROVED

    async def execute(self, state: ChoosingState) -> None:
        """Nothing is ever run."""
