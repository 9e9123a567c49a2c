"""The loop that testing, editing, selection, ranking and the reproduction test share.

    ASKING ──reply──▶ read ──malformed──▶ ASKING (with a hint)
                       │
                       ├──new work──▶ EXECUTING ──▶ ASKING (with a report), or APPROVED
                       └──approval──▶ APPROVED

A machine is data (`State`, saved after every step) and four methods: the first question, how to
read a reply, what to run, how to report the run. The loop handles attempts, limits and checkpoints.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic

from pipeline.models.base import ContextTooLong, Message, Model, ModelRefused, ModelRequest
from pipeline.replies import Malformed
from pipeline.state import Phase, ReplyKind, S
from pipeline.store import Store


class Machine(ABC, Generic[S]):
    """A conversation with a model that ends with approved work, or else with its best work.

    `call` labels its model calls; `attempts` is the limit of replies, malformed ones included
    (CodeMonkeys, section 2.2, footnote 3).
    """

    def __init__(
        self, model: Model, *, call: str, attempts: int, temperature: float | None = None
    ) -> None:
        self.model = model
        self.call = call
        self.attempts = attempts
        self.temperature = temperature

    @property
    @abstractmethod
    def system(self) -> str: ...

    @abstractmethod
    def start(self) -> S: ...

    @abstractmethod
    async def read(self, state: S, reply: str) -> ReplyKind | Malformed:
        """Record in `state` what the reply requests. Must not run anything from the reply."""

    @abstractmethod
    async def execute(self, state: S) -> str | None:
        """Run what the last reply requested, record it, and write the report to the model.

        Returns None to end the machine: the work is accepted.
        """

    async def finish(self, state: S) -> None:
        """Find out what is still to be known of work that ends without approval; asks no model."""

    def is_spent(self, state: S) -> bool:
        """Whether it may ask no more, beside the limit of replies."""
        del state
        return False

    def select_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages as they are sent; the state keeps them all."""
        return messages

    async def step(self, before: S) -> S:
        """Make one transition, with at most one model call or one batch of executions.

        Works on a copy, so that a failed step leaves no partial changes.
        """
        state = copy.deepcopy(before)
        if state.phase is Phase.EXECUTING:
            report = await self.execute(state)
            state.pending = report or ""
            state.phase = Phase.APPROVED if report is None else Phase.ASKING
        else:
            await self._ask(state)
            if state.phase.final and state.phase is not Phase.APPROVED:
                await self.finish(state)
        return state

    async def _ask(self, state: S) -> None:
        if len(state.attempts) >= self.attempts or self.is_spent(state):
            used_up = len(state.attempts) >= self.attempts
            state.phase = Phase.OUT_OF_ATTEMPTS if used_up else Phase.OUT_OF_SHARE
            return
        asked = (*state.messages, Message(role="user", text=state.pending))
        sent = tuple(self.select_messages(asked))
        try:
            reply = await self.model.complete(
                ModelRequest(self.system, sent, self.call, temperature=self.temperature)
            )
        except ContextTooLong:
            state.phase = Phase.OUT_OF_CONTEXT
            return
        except ModelRefused:
            state.phase = Phase.REFUSED
            return
        state.add_reply(asked, reply)
        match await self.read(state, reply.text):
            case Malformed(hint):
                state.attempts.append(ReplyKind.MALFORMED)
                if reply.stopped == "length":
                    hint = f"Your reply was cut off because it was too long. Be briefer. {hint}"
                state.pending = hint
            case ReplyKind.APPROVED:
                state.attempts.append(ReplyKind.APPROVED)
                state.phase = Phase.APPROVED
            case attempt:
                state.attempts.append(attempt)
                state.phase = Phase.EXECUTING


async def drive(machine: Machine[S], kind: type[S], store: Store, key: str) -> S:
    """Run `machine` to its end, from its last checkpoint if it has one.

    Raises:
        ModelError, SandboxError, BudgetSpent: call again to resume from the checkpoint.
    """
    state = await store.load(key, kind) or machine.start()
    while not state.phase.final:
        state = await machine.step(state)
        await store.save(key, state)
    return state
