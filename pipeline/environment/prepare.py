"""Attempt after attempt, each judged by what runs in it; remembers the best.

plan ─▶ build ─▶ check ─▶ healthy: done · usable: one more · broken: the next ─▶ a model

The best is kept. Every attempt is saved, so that a restarted run resumes where it stopped.
"""

import asyncio
import dataclasses
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.progress import Doing, EnvironmentFound, OnProgress
from pipeline.environment.check import HealthCheck
from pipeline.environment.health import Grade
from pipeline.environment.record import (
    MODEL_ATTEMPT,
    REMEMBERED_ATTEMPT,
    EnvironmentRecord,
    TriedAttempt,
    best_of,
    explain_failure,
    fail_alike,
    is_enough,
    name_asker,
    state_day,
    state_found,
    state_python,
)
from pipeline.environment.setup_machine import EnvironmentMachine, EnvironmentState, render_question
from pipeline.languages.detect import plan_attempts
from pipeline.languages.registry import is_manifest, languages_of, main_language
from pipeline.models.base import Model
from pipeline.resources import drive_on_budget
from pipeline.store import ScopedStore, Store
from sandbox.base import Sandbox
from sandbox.engine import Engine, EnvironmentRequest
from sandbox.environment.recipe import Attempt
from sandbox.errors import EnvironmentFailed
from sandbox.frozen import Frozen, replace
from sandbox.program import CommandRun, EditBuild, Execution, Program, with_variables

SETUP_KEY: Final = "environment/setup"


class WorkingAttempt(Frozen):
    manifests: str
    """The digest of the files that declare what to install; it must match."""
    name: str
    setup: tuple[str, ...] = ()
    """A model's commands; empty if `name` is an attempt of the plan."""
    python: str = ""
    """The Python that those commands want, `3.N`; empty for the default."""


class EnvironmentMemory:
    """The memory of one repository. `store` is the repository's; None saves nothing."""

    def __init__(self, store: Store | None, codebase: Codebase) -> None:
        self._store = store
        self._codebase = codebase

    async def load(self) -> WorkingAttempt | None:
        """Load the attempt that worked for exactly the same manifests."""
        if self._store is None:
            return None
        manifests = await asyncio.to_thread(digest_of_manifests, self._codebase)
        found = await self._store.load(f"environment/{manifests}", WorkingAttempt)
        return found if found and found.manifests == manifests else None

    async def save(self, attempt: TriedAttempt) -> None:
        if self._store is None:
            return
        manifests = await asyncio.to_thread(digest_of_manifests, self._codebase)
        worked = WorkingAttempt(
            manifests=manifests, name=attempt.name, setup=attempt.setup, python=attempt.python
        )
        await self._store.save(f"environment/{manifests}", worked)
        if worked.setup:
            await self._store.save(SETUP_KEY, worked)


async def load_working_setup(store: Store) -> WorkingAttempt | None:
    """Load a model's commands that last made the repository's environment work. Untrusted."""
    return await store.load(SETUP_KEY, WorkingAttempt)


def digest_of_manifests(codebase: Codebase) -> str:
    """A digest that changes with every file that declares what to install."""
    languages = languages_of(codebase)
    known = sorted(
        (path, file.blob)
        for path, file in codebase.files.items()
        if is_manifest(path, codebase.root, languages)
    )
    return hashlib.sha256(repr(known).encode()).hexdigest()[:32]


def digest_of_request(request: EnvironmentRequest) -> str:
    """A digest that changes with everything that decides what is installed."""
    stated = (tuple(request.setup), request.dockerfile or request.image, request.python)
    stated += (request.as_of, request.root, request.language)
    stated += (tuple(request.build), tuple(request.env.items()))
    whole = repr((request.tree.digest, *stated, request.described))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


FAILED_KEY: Final = "environment/failed"
"""The record of a repository that could not be installed in any way."""

Planner = Callable[[EnvironmentRequest], Awaitable[tuple[Attempt, ...]]]


@dataclass(frozen=True)
class Environment:
    image: str
    sandbox: Sandbox
    record: EnvironmentRecord


@dataclass(frozen=True)
class EnvironmentTask:
    engine: Engine
    request: EnvironmentRequest
    repository: str
    """Its name, for models."""
    codebase: Codebase
    options: Options
    store: Store
    image_store: Callable[[str], Store] | None = None
    """From an image to the store of its findings; None: they are saved in `store`."""
    repository_store: Store | None = None
    """The store shared by the repository's runs; None: nothing is shared."""
    model: Model | None = None
    """Writes commands if no attempt works; None: no commands are written."""
    on_progress: OnProgress | None = None
    """Receives a sentence for each attempt, and the environment that serves."""
    plan: Planner = plan_attempts
    look: bool = True
    """Whether to check the health of an environment that served an earlier run."""


