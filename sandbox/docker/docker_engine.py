"""Prepares environments and opens sandboxes on a Docker host.

Executions run in warm containers, each execution in new namespaces (`warm_container.py`); where the
host does not support that, in a container each (`cold_execution.py`). The SDK blocks, so all its
calls run in threads: as many executions at once as `DockerOptions.parallel`, over all sandboxes.
"""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncGenerator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

import docker

from sandbox.docker.base_image import base_reference, ensure_base_image, image_exists
from sandbox.docker.build_image import EnvironmentBuild
from sandbox.docker.build_network import NETWORK
from sandbox.docker.cold_execution import ColdExecution
from sandbox.docker.container import Daemon, Runtime, choose_runtime, seccomp_profile
from sandbox.docker.docker_client import DockerAddress, check_daemon, translate_docker_errors
from sandbox.docker.images import (
    clean_host,
    collect_base_images,
    collect_images,
    push_image,
    read_dockerfile_environment,
    read_image_installation,
    reap_containers,
)
from sandbox.docker.warm_container import open_warm_container
from sandbox.engine import CleanupResult, EnvironmentRequest, OnProgress
from sandbox.environment.build_options import BuildOptions
from sandbox.environment.recipe import Attempt, Installation
from sandbox.errors import SandboxUnavailable
from sandbox.execution.cancellation import run_stoppable, wait_until_done
from sandbox.execution.jobs import Job
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import ConfiguredMode, ExecutionMode, WarmPool
from sandbox.execution.warm_worker import WarmContainer
from sandbox.frozen import replace
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.program import NO_BUILD, EditBuild, Execution, Limits


@dataclass(frozen=True)
class DockerOptions:
    """Where Docker is, and how executions run there."""

    owner: str = "capuchin"
    """The installation, where several share a daemon: each removes its own containers only."""
    address: DockerAddress = field(default_factory=DockerAddress)
    limits: Limits = field(default_factory=Limits)
    parallel: int = 2
    """How many executions, and how many builds, run at once."""
    mode: ConfiguredMode = "auto"
    """`warm`: containers that run one execution after another, each in new namespaces.
    `cold`: a container for each execution. `auto`: warm where the host supports it."""
    runtime: str = "auto"
    """What starts containers: the name of a runtime that the daemon knows, `default` for the
    daemon's own choice, or `auto` for gVisor where the daemon knows `runsc`."""
    base_image: str = ""
    """The image to build the base image on, if not the usual one; it may hold more Pythons."""
    build: BuildOptions = field(default_factory=BuildOptions)
    """What installations may use; executions see nothing of it."""


class DockerConnection:
    """Connects at the first call of `client`, and again after the connection was lost. Blocking."""

    def __init__(self, address: DockerAddress, *, runtime: str) -> None:
        """`runtime` is as in `DockerOptions`."""
        self.address = address
        self.runtime = Runtime(seccomp_profile())
        """Its name is known once `client` has connected."""
        self.cpus = 1.0
        """How many processors the daemon has, once `client` has connected."""
        self._requested_runtime = runtime
        self._lock = threading.Lock()
        self._connected: docker.APIClient | None = None
        self._is_closed = False

    def client(self) -> docker.APIClient:
        """Raises `SandboxUnavailable` if the daemon does not answer or lacks the runtime."""
        with self._lock:
            if self._connected is not None and self.address.is_lost:
                self._connected.close()
                self._connected = None
            if self._connected is None:
                self._connected = self._connect()
            if self._is_closed:
                self._connected.close()
            return self._connected

    def limit_cpus(self, limits: Limits) -> Limits:
        """`limits` with no more processors than the daemon has: it would refuse the container."""
        return replace(limits, cpus=min(limits.cpus, self.cpus))

    def close(self) -> None:
        """Does not wait for a thread that is still at work: it may even connect after this."""
        self._is_closed = True
        if self._connected is not None:
            self._connected.close()
        self.address.close()

    def _connect(self) -> docker.APIClient:
        client = self.address.connect()
        try:
            with translate_docker_errors("Docker does not answer"):
                info: dict[str, Any] = client.info()
            name = choose_runtime(self._requested_runtime, info["Runtimes"])
        except SandboxUnavailable:
            client.close()
            raise
        self.cpus = float(info["NCPU"])
        self.runtime = dataclasses.replace(self.runtime, name=name)
        return client


P = ParamSpec("P")
T = TypeVar("T")


