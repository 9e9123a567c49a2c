"""One open sandbox: a prepared image, and the executions that are asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from sandbox.base import NO_ENV, Execution
from sandbox.execution.cancellation import SharedExecution
from sandbox.execution.job import Job
from sandbox.layout import CHECKOUT, ENVIRONMENT, PROGRAM_ENVIRONMENT, TREE
from sandbox.limits import Limits

SCRIPT = "/tmp/capuchin/reproduce_issue.py"  # noqa: S108 - a file system of its own in the container
Execute = Callable[[Job, Limits], Coroutine[Any, Any, Execution]]


class SandboxSession:
    """One prepared image; implements `sandbox.base.Sandbox`. Made by `DockerEngine.open`."""

    def __init__(self, image: str, *, limits: Limits, execute: Execute) -> None:
        self.image = image
        self._default_limits = limits
        self._execute = execute
        self._running: set[asyncio.Task[Execution]] = set()
        self._scripts: dict[object, SharedExecution] = {}

    async def run_script(
        self,
        script: str,
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Execution:
        """See `Sandbox.run_script`. Equal calls run once in a session."""
        key = (script, tuple(diffs), seconds, tuple(sorted(env.items())))
        shared = self._scripts.get(key)
        if shared is None or shared.is_unusable():
            argv = (f"{ENVIRONMENT}/bin/python", SCRIPT)
            limits = self._limits_of_run(seconds)
            shared = SharedExecution(self._start(argv, diffs, limits, env, {SCRIPT: script}))
            self._scripts[key] = shared
        return await shared.wait_for_result()

    async def run_command(
        self,
        argv: Sequence[str],
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        output_bytes: int | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Execution:
        """See `Sandbox.run_command`. Programs of the environment go by their bare names."""
        if not argv:
            raise ValueError("There is no program to run.")
        limits = self._limits_of_run(seconds, output_bytes)
        return await SharedExecution(self._start(argv, diffs, limits, env, {})).wait_for_result()

    async def close(self) -> None:
        """Stop what still runs, and wait until its containers are gone."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _start(
        self,
        argv: Sequence[str],
        diffs: Sequence[str],
        limits: Limits,
        env: Mapping[str, str],
        files: Mapping[str, str],
    ) -> asyncio.Task[Execution]:
        job = Job(
            steps=[argv],
            checkout=CHECKOUT,
            environment={**PROGRAM_ENVIRONMENT, **env},
            tree=TREE,
            diffs=diffs,
            files=files,
        )
        task = asyncio.create_task(self._execute(job, limits))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _limits_of_run(self, seconds: float | None, output_bytes: int | None = None) -> Limits:
        changed = {"seconds": seconds, "output_kept_bytes": output_bytes}
        wanted = {name: value for name, value in changed.items() if value is not None}
        return Limits.model_validate(self._default_limits.model_dump() | wanted)