@asynccontextmanager
async def open_environment(task: EnvironmentTask) -> AsyncGenerator[Environment]:
    """Open the best available environment, with a sandbox that the block's end closes.

    Raises:
        EnvironmentFailed: nothing could be installed; names the attempts and why they failed.
        ModelError, SandboxUnavailable: call again to resume.
    """
    async with AsyncExitStack() as stack:
        language = main_language(task.codebase)
        variables = {**await language.variables(task.codebase), **task.request.env}
        build = await language.edit_build(task.codebase)
        lines = with_variables(task.request.build or build.lines, variables)
        opener = _SandboxOpener(
            task.engine,
            task.request.run_id,
            stack,
            variables=variables,
            build=replace(build, lines=lines),
        )
        record = await _Ladder(task, opener).climb()
        del task  # the archive of the checkout is in the image now
        assert record.best is not None
        sandbox = await opener.open(record.best.image)
        yield Environment(record.best.image, sandbox, record)


def open_image_store(
    store: Store, image: str, shared: Callable[[str], Store] | None = None
) -> Store:
    """The store of the findings in the environment `image`: a part of the run's `store`, unless
    they are `shared` by runs."""
    return shared(image) if shared else ScopedStore(ScopedStore(store, "environment"), image)


class _InformedSandbox:
    """A sandbox in which every program sees the variables that the repository sets for tests."""

    def __init__(self, sandbox: Sandbox, variables: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        self._variables = variables

    async def run(self, program: Program) -> Execution:
        return await self._sandbox.run(self._complete(program))

    async def run_command(self, program: Program) -> CommandRun:
        return await self._sandbox.run_command(self._complete(program))

    def _complete(self, program: Program) -> Program:
        return dataclasses.replace(program, env={**self._variables, **program.env})


@dataclass(eq=False)
class _SandboxOpener:
    """Keeps one sandbox open at a time: the one checked last is usually the one in use."""

    engine: Engine
    run_id: str
    stack: AsyncExitStack
    _: KW_ONLY
    variables: Mapping[str, str]
    build: EditBuild
    _open: tuple[str, Sandbox] | None = field(init=False, default=None)

    async def open(self, image: str) -> Sandbox:
        if self._open and self._open[0] == image:
            return self._open[1]
        self._open = None
        await self.stack.aclose()
        sandbox: Sandbox = await self.stack.enter_async_context(
            self.engine.open(image, run_id=self.run_id, build=self.build)
        )
        if self.variables:
            sandbox = _InformedSandbox(sandbox, self.variables)
        self._open = (image, sandbox)
        return sandbox


@dataclass(frozen=True)
class _Way:
    name: str
    summary: str
    request: EnvironmentRequest
    attempt: Attempt | None = None
    """None: the attempt that `request` names by its `setup`."""


class _Ladder:
    def __init__(self, task: EnvironmentTask, opener: _SandboxOpener) -> None:
        self._opener = opener
        self._task = task
        self._key = f"environment/{digest_of_request(task.request)}"
        self._check = HealthCheck(task.codebase, task.options)
        self._memory = EnvironmentMemory(task.repository_store, task.codebase)

    async def climb(self) -> EnvironmentRecord:
        """Find the attempt to use; return its record, with its image available."""
        plan = await self._task.plan(self._task.request)
        record = await self._task.store.load(f"{self._key}/record", EnvironmentRecord)
        if record and record.finished:
            record = await self._restore(record, plan)
        else:
            record = await self._try_all(record or EnvironmentRecord(), plan)
            if self._may_ask(record, plan):
                record = await self._ask_model(record)
            record = await self._finish(record)
        if self._task.on_progress and record.best:
            self._task.on_progress(EnvironmentFound(record.best.line()))
        return record

    async def _restore(
        self, record: EnvironmentRecord, plan: Sequence[Attempt]
    ) -> EnvironmentRecord:
        """Restore the record; its image is rebuilt if it was removed in the meantime."""
        best = record.best
        assert best is not None
        ways = self._order(plan, None)
        way = next((way for way in ways if way.name == best.name), None)
        if best.setup or way is None:
            way = self._way_of_setup(best.name, best.summary, best.setup, best.python)
        attempt = way.attempt or (await plan_attempts(way.request))[0]
        image = await self._task.engine.prepare(way.request, attempt)
        tried = [one if one is not best else replace(one, image=image) for one in record.tried]
        return replace(record, tried=tuple(tried))

    async def _try_all(
        self, record: EnvironmentRecord, plan: Sequence[Attempt]
    ) -> EnvironmentRecord:
        remembered = None if plan[0].only else await self._memory.load()
        for way in self._order(plan, remembered):
            if any(attempt.name == way.name for attempt in record.tried):
                continue
            if is_enough(record):
                break
            look = self._task.look or remembered is None or way.name != remembered.name
            record = await self._add(record, await self._try(way, look=look))
        return record

    def _order(self, plan: Sequence[Attempt], remembered: WorkingAttempt | None) -> list[_Way]:
        """The plan's attempts, after the one that served an earlier run with the same manifests."""
        ways = [_Way(one.name, one.summary, self._task.request, one) for one in plan]
        if remembered and remembered.setup:
            words = "Commands that a model wrote for an earlier run"
            first = self._way_of_setup(
                REMEMBERED_ATTEMPT, words, remembered.setup, remembered.python
            )
            return [first, *ways]
        if remembered:
            ways.sort(key=lambda way: way.name != remembered.name)
        return ways

    def _way_of_setup(self, name: str, summary: str, setup: Sequence[str], python: str) -> _Way:
        request = self._task.request
        request = dataclasses.replace(request, setup=setup, python=python or request.python)
        return _Way(name, summary, request)

    async def _try(self, way: _Way, *, look: bool = True) -> TriedAttempt:
        """Build and check. Failures are recorded in the attempt, not raised."""
        task, began = self._task, time.monotonic()
        tried = TriedAttempt(name=way.name, summary=way.summary)
        self._report(f"Installing: {way.summary}")
        try:
            attempt = way.attempt or (await plan_attempts(way.request))[0]
            image = await task.engine.prepare(way.request, attempt, on_progress=self._report)
        except EnvironmentFailed as error:
            told = state_found(way.summary, error.log)
            tried = replace(tried, summary=told, problem=str(error), command=error.command)
            tried = replace(tried, log=error.log[-8000:])
            if way.request.python != task.request.python:
                tried = name_asker(tried, way.request.python)
        else:
            tried = replace(tried, image=image)
            if look:
                self._report("Checking that it works and that its tests run.")
                sandbox = await self._opener.open(image)
                store = open_image_store(task.store, image, task.image_store)
                health = await self._check.check(sandbox, store)
                summary = state_python(way.summary, health.python)
                if found := await task.engine.read_installation(image):
                    summary = state_day(summary, found.as_of, found.later)
                    health = replace(health, cut=found.cut)
                tried = replace(tried, health=health, summary=summary)
        return replace(tried, seconds=time.monotonic() - began)

    async def _add(self, record: EnvironmentRecord, tried: TriedAttempt) -> EnvironmentRecord:
        self._report(tried.line())
        record = replace(record, tried=(*record.tried, tried))
        await self._save(record)
        return record

    def _may_ask(self, record: EnvironmentRecord, plan: Sequence[Attempt]) -> bool:
        """Whether to ask a model: it must not override the maintainers' own setup, whose errors are
        reported."""
        best = best_of(record.tried)
        if record.tried and all(attempt.met_no_index for attempt in record.tried):
            return False  # commands need it, too
        if record.tried and all(attempt.lacks_python for attempt in record.tried):
            return False
        if fail_alike(record.tried):
            return False  # what fails in different environments fails in another one, too
        broken = best is None or record.tried[best].grade is Grade.BROKEN
        looked = best is None or record.tried[best].health is not None
        return broken and looked and self._task.model is not None and not plan[0].only

    async def _ask_model(self, record: EnvironmentRecord) -> EnvironmentRecord:
        task = self._task
        assert task.model is not None
        works = any(one.health and one.health.passed for one in record.tried)
        enough = " well enough" if works else ""
        self._report(f"No attempt works{enough}, so a model writes the commands.")

        async def build(setup: Sequence[str], python: str) -> TriedAttempt:
            number = len(setup)
            words = f"{number} commands by a model" if number > 1 else "A command by a model"
            way = self._way_of_setup(MODEL_ATTEMPT, words, setup, python)
            tried = replace(await self._try(way), setup=tuple(setup), python=python)
            self._report(tried.line())
            return tried

        question = await render_question(task.repository, task.codebase, record.tried)
        machine = EnvironmentMachine(
            task.model,
            attempts=task.options.attempts,
            question=question,
            build=build,
            language=main_language(task.codebase),
        )
        state = await drive_on_budget(machine, EnvironmentState, task.store, f"{self._key}/machine")
        return replace(
            record,
            tried=(*record.tried, *state.tried),
            asked=True,
            given_up=state.given_up or state.ceiling,
        )

    async def _finish(self, record: EnvironmentRecord) -> EnvironmentRecord:
        chosen = best_of(record.tried)
        if chosen is None:
            await self._task.store.save(FAILED_KEY, record)
            # A restart tries everything again: the index may have been unavailable.
            await self._save(EnvironmentRecord())
            raise explain_failure(record, await self._task.codebase.list_absent())
        best = record.tried[chosen]
        found = await self._task.engine.read_installation(best.image)
        record = replace(record, chosen=chosen, installation=found, finished=True)
        await self._save(record)
        if chosen + 1 < len(record.tried):  # the last line would suggest another
            self._report(f"Using the best of these: {best.summary}")
        if best.grade > Grade.BROKEN:
            await self._memory.save(best)
        elif best.health:
            self._report(
                f"The environment {best.health.works}, and I found no better one. I will tell the "
                "model and continue."
            )
        return record

    async def _save(self, record: EnvironmentRecord) -> None:
        await self._task.store.save(f"{self._key}/record", record)

    def _report(self, sentence: str) -> None:
        if self._task.on_progress:
            self._task.on_progress(Doing(sentence))