class DockerEngine:
    """Docker, as this process uses it. The constructor does nothing; the first call connects.

    Every method raises `SandboxUnavailable` if the daemon does not answer.
    """

    def __init__(self, options: DockerOptions) -> None:
        self.limits = options.limits
        self._options = options
        self.hide_secrets = options.build.redact
        self._connection = DockerConnection(options.address, runtime=options.runtime)
        self._execution_mode = ExecutionMode(options.mode)
        parallel = options.parallel
        self._executions = ThreadPoolExecutor(parallel, thread_name_prefix="sandbox")
        self._builds = ThreadPoolExecutor(parallel, thread_name_prefix="sandbox-build")
        self._chores = ThreadPoolExecutor(2, thread_name_prefix="sandbox-chore")

    async def check(self) -> str:
        """The daemon's version and how executions run there, in words.

        Raises:
            SandboxUnavailable: the daemon does not answer or cannot isolate; says what to do.
        """
        found = await self._call(check_daemon)
        if self._connection.runtime.name:
            found += f" with {self._connection.runtime.name}"
        base = base_reference(self._options.base_image)
        if await self._call(image_exists, base):
            async with self._open_pool(base, "") as warm_pool:
                await self._execution_mode.is_warm(self._executions, warm_pool)
        return f"{found}, {self._execution_mode}"

    async def prepare(
        self,
        request: EnvironmentRequest,
        attempt: Attempt,
        *,
        on_progress: OnProgress | None = None,
    ) -> str:
        """The image of the request's tree, installed as `attempt` says.

        It is built once and found again afterwards. `on_progress` is called in the event loop with
        short sentences.

        Raises:
            EnvironmentFailed: the repository could not be installed.
        """
        loop = asyncio.get_running_loop()

        def report_progress(sentence: str) -> None:
            if on_progress is not None:
                loop.call_soon_threadsafe(on_progress, sentence)

        daemon = await self._run_chore(lambda: self._daemon(request.run_id))
        base = await loop.run_in_executor(
            self._builds,
            lambda: ensure_base_image(
                daemon.client,
                root=self._options.base_image,
                address=self._options.address,
                network=NETWORK,
                on_progress=report_progress,
            ),
        )
        options = dataclasses.replace(
            self._options.build,
            disk_mb=self.limits.disk_mb,
            cpus=self._connection.cpus,
            scope=request.scope,
        )
        build = EnvironmentBuild(
            daemon,
            request.tree,
            attempt.recipe,
            base=base,
            options=options,
            on_progress=report_progress,
        )
        return await run_stoppable(self._builds, build)

    async def read_installation(self, image: str) -> Installation | None:
        """What the installer recorded in a prepared image; None for an image without a record."""
        return await self._call(read_image_installation, image)

    @asynccontextmanager
    async def open(
        self, image: str, *, run_id: str, build: EditBuild = NO_BUILD
    ) -> AsyncGenerator[SandboxSession, None]:
        """A sandbox on a prepared image; nothing of it is left when the block ends."""
        environments: list[dict[str, str] | None] = []

        async def execute(job: Job, limits: Limits) -> Execution:
            if not environments:
                environments.append(await self._call(read_dockerfile_environment, image))
            environment = environments[0]
            if environment is not None:
                # Process 1 comes from the repository's Dockerfile: it gets no more freedom than
                # tests.
                job = dataclasses.replace(job, environment=environment)
            elif await self._execution_mode.is_warm(self._executions, warm_pool):
                return await warm_pool.run(self._executions, job, limits)
            daemon = await self._run_chore(lambda: self._daemon(run_id))
            limits = self._connection.limit_cpus(limits)
            return await run_stoppable(
                self._executions, ColdExecution(daemon, image, job, limits=limits)
            )

        async with self._open_pool(image, run_id) as warm_pool:
            sandbox = SandboxSession(
                image, limits=self.limits, execute=execute, build=build, hide=self.hide_secrets
            )
            try:
                yield sandbox
            finally:
                await sandbox.close()

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int:
        """Remove the containers of runs that are not in `live_runs`; how many there were.

        Containers younger than `older_than` seconds stay: their run may be newer than `live_runs`.
        """
        return await self._call(
            reap_containers,
            owner=self._options.owner,
            live_runs=frozenset(live_runs),
            older_than=older_than,
        )

    async def collect(self, *, max_bytes: int) -> int:
        """Remove environment images until the rest fits into `max_bytes`; how many bytes went.

        The least recently used go first; one that a container uses stays. 0 removes all others.
        Base images of other versions go when they have not been used for two weeks.
        """
        freed = await self._call(collect_images, maker=self._options.owner, max_bytes=max_bytes)
        await self._call(
            collect_base_images,
            keep=base_reference(self._options.base_image),
            unused_seconds=14 * 24 * 3600,
        )
        return freed

    async def clean(self, *, live_runs: Collection[str]) -> CleanupResult:
        """Remove all that we made, except what a live run uses and this version's base image."""
        return await self._call(
            clean_host,
            owner=self._options.owner,
            live_runs=frozenset(live_runs),
            keep=base_reference(self._options.base_image),
        )

    async def push(self, image: str, registry: str) -> str:
        """Push `image` to a registry such as `registry.example.org/capuchin`.

        Returns its name there, by digest.

        Raises:
            SandboxUnavailable: Docker or the registry refuses it.
        """
        return await self._call(push_image, image, registry)

    async def close(self) -> None:
        """Release threads and connections; wait for what still runs."""
        for pool in (self._executions, self._builds, self._chores):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._connection.close)

    @asynccontextmanager
    async def _open_pool(self, image: str, run_id: str) -> AsyncGenerator[WarmPool, None]:
        def open_container() -> WarmContainer:
            daemon = self._daemon(run_id)
            limits = self._connection.limit_cpus(self.limits)
            return open_warm_container(daemon, image, limits=limits)

        warm_pool = WarmPool(open_container)
        try:
            yield warm_pool
        finally:
            await wait_until_done(asyncio.ensure_future(self._run_chore(warm_pool.close)))

    async def _call(
        self,
        function: Callable[Concatenate[docker.APIClient, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return await self._run_chore(lambda: function(self._connection.client(), *args, **kwargs))

    async def _run_chore(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._chores, work)

    def _daemon(self, run_id: str) -> Daemon:
        """The daemon, for the containers of a run. Blocking; may raise `SandboxUnavailable`."""
        labels = {LABEL_RUN: run_id, LABEL_OWNER: self._options.owner}
        return Daemon(self._connection.client(), self._connection.runtime, labels)
