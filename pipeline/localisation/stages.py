"""The loop of both stages: read the code by commands, then answer once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

from pipeline.generation.exploring.elision import MOST_CHARACTERS, elide
from pipeline.generation.exploring.machine import CONTEXT_TOKENS, OUTPUT_BYTES, cut_context
from pipeline.machine import Machine
from pipeline.models.base import Message, Model
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.resources import Resources
from pipeline.shown import Place, SuspectFile
from pipeline.state import ReplyKind, State
from pipeline.types import Context, Issue
from prompts.templates import render
from sandbox.program import shell_command

Stage = Literal["understanding", "localisation"]
TURNS = 12
"""Replies of one machine. The answer may come in the first."""
SHARE = 0.25
"""The share of a run's money that all machines of the search together may use."""
_LONGEST_COMMAND = 50_000
_OPENING = 2
"""Messages before the first reply: the context, which all share, and the task."""
_LAST_TURNS = 4
"""From so many remaining turns on, each report states their number."""


class ReadingState(State):
    command: str = ""
    """The newest command that is to be run; empty once there is an answer."""
    files: tuple[SuspectFile, ...] = ()
    """The answer of the first stage."""
    places: tuple[Place, ...] = ()
    """The answer of the second stage."""


class ReadingMachine(Machine[ReadingState]):
    """Replies: `<bash>`, or the answer of its stage.

    Every command runs in a fresh checkout of the unedited code; what it changes there is gone with
    it.
    """

    stage: Stage
    tag: str
    """The answer's."""

    def __init__(
        self, resources: Resources, model: Model, issue: Issue, context: Context, number: int
    ) -> None:
        super().__init__(
            model,
            call=f"{self.stage}/{number}",
            attempts=TURNS,
            temperature=resources.options.temperature,
        )
        self._resources = resources
        self._issue = issue
        self._context = context
        self._dollars = 0.0

    @property
    def system(self) -> str:
        seconds = f"{self._resources.options.execution_seconds:g}"
        return render("search/system", stage=self.stage, seconds=seconds)

    @property
    @abstractmethod
    def task(self) -> str: ...

    @abstractmethod
    async def take_answer(self, state: ReadingState, body: str) -> Malformed | None:
        """Record the answer, or say what is wrong with it."""

    def allow(self, dollars: float) -> None:
        """Stop asking once `dollars` are spent."""
        self._dollars = dollars

    def start(self) -> ReadingState:
        most = min(CONTEXT_TOKENS, self.model.profile.window // 3)
        shown, others = cut_context(self._context, most)
        shared = render("search/context", issue=self._issue, files=shown, others=others)
        return ReadingState(messages=[Message(role="user", text=shared)], pending=self.task)

    def is_spent(self, state: ReadingState) -> bool:
        """Whether it has used its part of the run's money."""
        return bool(self._dollars) and self.model.profile.price.of(state.usage) >= self._dollars

    def select_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Without the oldest results of a long conversation; see `elide`."""
        most = min(MOST_CHARACTERS, self.model.profile.window)
        return elide(messages, opening=_OPENING, most=most)

    async def read(self, state: ReadingState, reply: str) -> ReplyKind | Malformed:
        match only_tag(reply, "bash", self.tag):
            case Malformed() as malformed:
                return malformed
            case Tag("bash", body):
                if not body.strip() or len(body) > _LONGEST_COMMAND:
                    return Malformed(f"A command holds 1 to {_LONGEST_COMMAND:,} characters.")
                state.command = body
                return ReplyKind.REVISED
            case Tag(_, body):
                problem = await self.take_answer(state, body)
                state.command = ""
                return problem or ReplyKind.APPROVED

    async def execute(self, state: ReadingState) -> str | None:
        run = await self._resources.sandbox.run_command(
            shell_command(
                state.command + "\n",
                seconds=self._resources.options.execution_seconds,
                output_bytes=OUTPUT_BYTES,
            )
        )
        left = self.attempts - len(state.attempts)
        told = left if left <= _LAST_TURNS else 0
        return render("search/result", run=run, tag=self.tag, left=told)
