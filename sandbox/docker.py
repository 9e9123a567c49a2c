"""The engine that prepares environments and opens sandboxes on a Docker daemon.

One fresh, hardened container for each execution. The SDK blocks, so that everything it does runs
in threads: as many executions at once as `parallel` says, wherever they are asked for.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import docker

from sandbox.attempt import Attempt, remove
from sandbox.base import Execution, SandboxUnavailable
from sandbox.base_image import ensure_base_image
from sandbox.build import Build, BuildOptions
from sandbox.container import CHECKOUT, ENVIRONMENT, PROGRAM_ENVIRONMENT, TREE, seccomp_profile
from sandbox.daemon import LABEL_OWNER, LABEL_RUN, connect, docker_errors
from sandbox.dialogue import Job
from sandbox.environment import recipe_of
from sandbox.limits import Limits
from sandbox.tree import Tree
from sandbox.waiting import Alone, Shared, stoppable

SCRIPT = "/tmp/capuchin/reproduce_issue.py"  # noqa: S108 - a file system of its own in the container
UNOWNED_SECONDS = 3600
"""Containers that work for no run are left alone this long."""
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
        docker_url: str | None = None,
        build_network: str = "bridge",
        owner: str = "capuchin",
    ) -> None:
        """`owner` names the installation, when several share a Docker daemon: each reaps its own.
        `build_network` is the Docker network that installations may use; executions have none.

        Raises:
            ValueError: `index_url` carries a password, which the code being installed could read.
        """
        if index_url and "@" in urlsplit(index_url).netloc:
            raise ValueError("index_url must not carry credentials: repositories could read them.")
        self.limits = limits
        self._options = BuildOptions(
            ca_bundle=ca_bundle,
            index_url=index_url,
            network=build_network,
            disk_mb=limits.disk_mb,
        )
        self._docker_url = docker_url
        self._owner = owner
        self._profile = seccomp_profile()
        self._executions = ThreadPoolExecutor(parallel, thread_name_prefix="sandbox")
        self._builds = ThreadPoolExecutor(parallel, thread_name_prefix="sandbox-build")
        self._chores = ThreadPoolExecutor(2, thread_name_prefix="sandbox-chore")
        self._guard = threading.Lock()
        self._connected: docker.APIClient | None = None
        self._cpus = 1.0
        self._single_flight: dict[str, threading.Lock] = {}

    async def check(self) -> str:
        """The daemon's version, in words.

        Raises:
            SandboxUnavailable: it does not answer, or cannot hold the walls up; says what to do.
        """
        return await self._chore(self._check)

    async def prepare(
        self,
        tree: Tree,
        *,
        setup: Sequence[str] = (),
        scope: str = "",
        run_id: str = "",
        on_progress: Callable[[str], None] | None = None,
    ) -> str:
        """The image of `tree`, installed; made once and found again afterwards.

        `setup` are lines for a shell in the build container, instead of what the tree's own files
        suggest. Images are shared only within one `scope`, say a repository: the code of one could
        otherwise tamper with the environment of another. `on_progress` is called in the event loop
        with short sentences.

        Raises:
            EnvironmentFailed: the repository could not be installed, or holds no Python.
            SandboxUnavailable: Docker does not do its part.
        """
        loop = asyncio.get_running_loop()

        def say(sentence: str) -> None:
            if on_progress is not None:
                loop.call_soon_threadsafe(on_progress, sentence)

        recipe = await self._chore(lambda: recipe_of(tree, setup=setup))
        client = await self._chore(self._client)
        base = await loop.run_in_executor(
            self._builds, lambda: ensure_base_image(client, docker_url=self._docker_url, say=say)
        )
        build = Build(
            client,
            tree,
            recipe,
            base=base,
            options=replace(self._options, cpus=self._cpus, scope=scope),
            profile=self._profile,
            labels=self._labels(run_id),
            say=say,
        )
        return await stoppable(self._builds, Alone(build, self._lock(build.dependencies)))

    @asynccontextmanager
    async def open(self, image: str, *, run_id: str) -> AsyncGenerator[DockerSandbox, None]:
        """A sandbox on a prepared image; nothing of it is left when the block ends."""
        sandbox = DockerSandbox(self, image, run_id)
        try:
            yield sandbox
        finally:
            await sandbox.close()

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int:
        """Remove our containers of runs that no longer live; how many there were.

        `older_than`, in seconds, spares what a run started after `live_runs` was written down.

        Raises:
            SandboxUnavailable: Docker does not answer.
        """
        return await self._chore(lambda: self._reap(frozenset(live_runs), older_than))

    async def close(self) -> None:
        """Let go of threads and connections; what still runs is waited for."""
        for pool in (self._executions, self._builds, self._chores):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        if self._connected is not None:
            self._connected.close()

    async def execute(self, image: str, job: Job, *, limits: Limits, run_id: str) -> Execution:
        """One execution, when its turn has come. Raises as `Sandbox.run_command` does."""
        client = await self._chore(self._client)
        limits = limits.model_copy(update={"cpus": min(limits.cpus, self._cpus)})
        labels = self._labels(run_id)
        attempt = Attempt(client, image, job, limits=limits, profile=self._profile, labels=labels)
        return await stoppable(self._executions, attempt)

    async def _chore(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._chores, work)

    def _client(self) -> docker.APIClient:
        with self._guard:
            if self._connected is None:
                client = connect(self._docker_url)
                with docker_errors("Docker does not answer"):
                    # The daemon refuses a container that asks for more processors than there are.
                    self._cpus = float(client.info()["NCPU"])
                self._connected = client
            return self._connected

    def _labels(self, run_id: str) -> dict[str, str]:
        return {LABEL_RUN: run_id, LABEL_OWNER: self._owner}

    def _lock(self, key: str) -> threading.Lock:
        with self._guard:
            return self._single_flight.setdefault(key, threading.Lock())

    def _check(self) -> str:
        with docker_errors("Docker does not answer"):
            version: dict[str, Any] = self._client().version()
            info: dict[str, Any] = self._client().info()
        missing = [name for name in ("MemoryLimit", "PidsLimit", "CpuCfsQuota") if not info[name]]
        if not any("seccomp" in option for option in info.get("SecurityOptions") or ()):
            missing.append("seccomp")
        if missing:
            raise SandboxUnavailable(
                f"This Docker daemon does not enforce {', '.join(missing)}. Run a rootful daemon, "
                "or a rootless one on a host with cgroup v2."
            )
        return f"Docker {version['Version']}"

    def _reap(self, live_runs: frozenset[str], older_than: float) -> int:
        removed = 0
        with docker_errors("Docker could not list containers"):
            found = cast(
                list[dict[str, Any]],
                self._client().containers(
                    all=True, filters={"label": f"{LABEL_OWNER}={self._owner}"}
                ),
            )
        for container in found:
            run = container["Labels"][LABEL_RUN]
            age = time.time() - container["Created"]
            if run not in live_runs and age >= (older_than if run else UNOWNED_SECONDS):
                remove(self._client(), container["Id"])
                removed += 1
        return removed


class DockerSandbox:
    """One prepared image; implements `sandbox.base.Sandbox`. Made by `DockerEngine.open`."""

    def __init__(self, engine: DockerEngine, image: str, run_id: str) -> None:
        self.image = image
        self._engine = engine
        self._run_id = run_id
        self._running: set[asyncio.Task[Execution]] = set()
        self._scripts: dict[tuple[str, tuple[str, ...], float | None], Shared] = {}

    async def run_script(
        self, script: str, *, diffs: Sequence[str] = (), seconds: float | None = None
    ) -> Execution:
        """See `Sandbox.run_script`. The same script on the same diffs runs once in a session."""
        key = (script, tuple(diffs), seconds)
        shared = self._scripts.get(key)
        if shared is None or shared.is_void():
            argv = (f"{ENVIRONMENT}/bin/python", SCRIPT)
            shared = Shared(self._start(argv, diffs, self._limits(seconds), {SCRIPT: script}))
            self._scripts[key] = shared
        return await shared.result()

    async def run_command(
        self,
        argv: Sequence[str],
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        output_bytes: int | None = None,
    ) -> Execution:
        """See `Sandbox.run_command`. Programs of the environment go by their bare names."""
        if not argv:
            raise ValueError("There is no program to run.")
        limits = self._limits(seconds, output_bytes)
        return await Shared(self._start(argv, diffs, limits, {})).result()

    async def close(self) -> None:
        """Stop what still runs, and wait until its containers are gone."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _start(
        self, argv: Sequence[str], diffs: Sequence[str], limits: Limits, files: Mapping[str, str]
    ) -> asyncio.Task[Execution]:
        job = Job(
            steps=[argv],
            checkout=CHECKOUT,
            environment=PROGRAM_ENVIRONMENT,
            tree=TREE,
            diffs=diffs,
            files=files,
        )
        task = asyncio.create_task(
            self._engine.execute(self.image, job, limits=limits, run_id=self._run_id)
        )
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _limits(self, seconds: float | None, output_bytes: int | None = None) -> Limits:
        changed = {"seconds": seconds, "output_kept_bytes": output_bytes}
        wanted = {name: value for name, value in changed.items() if value is not None}
        return Limits.model_validate(self._engine.limits.model_dump() | wanted)
