"""One open sandbox: a prepared image and the executions in it."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from sandbox.execution.cancellation import SharedExecution
from sandbox.execution.jobs import Job, check_verdict, to_command_run, wrap_script
from sandbox.frozen import replace
from sandbox.layout import CHECKOUT, PROGRAM_ENVIRONMENT, TREE
from sandbox.observation import Kind, observe
from sandbox.program import NO_BUILD, CommandRun, EditBuild, Execution, Limits, OutputWatch, Program

Execute = Callable[[Job, Limits], Coroutine[Any, Any, Execution]]


class SandboxSession:
    """One prepared image; implements `sandbox.base.Sandbox`. Made by `DockerEngine.open`."""

    def __init__(
        self,
        image: str,
        *,
        limits: Limits,
        execute: Execute,
        build: EditBuild = NO_BUILD,
        hide: Callable[[str], str] = str,
    ) -> None:
        """`hide` takes the secrets of builds out of what executions print."""
        self.image = image
        self._hide = hide
        self._build = build
        self._default_limits = limits
        self._execute = execute
        self._running: set[asyncio.Task[Execution]] = set()
        self._shared: dict[object, SharedExecution] = {}

    async def run(self, program: Program) -> Execution:
        """See `Sandbox.run`. Equal programs that may share a run are run once in a session."""
        if not program.may_share:
            return await SharedExecution(self._start(program)).wait_for_result()
        key = (
            tuple(program.argv),
            tuple(program.diffs),
            program.seconds,
            program.output_bytes,
            program.may_wait,
            program.built,
            tuple(sorted(program.env.items())),
            tuple(sorted(program.files.items())),
        )
        shared = self._shared.get(key)
        if shared is None or shared.is_unusable():
            shared = self._shared[key] = SharedExecution(self._start(program))
        return await shared.wait_for_result()

    async def run_command(self, program: Program) -> CommandRun:
        """See `Sandbox.run_command`."""
        started = self._start(program, capture=True)
        return to_command_run(await SharedExecution(started).wait_for_result())

    async def close(self) -> None:
        """Stop what still runs, and wait until its containers are gone."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _start(self, program: Program, *, capture: bool = False) -> asyncio.Task[Execution]:
        what = "script" if program.script else "tests" if program.watch else "command"
        program, nonce = wrap_script(program)
        job = Job(
            steps=[program.argv],
            checkout=CHECKOUT,
            environment={**PROGRAM_ENVIRONMENT, **program.env},
            tree=TREE,
            diffs=program.diffs,
            files=program.files,
            capture=capture,
            may_wait=program.may_wait,
            build=self._build if program.built else replace(self._build, lines=()),
            watch=_call_in_loop(program.watch),
        )
        stated = {"seconds": program.seconds, "output_kept_bytes": program.output_bytes}
        wanted = {name: value for name, value in stated.items() if value is not None}
        limits = Limits.model_validate(self._default_limits.model_dump() | wanted)

        async def execute() -> Execution:
            with observe(Kind.EXECUTION, what=what) as event:
                execution = check_verdict(await self._execute(job, limits), nonce)
                shown = await asyncio.to_thread(self._hide, execution.output)
                if shown != execution.output:
                    execution = replace(execution, output=shown)
                event.facts["ending"] = execution.ending.value
                event.facts["cpu_seconds"] = execution.cpu_seconds or 0.0
                return execution

        task = asyncio.create_task(execute())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


def _call_in_loop(watch: OutputWatch | None) -> OutputWatch | None:
    """`watch` for other threads: its reports are called in the running loop."""
    if watch is None:
        return None
    loop, report = asyncio.get_running_loop(), watch.report

    def call(text: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(report, text)

    return OutputWatch(watch.mark, call)
