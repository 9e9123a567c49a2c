"""The loop that testing, editing, selection, ranking and the reproduction test share.

    ASKING ──reply──▶ read ──malformed──▶ ASKING (with a hint)
                       │
                       ├──new work──▶ EXECUTING ──▶ ASKING (with a report), or APPROVED
                       └──approval──▶ APPROVED

A machine is data (`State`, saved after every step) and four answers: what to ask first, how to
read a reply, what to run, how to report the run. The loop owns attempts, limits and checkpoints.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Generic

from pipeline.models.base import ContextTooLong, Message, Model, ModelRefused, ModelRequest
from pipeline.replies import Malformed
from pipeline.state import Phase, ReplyKind, S
from pipeline.store import Store


class Machine(ABC, Generic[S]):
    """One conversation with a model that ends in approved work, or in the best there is.

    `call` labels its model calls; `attempts` is how many replies it may use up, malformed ones
    included (CodeMonkeys, section 2.2, footnote 3).
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
        """Record in `state` what the reply asks for. Runs nothing that it brings."""

    @abstractmethod
    async def execute(self, state: S) -> str | None:
        """Run what the last reply asked for, record it, and word the report to the model.

        None ends the machine: the work is accepted as it is.
        """

    async def step(self, before: S) -> S:
        """One transition, with at most one model call or one batch of executions.

        Works on a copy, so that a step that fails leaves nothing half done.
        """
        state = copy.deepcopy(before)
        if state.phase is Phase.EXECUTING:
            report = await self.execute(state)
            state.pending = report or ""
            state.phase = Phase.APPROVED if report is None else Phase.ASKING
        else:
            await self._ask(state)
        return state

    async def _ask(self, state: S) -> None:
        if len(state.attempts) >= self.attempts:
            state.phase = Phase.OUT_OF_ATTEMPTS
            return
        asked = (*state.messages, Message(role="user", text=state.pending))
        try:
            reply = await self.model.complete(
                ModelRequest(self.system, asked, self.call, temperature=self.temperature)
            )
        except ContextTooLong:
            state.phase = Phase.OUT_OF_CONTEXT
            return
        except ModelRefused:
            state.phase = Phase.REFUSED
            return
        # No provider takes an empty message back.
        text = reply.text if reply.text.strip() else "(empty reply)"
        state.messages = [*asked, Message(role="assistant", text=text)]
        state.thinking.append(reply.thinking)
        state.models.append(reply.model)
        state.usage = state.usage + reply.usage
        match await self.read(state, reply.text):
            case Malformed(hint):
                state.attempts.append(ReplyKind.MALFORMED)
                state.pending = _briefer_hint(hint) if reply.stopped == "length" else hint
            case ReplyKind.APPROVED:
                state.attempts.append(ReplyKind.APPROVED)
                state.phase = Phase.APPROVED
            case attempt:
                state.attempts.append(attempt)
                state.phase = Phase.EXECUTING


async def drive(machine: Machine[S], kind: type[S], store: Store, key: str) -> S:
    """Run `machine` to its end, from its last checkpoint if it has one.

    Raises:
        ModelError, SandboxError, BudgetSpent: see there; call again to go on from the checkpoint.
    """
    state = await store.load(key, kind) or machine.start()
    while not state.phase.final:
        state = await machine.step(state)
        await store.save(key, state)
    return state


def _briefer_hint(hint: str) -> str:
    return f"Your reply was cut off because it was too long. Be briefer. {hint}"
