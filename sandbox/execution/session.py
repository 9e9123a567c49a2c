"""One open sandbox: a prepared image and the executions in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sandbox.base import Execution
from sandbox.execution.cancellation import SharedExecution
from sandbox.execution.job import Job
from sandbox.layout import CHECKOUT, PROGRAM_ENVIRONMENT, TREE
from sandbox.limits import Limits
from sandbox.program import Program

Execute = Callable[[Job, Limits], Coroutine[Any, Any, Execution]]


class SandboxSession:
    """One prepared image; implements `sandbox.base.Sandbox`. Made by `DockerEngine.open`."""

    def __init__(self, image: str, *, limits: Limits, execute: Execute) -> None:
        self.image = image
        self._default_limits = limits
        self._execute = execute
        self._running: set[asyncio.Task[Execution]] = set()
        self._shared: dict[object, SharedExecution] = {}

    async def run(self, program: Program) -> Execution:
        """See `Sandbox.run`. Equal programs that may share a run are run once in a session."""
        if not program.may_share:
            return await SharedExecution(self._start(program)).wait_for_result()
        key = _sharing_key(program)
        shared = self._shared.get(key)
        if shared is None or shared.is_unusable():
            shared = self._shared[key] = SharedExecution(self._start(program))
        return await shared.wait_for_result()

    async def close(self) -> None:
        """Stop what still runs, and wait until its containers are gone."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _start(self, program: Program) -> asyncio.Task[Execution]:
        job = Job(
            steps=[program.argv],
            checkout=CHECKOUT,
            environment={**PROGRAM_ENVIRONMENT, **program.env},
            tree=TREE,
            diffs=program.diffs,
            files=program.files,
        )
        task = asyncio.create_task(self._execute(job, self._limits_of(program)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _limits_of(self, program: Program) -> Limits:
        stated = {"seconds": program.seconds, "output_kept_bytes": program.output_bytes}
        wanted = {name: value for name, value in stated.items() if value is not None}
        return Limits.model_validate(self._default_limits.model_dump() | wanted)


def _sharing_key(program: Program) -> object:
    """What two programs have in common that may share one run."""
    values = (tuple(program.argv), tuple(program.diffs), program.seconds, program.output_bytes)
    return (*values, tuple(sorted(program.env.items())), tuple(sorted(program.files.items())))
