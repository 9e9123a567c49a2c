"""The image of a repository's own Dockerfile, built by the daemon, with our process 1 on top.

Its RUN lines run as root in their container, on the restricted network of builds, with limits on
memory, processors, processes and time. They see no secret.
"""

import io
import tarfile
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, cast

import docker
from docker.errors import DockerException, ImageNotFound

from sandbox.docker.base_image import ImageBuildFailed, build_image
from sandbox.docker.build_network import BuildNetwork
from sandbox.docker.build_steps import BuildDisk
from sandbox.docker.cold_execution import remove_container
from sandbox.docker.docker_client import translate_docker_errors
from sandbox.docker.images import PULLED, remove_image
from sandbox.docker.registry import ImageManifest, NotFetched, Registry
from sandbox.environment.build_options import BuildOptions
from sandbox.environment.dockerfile import (
    OWN_BASE,
    CheckedDockerfile,
    ImageName,
    Instruction,
    refusal,
)
from sandbox.errors import EnvironmentFailed
from sandbox.execution.cancellation import Stopped
from sandbox.program import Limits
from sandbox.tree import Archive, Tree

DOCKERFILE_NAME = "capuchin.Dockerfile"


class DockerfileBuild:
    """One build of one checked Dockerfile on one network; runs in a thread of its caller."""

    def __init__(
        self,
        client: docker.APIClient,
        tree: Tree,
        checked: CheckedDockerfile,
        *,
        base: str,
        limits: Limits,
        options: BuildOptions,
        labels: Mapping[str, str],
        stop: threading.Event,
    ) -> None:
        self._client = client
        self._tree = tree
        self._checked = checked
        self._base = base
        self._limits = limits
        self._options = options
        self._written_mb = options.written_mb
        self._pulled: list[str] = []
        self._labels = labels
        self._stop = stop
        self._log: deque[str] = deque(maxlen=200)
        self._step = "FROM"
        self._problem: str | None = None
        self._lines = 0
        self._deadline = time.monotonic() + limits.seconds

    def run(self, root: str, image: str, *, network: BuildNetwork) -> None:
        """Build `root` from the Dockerfile, and `image`, the same with our process 1.

        Raises:
            EnvironmentFailed: an instruction failed, or executions cannot run in the image.
            SandboxUnavailable, Stopped: as `EnvironmentBuild.run`.
        """
        try:
            self._run(root, image, network)
        finally:
            for name in self._pulled:  # what is built on it keeps its layers
                remove_image(self._client, name)

    def _run(self, root: str, image: str, network: BuildNetwork) -> None:
        found = {name: self._fetch_image(name) for name in self._checked.images}
        context = build_context(self._tree, self._checked.render(found, self._labels))
        worker = threading.Thread(target=self._build, args=(context, root, network), daemon=True)
        worker.start()
        disk = BuildDisk(self._client, max_mb=self._written_mb)
        while worker.is_alive():
            if time.monotonic() > self._deadline:
                limit = f"{self._limits.seconds / 60:g} minutes"
                self._problem = f"The Dockerfile took longer than {limit}."
            elif self._lines > 200_000:
                self._problem = "The Dockerfile printed too much."
            self._enforce_limits(network.mode, disk)
            if disk.over:
                self._problem = f"The Dockerfile wrote {disk.over} to the disk."
            worker.join(0.1)
        if self._stop.is_set():
            raise Stopped
        if self._problem:
            raise self._failure(self._problem)
        self._check_image(root)
        try:
            build_image(
                self._client,
                root,
                image,
                network=network.mode,
                labels=self._labels,
                arguments=network.build_arguments(),
            )
        except ImageBuildFailed as error:
            raise EnvironmentFailed(
                "The Dockerfile's image must provide python3 (3.9 or newer, with venv) and git or "
                "apt-get: the sandbox needs them.",
                command="FROM",
                log=error.log,
            ) from error

    def _fetch_image(self, name: str) -> str:
        """The id of an image, fetched from its registry without any login."""
        if name == OWN_BASE:
            return self._base
        registry = Registry(
            ImageName.parse(name),
            ca_bundle=self._options.ca_bundle,
            proxy=self._options.parent_proxy(),
            check=self._check_fetching,
        )
        tag = f"{PULLED}:{uuid.uuid4().hex}"
        try:
            with closing(registry):
                architecture = cast(dict[str, str], self._client.version())["Arch"]
                manifest = registry.read_manifest(architecture)
                self._check_settings(name, manifest)
                self._pulled.append(tag)
                self._load(registry, manifest, tag)
            return str(cast(dict[str, Any], self._client.inspect_image(tag))["Id"])
        except NotFetched as error:
            raise EnvironmentFailed(
                f"The image {name} could not be fetched: {error}", command=f"FROM {name}", log=""
            ) from None

    def _load(self, registry: Registry, manifest: ImageManifest, tag: str) -> None:
        try:
            self._client.tag(manifest.image_id, PULLED, tag.partition(":")[2])
        except ImageNotFound:
            archive = registry.fetch(manifest, tag, most=self._written_mb * 1_000_000)
            with archive.open() as data:
                lines = [*cast(Iterator[dict[str, Any]], self._client.load_image(data))]
            if any("error" in line for line in lines):
                raise NotFetched("Docker does not take it.") from None

    def _check_settings(self, name: str, manifest: ImageManifest) -> None:
        settings = manifest.settings
        if settings.get("OnBuild"):
            raise refusal(Instruction("FROM", name), "its image has ONBUILD triggers.")
        if "capuchin" in repr(settings.get("Labels")).lower():
            raise refusal(Instruction("FROM", name), "its image has labels that name capuchin.")

    def _check_fetching(self) -> None:
        if self._stop.is_set():
            raise Stopped
        if time.monotonic() > self._deadline:
            raise NotFetched(f"it takes longer than {self._limits.seconds / 60:g} minutes.")

    def _build(self, context: Archive, root: str, network: BuildNetwork) -> None:
        memory = self._limits.memory_mb * 1024 * 1024
        try:
            lines = self._client.build(
                fileobj=context.open(),
                custom_context=True,
                dockerfile=DOCKERFILE_NAME,
                tag=root,
                network_mode=network.mode,
                buildargs=network.build_arguments(),
                labels=dict(self._labels),
                container_limits={"memory": memory, "memswap": memory},
                rm=True,
                forcerm=True,
                decode=True,
                timeout=int(self._limits.seconds) + 60,
            )
            for line in cast(Iterator[dict[str, Any]], lines):
                self._log_line(line)
        except (DockerException, OSError) as error:
            self._problem = self._problem or f"Docker could not build it: {error}"

    def _log_line(self, line: dict[str, Any]) -> None:
        self._lines += 1
        output = str(line.get("stream") or line.get("error") or "")
        if output.startswith("Step "):
            self._step = output.partition(" : ")[2].strip() or self._step
        self._log.append(output[:2000])
        if "error" in line:
            self._problem = self._problem or "An instruction of the Dockerfile failed."

    def _enforce_limits(self, network: str, disk: BuildDisk) -> None:
        """Limit or kill the containers of the build, which are those on its network."""
        kill = self._problem is not None or self._stop.is_set()
        with translate_docker_errors("Docker could not watch a build"):
            listed = cast(list[dict[str, Any]], self._client.containers())
            for container in listed:
                if container.get("HostConfig", {}).get("NetworkMode") != network:
                    continue
                if kill:
                    remove_container(self._client, container["Id"])
                else:
                    self._limit_container(container["Id"])
                    disk.measure(id=container["Id"])

    def _limit_container(self, container: str) -> None:
        limits = {
            "PidsLimit": self._limits.processes,
            "NanoCpus": int(self._limits.cpus * 1_000_000_000),
        }
        url = f"{self._client.base_url}/v{self._client.api_version}/containers/{container}/update"
        # The SDK knows neither of the two. A container that has ended needs no limits.
        self._client.post(url, json=limits, timeout=30)

    def _check_image(self, root: str) -> None:
        facts = cast(dict[str, Any], self._client.inspect_image(root))
        if (facts["Config"] or {}).get("Volumes"):
            raise self._failure("Its image declares volumes, which a sandbox does not support.")
        if int(facts["Size"]) > self._written_mb * 1_000_000:
            raise self._failure(f"Its image is larger than {self._written_mb} MB.")

    def _failure(self, problem: str) -> EnvironmentFailed:
        return EnvironmentFailed(
            problem, command=self._step[:500], log="".join(self._log)[-16_000:]
        )


def build_context(tree: Tree, text: str) -> Archive:
    """The tree as a build context, with `text` as the Dockerfile under a name of our own."""
    with (
        tempfile.TemporaryFile() as file,
        tree.tar.open() as tar,
        tarfile.open(fileobj=tar, mode="r:*") as source,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as context,
    ):
        for member in source:
            if member.name.removeprefix("./") in {DOCKERFILE_NAME, ".dockerignore"}:
                continue
            context.addfile(member, source.extractfile(member) if member.isreg() else None)
        data = text.encode()
        member = tarfile.TarInfo(DOCKERFILE_NAME)
        member.size = len(data)
        context.addfile(member, io.BytesIO(data))
        context.close()
        return Archive(file)
