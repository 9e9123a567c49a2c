"""Environment images in two layers: what the repository depends on, then the repository itself.

Blocking: runs in a thread. Its code and its dependencies' run here with a network, as the same
unprivileged user and behind the same system-call filter as everything else, and see no secret.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from sandbox.attach import Late
from sandbox.attempt import ended_state, remove
from sandbox.base import EnvironmentFailed, SandboxUnavailable
from sandbox.base_image import image_exists
from sandbox.container import CHECKOUT, PROGRAM_ENVIRONMENT, TREE, create_build
from sandbox.daemon import LABEL_KIND, LABEL_OWNER, UID, docker_errors
from sandbox.dialogue import Dialogue, Job, Stopped
from sandbox.environment import Recipe, scm_versions
from sandbox.limits import Limits
from sandbox.output import Output
from sandbox.tree import Tree

INCOMING = "/opt/incoming"
LAYOUT = "4"
"""Counts changes of the way images are made, so that old ones are not taken for new."""
LOG_BYTES = 16 * 1024
BUILD_LIMITS = Limits(seconds=1200, memory_mb=4096, cpus=2, processes=512)

UNPACK = (
    # Fresh times: a wheel cannot hold those before 1980, which some archives have.
    f"tar --touch -xf {INCOMING}/tree.tar -C {CHECKOUT} --no-same-owner --anchored --exclude=.git",
    f"rm {INCOMING}/tree.tar",
)
FORGET = (
    "pip list --editable --format=freeze | sed 's/==.*//' | xargs -r pip uninstall --yes",
    f"find {CHECKOUT} -mindepth 1 -delete; rm -f {INCOMING}/*",
)
FINISH = (
    # A file that does not compile is none of our business.
    f"python -m compileall -q -j 0 {CHECKOUT} >/dev/null 2>&1 || true",
    f"find {CHECKOUT} -mindepth 1 -maxdepth 1 -exec mv -t {TREE} {{}} +; rm -f {INCOMING}/*",
)
MEASURE = f"test $(du -sm {TREE} | cut -f1) -le "


@dataclass(frozen=True)
class BuildOptions:
    """What the operator decides about builds."""

    ca_bundle: Path | None = None
    index_url: str | None = None
    network: str = "bridge"
    scope: str = ""
    """Images are shared only between trees of one scope."""
    cpus: float = 1
    """How many processors the daemon has."""
    disk_mb: int = 1024
    """The checkout must fit twice, so that a program under test can write."""


class Build:
    """The environment image of one tree. `stop` may be called from another thread."""

    def __init__(
        self,
        client: docker.APIClient,
        tree: Tree,
        recipe: Recipe,
        *,
        base: str,
        options: BuildOptions,
        profile: str,
        labels: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._client = client
        self._tree = tree
        self._recipe = recipe
        self._base = base
        self._options = options
        self._profile = profile
        self._labels = labels
        self._say = say
        self._stop = threading.Event()
        self._limits = BUILD_LIMITS.model_copy(
            update={"cpus": min(BUILD_LIMITS.cpus, options.cpus)}
        )
        known = repr((LAYOUT, base, recipe.digest, options.index_url, options.scope))
        self.dependencies = image_name("dependencies", known)
        self.image = image_name("tree", known + tree.digest)

    def stop(self) -> None:
        """Make `run` kill its container and raise `Stopped` within a fraction of a second."""
        self._stop.set()

    def run(self) -> str:
        """The reference of the image, made only if it is not there.

        Raises:
            EnvironmentFailed: a step failed, took too long or too much.
            SandboxUnavailable: Docker failed.
        """
        if image_exists(self._client, self.image):
            return self.image
        steps = self._recipe.steps
        if not image_exists(self._client, self.dependencies):
            self._say("installing the dependencies")
            self._layer(self._base, (*UNPACK, *steps, *FORGET), self.dependencies)
        self._say("installing the repository")
        fits = MEASURE + str(self._options.disk_mb // 2)
        self._layer(self.dependencies, (*UNPACK, *steps, *FINISH, fits), self.image)
        return self.image

    def _layer(self, parent: str, lines: tuple[str, ...], image: str) -> None:
        if self._stop.is_set():
            raise Stopped
        with docker_errors("Docker could not build the environment"):
            container = create_build(
                self._client,
                parent,
                limits=self._limits,
                profile=self._profile,
                labels=self._labels,
                network=self._options.network,
            )
            try:
                self._client.put_archive(container, INCOMING, self._incoming())
                self._install(container, lines)
                self._commit(container, image)
            finally:
                remove(self._client, container)

    def _install(self, container: str, lines: tuple[str, ...]) -> None:
        dialogue = Dialogue(
            self._client,
            output=Output(LOG_BYTES),
            most_output=BUILD_LIMITS.output_total_bytes,
        )
        steps = [("bash", "-o", "pipefail", "-c", line) for line in lines]
        job = Job(steps=steps, checkout=CHECKOUT, environment=self._environment())
        problem = None
        try:
            dialogue.hold(container, job, seconds=BUILD_LIMITS.seconds, stop=self._stop)
        except Late:
            problem = f"The installation took longer than {BUILD_LIMITS.seconds / 60:g} minutes."
        if dialogue.output.total > BUILD_LIMITS.output_total_bytes:
            problem = "The installation printed without end."
        if problem is None:
            problem = judge(dialogue.end, ended_state(self._client, container))
        if problem:
            line = lines[dialogue.step]
            if line.startswith(MEASURE):
                problem = f"The checkout is larger than {self._options.disk_mb // 2} MB."
            raise EnvironmentFailed(problem, command=line, log=dialogue.output.text())

    def _incoming(self) -> bytes:
        """What goes in: unpacked inside, by the unprivileged user, so that a path cannot escape."""
        files = {"tree.tar": self._tree.tar}
        if self._options.ca_bundle:
            files["ca.pem"] = read_bundle(self._options.ca_bundle)
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode, member.uid, member.gid = len(data), 0o600, UID, UID
                archive.addfile(member, io.BytesIO(data))
        return buffer.getvalue()

    def _environment(self) -> dict[str, str]:
        environment = {**PROGRAM_ENVIRONMENT, "PIP_NO_INPUT": "1", "PIP_NO_CACHE_DIR": "1"}
        environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_PROGRESS_BAR": "off"}
        environment |= scm_versions(self._recipe.version, self._recipe.name)
        if self._options.index_url:
            environment["PIP_INDEX_URL"] = self._options.index_url
        if self._options.ca_bundle:
            names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
            environment |= dict.fromkeys(names, f"{INCOMING}/ca.pem")
        return environment

    def _commit(self, container: str, image: str) -> None:
        repository, _, tag = image.partition(":")
        kind = repository.rpartition("/")[2]
        changes = [
            f"LABEL {LABEL_KIND}={kind}",
            f"LABEL capuchin.tree={self._tree.digest}",
            # What somebody starts from the image by hand is not ours to reap.
            f'LABEL {LABEL_OWNER}=""',
        ]
        self._client.commit(container, repository, tag, changes=changes, pause=False)


def read_bundle(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SandboxUnavailable(f"The CA bundle cannot be read: {error}") from error


def judge(end: dict[str, Any] | None, state: dict[str, Any]) -> str | None:
    """What went wrong in the build that ended by itself, in a sentence; None for nothing."""
    if state.get("OOMKilled") or (end and end["oom"]):
        return f"The installation needed more than {BUILD_LIMITS.memory_mb} MB of memory."
    if end is None:
        raise SandboxUnavailable(
            f"The build container ended without a word (exit code {state.get('ExitCode')})."
        )
    if "signal" in end:
        return f"A step of the installation was killed by signal {end['signal']}."
    return (
        f"A step of the installation failed with exit code {end['exit']}." if end["exit"] else None
    )


def image_name(kind: str, key: str) -> str:
    return f"capuchin/{kind}:{hashlib.sha256(key.encode()).hexdigest()[:24]}"
