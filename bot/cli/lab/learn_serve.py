"""`capuchin learn serve`: instances as environments for reinforcement learning, over HTTP."""

import argparse
import asyncio
import secrets
import signal
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from fastapi import Body, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware

from bot.cli import parse_port
from bot.cli.display import print_progress
from bot.cli.lab.evaluate_grade import Workplaces, check_trees, open_runner
from bot.server.connections import serve_app
from bot.settings import Settings
from pipeline.data.options import Options
from pipeline.lab.dataset import BadData, read_rows
from pipeline.lab.grading import GradedInstance
from pipeline.lab.learning.episodes import Episode, EpisodeReward, Judges, Refused
from pipeline.lab.recall import CannotMeasure
from pipeline.resources import Workspace
from pipeline.store import DirStore, ScopedStore, Store
from sandbox.errors import SandboxError
from sandbox.frozen import Frozen
from sandbox.scratch import scratch_folder

LOOPBACK: Final = ("127.0.0.1", "localhost")


class DoorLimits(Frozen):
    open: int = 64
    """Environments at a time; they share the containers of their instance."""
    idle_seconds: float = 1800
    """After so long without a step, an environment is closed."""
    command_seconds: float = 100
    """Processor time of one command."""
    body_bytes: int = 2_000_000
    """Of one request."""


@dataclass(eq=False)
class _Instance:
    """An instance's place, which a task of its own keeps open as long as it has users."""

    ready: "asyncio.Future[Workspace]"
    users: int = 0
    unused: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


