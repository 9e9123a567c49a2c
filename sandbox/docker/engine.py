"""The engine that prepares environments and opens sandboxes on a Docker daemon.

Executions run in warm containers, each in a fresh world (`lane.py`); where the host cannot hold
such worlds, in a container each (`attempt.py`). The SDK blocks, so that everything it does runs in
threads: as many executions at once as `parallel` says, wherever they are asked for.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import docker

from sandbox.base import Execution
from sandbox.docker.address import DockerAddress
from sandbox.docker.base_image import base_reference, ensure_base_image, image_exists
from sandbox.docker.build import Build
from sandbox.docker.client import check_daemon, translate_docker_errors
from sandbox.docker.cold_execution import ColdExecution
from sandbox.docker.container import Runtime, choose_runtime, seccomp_profile
from sandbox.docker.images import (
    BASE_UNUSED_SECONDS,
    collect_base_images,
    collect_images,
    read_dockerfile_environment,
)
from sandbox.docker.reaper import clean_host, reap_containers
from sandbox.docker.registry import push_image
from sandbox.docker.warm_container import open_warm_container
from sandbox.engine import CleanupResult
from sandbox.environment.options import BuildOptions
from sandbox.environment.recipe import detect_recipe
from sandbox.execution.cancellation import ExclusiveWork, run_stoppable, wait_until_done
from sandbox.execution.job import Job
from sandbox.execution.probe import ConfiguredMode, ExecutionMode
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import WarmExecution, WarmPool
from sandbox.execution.warm_worker import WarmContainer
from sandbox.frozen import replace
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.limits import Limits
from sandbox.tree import Tree

T = TypeVar("T")


class DockerEngine:
    """Docker, as this process uses it. Making one does nothing; the first call connects."""

    def __init__(
        self,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        parallel: int = 2,
        ca_bundle: Path | None = None,
        index_url: str | None = None,
        address: DockerAddress | None = None,
        npm_registry: str | None = None,
        python_mirror: str | None = None,
        build_secrets: Mapping[str, str] | None = None,
        build_network: str = "bridge",
        build_disk_mb: int = 12_000,
        base: str = "",
        owner: str = "capuchin",
        mode: ConfiguredMode = "auto",
        runtime: str = "auto",
    ) -> None:
        """`mode` says how executions are held: in `warm` containers that run one after another,
        each in a world of its own; `cold`, a container each; `auto`, warm where the host can.
        `owner` names the installation, when several share a Docker daemon: each reaps its own.
        `base` is the image that ours is built on, if another than usual, say with more Pythons.
        `runtime` is what starts containers: `auto`, gVisor where the daemon knows `runsc`;
        `default`, whatever the daemon uses by itself; or the name of one that it knows.
        The rest is what installations may use and executions have nothing of, as in `BuildOptions`.

        Raises:
            ValueError: an address carries a password, a secret has no fit name or value, or
                `build_network` is the host's.
        """
        self.limits = limits
        self._options = BuildOptions(
            ca_bundle=ca_bundle,
            index_url=index_url,
            npm_registry=npm_registry,
            python_mirror=python_mirror,
            secrets=build_secrets or {},
            network=build_network,
            disk_mb=limits.disk_mb,
            written_mb=build_disk_mb,
        )
        self._address = address or DockerAddress()
        self._base = base
        self._owner = owner
        self._execution_mode = ExecutionMode(mode)
        self._requested_runtime = runtime
        self._runtime = Runtime(seccomp_profile())
        self._executions = ThreadPoolExecutor(parallel, thread_name_prefix="sandbox")
        self._builds = ThreadPoolExecutor(parallel, thread_name_prefix="sandbox-build")
        self._chores = ThreadPoolExecutor(2, thread_name_prefix="sandbox-chore")
        self._guard = threading.Lock()
        self._connected: docker.APIClient | None = None
        self._cpus = 1.0
        self._single_flight: dict[str, threading.Lock] = {}

    async def check(self) -> str:
        """The daemon's version, and how executions are held there, in words.

        Raises:
            SandboxUnavailable: it does not answer, or cannot hold the walls up; says what to do.
        """
        found = await self._run_chore(lambda: check_daemon(self._client()))
        if self._runtime.name:
            found += f" with {self._runtime.name}"
        base = base_reference(self._base)
        if await self._run_chore(lambda: image_exists(self._client(), base)):
            warm_pool = self._create_pool(base, "")
            try:
                await self._execution_mode.is_warm(self._executions, warm_pool)
            finally:
                await self._close_pool(warm_pool)
        return f"{found}, {self._execution_mode}"

    async def prepare(
        self,
        tree: Tree,
        *,
        setup: Sequence[str] = (),
        dockerfile: str = "",
        python: str = "",
        scope: str = "",
        run_id: str = "",
        on_progress: Callable[[str], None] | None = None,
    ) -> str:
        """The image of `tree`, installed; made once and found again afterwards.

        `setup` are lines for a shell in the build container, instead of what the tree's own files
        suggest; `dockerfile` and `python` are as in `detect_recipe`. Images are shared only within one
        `scope`, say a repository: the code of one could otherwise tamper with the environment of
        another. `on_progress` is called in the event loop with short sentences.

        Raises:
            EnvironmentFailed: the repository could not be installed, or holds nothing that we can.
            SandboxUnavailable: Docker does not do its part.
        """
        loop = asyncio.get_running_loop()

        def report_progress(sentence: str) -> None:
            if on_progress is not None:
                loop.call_soon_threadsafe(on_progress, sentence)

        recipe = await self._run_chore(
            lambda: detect_recipe(tree, setup=setup, dockerfile=dockerfile, python=python)
        )
        client = await self._run_chore(self._client)
        base = await loop.run_in_executor(
            self._builds,
            lambda: ensure_base_image(
                client,
                root=self._base,
                address=self._address,
                network=self._options.network,
                on_progress=report_progress,
            ),
        )
        build = Build(
            client,
            tree,
            recipe,
            base=base,
            options=dataclasses.replace(self._options, cpus=self._cpus, scope=scope),
            runtime=self._runtime,
            labels=self._labels(run_id),
            on_progress=report_progress,
        )
        return await run_stoppable(
            self._builds, ExclusiveWork(build, self._lock_for(build.dependencies))
        )

    @asynccontextmanager
    async def open(self, image: str, *, run_id: str) -> AsyncGenerator[SandboxSession, None]:
        """A sandbox on a prepared image; nothing of it is left when the block ends."""
        warm_pool = self._create_pool(image, run_id)

        own: list[dict[str, str] | None] = []

        async def execute(job: Job, limits: Limits) -> Execution:
            if not own:
                own.append(
                    await self._run_chore(
                        lambda: read_dockerfile_environment(self._client(), image)
                    )
                )
            if own[0] is None:
                return await self._execute(warm_pool, job, limits)
            # A process 1 that a repository brought itself gets no more freedom than its tests.
            given = dataclasses.replace(job, environment=own[0])
            return await self._execute(warm_pool, given, limits, cold=True)

        sandbox = SandboxSession(image, limits=self.limits, execute=execute)
        try:
            yield sandbox
        finally:
            await sandbox.close()
            await self._close_pool(warm_pool)

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int:
        """Remove our containers of runs that no longer live; how many there were.

        `older_than`, in seconds, spares what a run started after `live_runs` was written down.

        Raises:
            SandboxUnavailable: Docker does not answer.
        """
        return await self._run_chore(
            lambda: reap_containers(
                self._client(),
                owner=self._owner,
                live_runs=frozenset(live_runs),
                older_than=older_than,
            )
        )

    async def collect(self, *, max_bytes: int) -> int:
        """Remove images that we made until the rest fits into `max_bytes`; how many bytes went.

        The least recently used go first; what a container uses stays. 0 removes all that can be.
        Base images of other versions go too, once nobody has used them for two weeks.

        Raises:
            SandboxUnavailable: Docker does not answer.
        """
        freed = await self._run_chore(
            lambda: collect_images(self._client(), maker=self._owner, max_bytes=max_bytes)
        )
        await self._run_chore(
            lambda: collect_base_images(
                self._client(),
                keep=base_reference(self._base),
                unused_seconds=BASE_UNUSED_SECONDS,
            )
        )
        return freed

    async def clean(self, *, live_runs: Collection[str]) -> CleanupResult:
        """Remove all that we made and that no live run uses, but the base image of this version.

        Raises:
            SandboxUnavailable: Docker does not answer.
        """
        return await self._run_chore(
            lambda: clean_host(
                self._client(),
                owner=self._owner,
                live_runs=frozenset(live_runs),
                keep=base_reference(self._base),
            )
        )

    async def push(self, image: str, registry: str) -> str:
        """Put `image` into a registry, say `registry.example.org/capuchin`; its name there, by
        digest.

        Raises:
            SandboxUnavailable: the registry, or Docker, does not take it.
        """
        return await self._run_chore(lambda: push_image(self._client(), image, registry))

    async def close(self) -> None:
        """Let go of threads and connections; what still runs is waited for."""
        for pool in (self._executions, self._builds, self._chores):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        if self._connected is not None:
            self._connected.close()
        await asyncio.to_thread(self._address.close)

    async def _execute(
        self, warm_pool: WarmPool, job: Job, limits: Limits, *, cold: bool = False
    ) -> Execution:
        """One execution, when its turn has come. Raises as `Sandbox.run_command` does."""
        if not cold and await self._execution_mode.is_warm(self._executions, warm_pool):
            return await warm_pool.scheduler.run(
                self._executions, WarmExecution(warm_pool, job, limits=limits)
            )
        client = await self._run_chore(self._client)
        limits = replace(limits, cpus=min(limits.cpus, self._cpus))
        attempt = ColdExecution(
            client,
            warm_pool.image,
            job,
            limits=limits,
            runtime=self._runtime,
            labels=warm_pool.labels,
        )
        return await run_stoppable(self._executions, attempt)

    def _create_pool(self, image: str, run_id: str) -> WarmPool:
        labels = self._labels(run_id)

        def open_container() -> WarmContainer:
            client = self._client()
            limits = replace(self.limits, cpus=min(self.limits.cpus, self._cpus))
            return open_warm_container(
                client, image, limits=limits, runtime=self._runtime, labels=labels
            )

        return WarmPool(image, labels=labels, open_container=open_container)

    async def _close_pool(self, warm_pool: WarmPool) -> None:
        await wait_until_done(asyncio.ensure_future(self._run_chore(warm_pool.close)))

    async def _run_chore(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._chores, work)

    def _client(self) -> docker.APIClient:
        with self._guard:
            if self._connected is not None and self._address.is_lost:
                self._connected.close()
                self._connected = None
            if self._connected is None:
                client = self._address.connect()
                with translate_docker_errors("Docker does not answer"):
                    # The daemon refuses a container that asks for more processors than there are.
                    info: dict[str, Any] = client.info()
                self._cpus = float(info["NCPU"])
                self._runtime = dataclasses.replace(
                    self._runtime, name=choose_runtime(self._requested_runtime, info["Runtimes"])
                )
                self._connected = client
            return self._connected

    def _labels(self, run_id: str) -> dict[str, str]:
        return {LABEL_RUN: run_id, LABEL_OWNER: self._owner}

    def _lock_for(self, key: str) -> threading.Lock:
        with self._guard:
            return self._single_flight.setdefault(key, threading.Lock())
