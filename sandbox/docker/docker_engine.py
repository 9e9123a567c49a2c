"""The engine that prepares environments and opens sandboxes on a Docker daemon.

Executions run in warm containers, each execution in new namespaces (`warm_container.py`); where the
host does not support that, in a container each (`cold_execution.py`). The SDK blocks, so all its
calls run in threads: as many executions at once as `DockerOptions.parallel`, over all sandboxes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from sandbox.base import Execution
from sandbox.docker.base_image import base_reference, ensure_base_image, image_exists
from sandbox.docker.build.environment import EnvironmentBuild
from sandbox.docker.build.lock import BuildLock
from sandbox.docker.client import check_daemon
from sandbox.docker.cold_execution import ColdExecution
from sandbox.docker.connection import DockerConnection
from sandbox.docker.images import (
    BASE_UNUSED_SECONDS,
    collect_base_images,
    collect_images,
    read_dockerfile_environment,
    read_image_installation,
)
from sandbox.docker.options import DockerOptions
from sandbox.docker.reaper import clean_host, reap_containers
from sandbox.docker.registry import push_image
from sandbox.docker.warm_container import open_warm_container
from sandbox.engine import CleanupResult, EnvironmentRequest, OnProgress, plan_attempts
from sandbox.environment.attempt import Attempt
from sandbox.environment.installation import Installation
from sandbox.execution.cancellation import ExclusiveWork, run_stoppable, wait_until_done
from sandbox.execution.job import Job
from sandbox.execution.probe import ExecutionMode
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import WarmExecution, WarmPool
from sandbox.execution.warm_worker import WarmContainer
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.limits import Limits

T = TypeVar("T")


class DockerEngine:
    """Docker, as this process uses it. The constructor does nothing; the first call connects."""

    def __init__(self, options: DockerOptions) -> None:
        self.limits = options.limits
        self._options = options
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
        found = await self._run_chore(lambda: check_daemon(self._connection.client()))
        if self._connection.runtime.name:
            found += f" with {self._connection.runtime.name}"
        base = base_reference(self._options.base_image)
        if await self._run_chore(lambda: image_exists(self._connection.client(), base)):
            warm_pool = self._create_pool(base, "")
            try:
                await self._execution_mode.is_warm(self._executions, warm_pool)
            finally:
                await self._close_pool(warm_pool)
        return f"{found}, {self._execution_mode}"

    async def plan(self, request: EnvironmentRequest) -> tuple[Attempt, ...]:
        """The ways to install the request's tree, the most promising first; at least one.

        Where the maintainers say how (`setup`, `dockerfile`), that is the only one.

        Raises:
            EnvironmentFailed: nothing in the tree can be installed.
        """
        return await self._run_chore(lambda: plan_attempts(request))

    async def prepare(
        self,
        request: EnvironmentRequest,
        attempt: Attempt | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> str:
        """The image of the request's tree, installed as `attempt` says, or the plan's first.

        It is built once and found again afterwards. `on_progress` is called in the event loop with
        short sentences.

        Raises:
            EnvironmentFailed: the repository could not be installed, or nothing in it can be.
            SandboxUnavailable: Docker failed.
        """
        loop = asyncio.get_running_loop()

        def report_progress(sentence: str) -> None:
            if on_progress is not None:
                loop.call_soon_threadsafe(on_progress, sentence)

        recipe = (attempt or (await self.plan(request))[0]).recipe
        client = await self._run_chore(self._connection.client)
        base = await loop.run_in_executor(
            self._builds,
            lambda: ensure_base_image(
                client,
                root=self._options.base_image,
                address=self._options.address,
                network=self._options.build.network,
                on_progress=report_progress,
            ),
        )
        build = EnvironmentBuild(
            client,
            request.tree,
            recipe,
            base=base,
            options=replace(
                self._options.build,
                disk_mb=self.limits.disk_mb,
                cpus=self._connection.cpus,
                scope=request.scope,
            ),
            runtime=self._connection.runtime,
            labels=self._labels(request.run_id),
            on_progress=report_progress,
        )
        lock = BuildLock(f"{self._options.address.url} {build.dependencies}")
        return await run_stoppable(self._builds, ExclusiveWork(build, lock))

    async def read_installation(self, image: str) -> Installation | None:
        """What the installer recorded in a prepared image; None for an image without a record.

        Raises:
            SandboxUnavailable: Docker does not answer.
        """
        return await self._run_chore(
            lambda: read_image_installation(self._connection.client(), image)
        )

    @asynccontextmanager
    async def open(self, image: str, *, run_id: str) -> AsyncGenerator[SandboxSession, None]:
        """A sandbox on a prepared image; nothing of it is left when the block ends."""
        warm_pool = self._create_pool(image, run_id)
        environments: list[dict[str, str] | None] = []

        async def execute(job: Job, limits: Limits) -> Execution:
            if not environments:
                environments.append(await self._run_chore(lambda: self._read_environment(image)))
            if environments[0] is None:
                return await self._execute(warm_pool, job, limits)
            # Process 1 comes from the repository's Dockerfile: it gets no more freedom than tests.
            job = replace(job, environment=environments[0])
            return await self._execute_cold(warm_pool, job, limits)

        sandbox = SandboxSession(image, limits=self.limits, execute=execute)
        try:
            yield sandbox
        finally:
            await sandbox.close()
            await self._close_pool(warm_pool)

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int:
        """Remove the containers of runs that are not in `live_runs`; how many there were.

        Containers younger than `older_than` seconds stay: their run may be newer than `live_runs`.

        Raises:
            SandboxUnavailable: Docker does not answer.
        """
        return await self._run_chore(
            lambda: reap_containers(
                self._connection.client(),
                owner=self._options.owner,
                live_runs=frozenset(live_runs),
                older_than=older_than,
            )
        )

    async def collect(self, *, max_bytes: int) -> int:
        """Remove environment images until the rest fits into `max_bytes`; how many bytes went.

        The least recently used go first; one that a container uses stays. 0 removes all others.
        Base images of other versions go when they have not been used for two weeks.

        Raises:
            SandboxUnavailable: Docker does not answer.
        """
        freed = await self._run_chore(
            lambda: collect_images(
                self._connection.client(), maker=self._options.owner, max_bytes=max_bytes
            )
        )
        await self._run_chore(
            lambda: collect_base_images(
                self._connection.client(),
                keep=base_reference(self._options.base_image),
                unused_seconds=BASE_UNUSED_SECONDS,
            )
        )
        return freed

    async def clean(self, *, live_runs: Collection[str]) -> CleanupResult:
        """Remove all that we made, except what a live run uses and this version's base image.

        Raises:
            SandboxUnavailable: Docker does not answer.
        """
        return await self._run_chore(
            lambda: clean_host(
                self._connection.client(),
                owner=self._options.owner,
                live_runs=frozenset(live_runs),
                keep=base_reference(self._options.base_image),
            )
        )

    async def push(self, image: str, registry: str) -> str:
        """Push `image` to a registry such as `registry.example.org/capuchin`.

        Returns its name there, by digest.

        Raises:
            SandboxUnavailable: Docker or the registry refuses it.
        """
        return await self._run_chore(lambda: push_image(self._connection.client(), image, registry))

    async def close(self) -> None:
        """Release threads and connections; wait for what still runs."""
        for pool in (self._executions, self._builds, self._chores):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._connection.close)

    async def _execute(self, warm_pool: WarmPool, job: Job, limits: Limits) -> Execution:
        """Run one execution when its turn has come. Raises the errors of `Sandbox.run`."""
        if await self._execution_mode.is_warm(self._executions, warm_pool):
            return await warm_pool.scheduler.run(
                self._executions, WarmExecution(warm_pool, job, limits=limits)
            )
        return await self._execute_cold(warm_pool, job, limits)

    async def _execute_cold(self, warm_pool: WarmPool, job: Job, limits: Limits) -> Execution:
        client = await self._run_chore(self._connection.client)
        execution = ColdExecution(
            client,
            warm_pool.image,
            job,
            limits=self._connection.limit_cpus(limits),
            runtime=self._connection.runtime,
            labels=warm_pool.labels,
        )
        return await run_stoppable(self._executions, execution)

    def _create_pool(self, image: str, run_id: str) -> WarmPool:
        labels = self._labels(run_id)

        def open_container() -> WarmContainer:
            client = self._connection.client()
            return open_warm_container(
                client,
                image,
                limits=self._connection.limit_cpus(self.limits),
                runtime=self._connection.runtime,
                labels=labels,
            )

        return WarmPool(image, labels=labels, open_container=open_container)

    async def _close_pool(self, warm_pool: WarmPool) -> None:
        await wait_until_done(asyncio.ensure_future(self._run_chore(warm_pool.close)))

    async def _run_chore(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._chores, work)

    def _read_environment(self, image: str) -> dict[str, str] | None:
        return read_dockerfile_environment(self._connection.client(), image)

    def _labels(self, run_id: str) -> dict[str, str]:
        return {LABEL_RUN: run_id, LABEL_OWNER: self._options.owner}