@dataclass(eq=False)
class _Open:
    """An open environment."""

    episode: Episode
    instance: _Instance
    used: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Door:
    """The open environments. Only who opened one knows its name."""

    def __init__(
        self, rows: Sequence[GradedInstance], places: Workplaces, store: Store, limits: DoorLimits
    ) -> None:
        self._rows = {row.instance_id: row for row in rows}
        self._limits = limits
        self._places = places
        self._store = store
        self._instances: dict[str, _Instance] = {}
        self._open: dict[str, _Open] = {}
        self._opening = 0

    def list_instances(self) -> list[str]:
        return list(self._rows)

    async def reset(self, instance_id: Annotated[str, Body(embed=True)]) -> dict[str, str]:
        """Open a new environment of an instance."""
        row = self._rows.get(instance_id)
        if row is None:
            raise HTTPException(404, "There is no such instance.")
        if len(self._open) + self._opening >= self._limits.open:
            words = f"{self._limits.open} environments are open: close one, or ask again later."
            raise HTTPException(503, words, {"Retry-After": "10"})
        self._opening += 1
        try:
            instance, space = await self._enter(row)
        finally:
            self._opening -= 1
        key = secrets.token_hex(16)
        self._open[key] = _Open(Episode(row, space), instance)
        told = row.model_dump(include={"instance_id", "repo", "problem_statement"})
        return {"environment": key, **told}

    async def run(
        self,
        key: str,
        command: Annotated[str, Body(min_length=1, max_length=50_000)],
        seconds: Annotated[float, Body(gt=0)] = 3600,
    ) -> dict[str, object]:
        async with self._step(key) as episode:
            return await episode.run(command, min(seconds, self._limits.command_seconds))

    async def read(
        self, key: str, path: Annotated[str, Body()], first: Annotated[int, Body(ge=1)] = 1
    ) -> dict[str, str]:
        async with self._step(key) as episode:
            return {"text": await episode.read(path, first), "refused": ""}

    async def write(
        self, key: str, path: Annotated[str, Body()], text: Annotated[str | None, Body()]
    ) -> dict[str, str]:
        async with self._step(key) as episode:
            await episode.write(path, text)
            return {"refused": ""}

    async def submit(self, key: str) -> dict[str, str]:
        async with self._step(key) as episode:
            return {"diff": episode.submit()}

    async def grade(
        self, key: str, by: Annotated[Judges, Body(embed=True)] = "hidden"
    ) -> EpisodeReward:
        async with self._step(key) as episode:
            return await episode.grade(by)

    async def close(self, key: str) -> None:
        """Close an environment when its step has ended, and the containers with the last one."""
        async with self._step(key):
            one = self._open.pop(key)
        await self._leave(one.instance)

    @asynccontextmanager
    async def _step(self, key: str) -> AsyncGenerator[Episode]:
        gone = HTTPException(404, "There is no such environment, or it is closed.")
        one = self._open.get(key)
        if one is None:
            raise gone
        async with one.lock:
            if key not in self._open:  # closed while this waited
                raise gone
            try:
                yield one.episode
            finally:
                one.used = time.monotonic()

    @asynccontextmanager
    async def live(self, _: FastAPI) -> AsyncGenerator[None]:
        """Close what nobody uses; at the end, all."""
        sweeping = asyncio.create_task(self._close_idle())
        yield
        tasks = [sweeping, *(one.task for one in self._instances.values() if one.task)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(self._limits.idle_seconds / 4)
            latest = time.monotonic() - self._limits.idle_seconds
            for key, one in tuple(self._open.items()):
                if one.used < latest and not one.lock.locked():
                    with suppress(HTTPException):  # somebody else has closed it
                        await self.close(key)

    async def _enter(self, row: GradedInstance) -> tuple[_Instance, Workspace]:
        one = self._instances.get(row.instance_id)
        if one is None:
            one = _Instance(asyncio.get_running_loop().create_future())
            one.task = asyncio.create_task(self._keep(row, one))
            self._instances[row.instance_id] = one
        one.users += 1
        try:
            return one, await asyncio.shield(one.ready)
        except BaseException:
            await self._leave(one)
            raise

    async def _leave(self, one: _Instance) -> None:
        one.users -= 1
        if not one.users and one.task:
            self._instances = {k: v for k, v in self._instances.items() if v is not one}
            one.unused.set()
            await asyncio.wait([one.task])

    async def _keep(self, row: GradedInstance, one: _Instance) -> None:
        try:
            async with self._places.open(row, ScopedStore(self._store, row.instance_id)) as place:
                # Where the reference edit gets no reward, a 0 would say nothing.
                grade = await place.build_grader(row).grade(row.patch)
                if grade.cannot_tell:
                    raise CannotMeasure(grade.cannot_tell)  # noqa: TRY301
                space = Workspace(place.sandbox, place.codebase, place.store, Options())
                one.ready.set_result(space)
                await one.unused.wait()
            await self._places.evict_images()
        except Exception as error:  # noqa: BLE001 - raised in the requests that wait
            print_progress(f"{row.instance_id}: {error}")
            if not one.ready.done():
                one.ready.set_exception(error)


def build_app(door: Door, limits: DoorLimits, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """`hosts`: the names by which it may be called."""

    async def limit(request: Request, answer: RequestResponseEndpoint) -> Response:
        size = request.headers.get("content-length", "0")
        if "transfer-encoding" in request.headers or int(size) > limits.body_bytes:
            return JSONResponse({"detail": "The request is too large."}, 413)
        return await answer(request)

    app = FastAPI(lifespan=door.live, openapi_url=None)
    app.add_middleware(BaseHTTPMiddleware, dispatch=limit)
    # No page in a browser may reach it by a name of its own that leads here.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.get("/instances")(door.list_instances)
    app.post("/environments")(door.reset)
    for step in (door.run, door.read, door.write, door.submit, door.grade):
        app.post(f"/environments/{{key}}/{step.__name__}")(step)
    app.delete("/environments/{key}", status_code=204)(door.close)
    for kind in (Refused, CannotMeasure, SandboxError):
        app.add_exception_handler(kind, _tell)
    return app


def _tell(_: Request, error: Exception) -> Response:
    """A refusal is an answer for the policy; nothing else is. None names a hidden test."""
    if isinstance(error, Refused):
        return JSONResponse({"refused": str(error)})
    if isinstance(error, CannotMeasure):
        words = "This instance cannot be graded here: leave it out. The door prints why."
        return JSONResponse({"detail": words}, 409)
    words = "The sandbox did not answer, which is no result: ask again."
    return JSONResponse({"detail": words}, 503, {"Retry-After": "10"})


async def serve(instances: Path, trees: Path, address: str, settings: Settings) -> None:
    """Serve until a signal ends it; prints the address.

    Raises:
        BadData: the instances, the clones or the address cannot be used.
        OSError: the port is taken.
    """
    rows = await asyncio.to_thread(read_rows, instances, GradedInstance)
    await asyncio.to_thread(check_trees, trees)
    host, _, port = address.rpartition(":")
    try:
        number = parse_port(port)
    except argparse.ArgumentTypeError as error:
        raise BadData(f"{address}: give HOST:PORT. {error}.") from None
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with AsyncExitStack() as stack:
        scratch = stack.enter_context(scratch_folder("serve"))
        runner = await stack.enter_async_context(open_runner(settings))
        places, limits = Workplaces(trees, settings, runner), DoorLimits()
        door = Door(rows, places, DirStore(scratch), limits)
        app = build_app(door, limits, LOOPBACK if host in LOOPBACK else ("*",))
        url = await stack.enter_async_context(serve_app(app, host, number))
        sys.stdout.write(f"{len(rows)} instances at {url}\n")
        sys.stdout.flush()
        await stop.wait()
