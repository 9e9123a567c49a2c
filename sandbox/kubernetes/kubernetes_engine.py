"""The engine whose sandboxes are pods. Environments are built by a Docker daemon and pushed."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from sandbox.docker.docker_engine import DockerEngine
from sandbox.engine import UNOWNED_SECONDS, CleanupResult, EnvironmentRequest, OnProgress
from sandbox.environment.recipe import Attempt, Installation
from sandbox.errors import EnvironmentFailed, SandboxUnavailable
from sandbox.execution.cancellation import wait_until_done
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import WarmPool
from sandbox.execution.warm_worker import WarmContainer, WarmContainerDied, limits_message
from sandbox.kubernetes.cluster import Cluster
from sandbox.kubernetes.pod import OWNER_LABEL, PodOptions, label_value, warm_pod_manifest
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.program import NO_BUILD, EditBuild, Limits

log = logging.getLogger(__name__)

REQUIRED_PERMISSIONS: Final = (
    ("create", "pods", ""),
    ("get", "pods", ""),
    ("list", "pods", ""),
    ("delete", "pods", ""),
    ("get", "pods", "attach"),
    ("create", "pods", "attach"),
)
"""What we need from the cluster; `deploy/kubernetes/rbac.yaml` grants exactly this."""
T = TypeVar("T")


class KubernetesEngine:
    """The same methods as `DockerEngine`. The constructor does nothing; the first call connects.

    All executions are warm; on a cluster that does not support that, the first one fails.
    """

    def __init__(
        self,
        builder: DockerEngine,
        cluster: Cluster,
        *,
        registry: str,
        options: PodOptions = PodOptions(),  # noqa: B008 - frozen
        parallel: int = 2,
        owner: str = "capuchin",
    ) -> None:
        """`builder` builds environment images and pushes them to `registry`, for example
        `registry.example.org/capuchin`, from where the nodes pull them."""
        self.limits = builder.limits
        self._builder = builder
        self._cluster = cluster
        self._registry = registry.rstrip("/")
        self._options = options
        self._owner = owner
        self._executions = ThreadPoolExecutor(parallel, thread_name_prefix="pods")
        self._chores = ThreadPoolExecutor(2, thread_name_prefix="pods-chore")

    async def check(self) -> str:
        """The versions of builder and cluster, in words.

        Raises:
            SandboxUnavailable: one of them does not answer, or we lack a permission.
        """
        built_by = await self._builder.check()
        version = await self._run_chore(self._cluster.read_version)
        for verb, resource, part in REQUIRED_PERMISSIONS:
            if not await self._run_chore(
                lambda v=verb, r=resource, p=part: self._cluster.is_allowed(v, r, p)
            ):
                what = f"{resource}/{part}" if part else resource
                raise SandboxUnavailable(
                    f"The cluster does not allow us to {verb} {what} in {self._cluster.namespace}. "
                    "Apply deploy/kubernetes/rbac.yaml."
                )
        return f"Kubernetes {version}, warm sandboxes as pods; images are built by {built_by}"

    async def prepare(
        self,
        request: EnvironmentRequest,
        attempt: Attempt,
        *,
        on_progress: OnProgress | None = None,
    ) -> str:
        """The pushed image of the request's tree, by digest; see `DockerEngine.prepare`.

        Raises:
            EnvironmentFailed: also if it comes from a Dockerfile or a published image: process 1
                of that image comes from others, and only a container for each execution could
                isolate that.
        """
        if attempt.recipe.dockerfile is not None:
            raise EnvironmentFailed(
                "Where sandboxes are pods, an environment cannot come from a Dockerfile of the "
                "repository, or from a published image. Remove `dockerfile` from capuchin.yml and "
                "name what it installs in `setup`.",
                command=f"dockerfile: {request.dockerfile or request.image}",
                log="",
            )
        image = await self._builder.prepare(request, attempt, on_progress=on_progress)
        return await self._builder.push(image, self._registry)

    async def read_installation(self, image: str) -> Installation | None:
        """As `DockerEngine.read_installation`; the builder keeps what it pushed."""
        return await self._builder.read_installation(image)

    @asynccontextmanager
    async def open(
        self, image: str, *, run_id: str, build: EditBuild = NO_BUILD
    ) -> AsyncGenerator[SandboxSession, None]:
        """A sandbox on a prepared image; no pod of it is left when the block ends."""
        warm_pool = self._create_pool(image, run_id)
        execute, hide = partial(warm_pool.run, self._executions), self._builder.hide_secrets
        sandbox = SandboxSession(image, limits=self.limits, execute=execute, build=build, hide=hide)
        try:
            yield sandbox
        finally:
            await sandbox.close()
            await wait_until_done(asyncio.ensure_future(self._run_chore(warm_pool.close)))

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int:
        """Remove our pods and the builder's containers of runs that are not in `live_runs`."""
        gone = await self._builder.reap(live_runs=live_runs, older_than=older_than)
        return gone + await self._run_chore(
            lambda: self._reap_pods(frozenset(live_runs), older_than)
        )

    async def collect(self, *, max_bytes: int) -> int:
        """As `DockerEngine.collect`, on the builder; images in the registry stay."""
        return await self._builder.collect(max_bytes=max_bytes)

    async def clean(self, *, live_runs: Collection[str]) -> CleanupResult:
        """As `DockerEngine.clean`, and our pods; images in the registry stay."""
        pods = await self._run_chore(
            lambda: self._reap_pods(frozenset(live_runs), 0, unowned_seconds=0)
        )
        return CleanupResult(pods) + await self._builder.clean(live_runs=live_runs)

    async def close(self) -> None:
        await self._builder.close()
        for pool in (self._executions, self._chores):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._cluster.close)

    def _create_pool(self, image: str, run_id: str) -> WarmPool:
        labels = {LABEL_RUN: run_id, LABEL_OWNER: self._owner}

        def open_container() -> WarmContainer:
            pod = warm_pod_manifest(image, limits=self.limits, labels=labels, options=self._options)
            return open_warm_pod(self._cluster, pod, self.limits)

        return WarmPool(open_container)

    def _reap_pods(
        self, live_runs: frozenset[str], older_than: float, unowned_seconds: float = UNOWNED_SECONDS
    ) -> int:
        removed = 0
        for pod in self._cluster.list_pods(f"{OWNER_LABEL}={label_value(self._owner)}"):
            notes: dict[str, str] = pod.metadata.annotations or {}
            run = notes.get(LABEL_RUN, "")
            created: datetime = pod.metadata.creation_timestamp
            age = time.time() - created.timestamp()
            if pod.metadata.deletion_timestamp is not None and age < self._options.longest_seconds:
                continue  # its node ends it
            if run not in live_runs and age >= (older_than if run else unowned_seconds):
                self._cluster.delete_pod(pod.metadata.name)
                removed += 1
        return removed

    async def _run_chore(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._chores, work)


def open_warm_pod(cluster: Cluster, pod: dict[str, Any], limits: Limits) -> WarmContainer:
    """Raises `SandboxUnavailable` if the pod does not start."""
    name = cluster.create_pod(pod)
    try:
        cluster.wait_until_running(name)
        stream = cluster.attach_to_pod(name)

        def remove_pod() -> None:
            stream.close()
            try:
                cluster.delete_pod(name)
            except SandboxUnavailable as error:
                log.warning("Pod %s was not removed: %s", name, error)

        warm = WarmContainer(stream, remove=remove_pod)
        warm.send(limits_message(limits))
    except (SandboxUnavailable, WarmContainerDied) as error:
        cluster.delete_pod(name, wait=False)
        if isinstance(error, SandboxUnavailable):
            raise
        raise SandboxUnavailable(f"The pod of a sandbox did not start: {error}") from error
    return warm
