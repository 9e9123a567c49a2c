"""Environment images in two layers.

Blocking: runs in a thread. The code of the repository and of its dependencies runs here with a
network, but as the same unprivileged user and under the same seccomp filter as an execution. It
sees no secret, except those that the operator gives to builds.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping

from sandbox.docker.base_image import image_exists
from sandbox.docker.build_dockerfile import DockerfileBuild
from sandbox.docker.build_lock import hold_build_lock
from sandbox.docker.build_network import BuildNetwork, open_build_network, read_ca_bundle
from sandbox.docker.build_steps import (
    BUILD_LIMITS,
    BUILD_WALL,
    CLEAN_UP,
    COMPILE,
    FINISH,
    LAYOUT,
    MEASURE,
    REMOVE_REPOSITORY,
    SEARCH_SECRETS,
    UNINSTALL,
    UNPACK,
    USE_HOME,
    build_problem,
    explain_failure,
    image_name,
    make_repository,
    make_trust_store,
    pack_incoming,
    read_record,
    tool_images,
    watch_disk,
)
from sandbox.docker.cold_execution import ColdProtocol, remove_container, wait_for_final_state
from sandbox.docker.container import Daemon, create_build_container
from sandbox.docker.docker_client import LABEL_MAKER, LABEL_OWN_DOCKERFILE, translate_docker_errors
from sandbox.docker.images import build_from_files, read_dockerfile_environment, touch_image
from sandbox.environment.build_options import INCOMING, BuildOptions
from sandbox.environment.dockerfile import check_dockerfile
from sandbox.environment.recipe import Installation, Recipe
from sandbox.errors import EnvironmentFailed, SandboxUnavailable
from sandbox.execution.cancellation import Stopped
from sandbox.execution.jobs import DeadlinePassed, Job
from sandbox.frozen import replace
from sandbox.guest.image.install_packages import NO_MIRROR, NO_PACKAGE
from sandbox.layout import CHECKOUT, LABEL_INSTALLATION, LABEL_KIND, LABEL_OWNER, SYSTEM_PYTHON
from sandbox.output import Output
from sandbox.tree import Tree


class EnvironmentBuild:
    """Builds the environment image of one tree. `stop` may be called from another thread."""

    def __init__(
        self,
        daemon: Daemon,
        tree: Tree,
        recipe: Recipe,
        *,
        base: str,
        options: BuildOptions,
        on_progress: Callable[[str], None],
    ) -> None:
        self._daemon = daemon
        self._client = daemon.client
        self._maker = daemon.labels[LABEL_OWNER]
        self._tree = tree
        self._recipe = recipe
        self._base = base
        self._options = options
        self._on_progress = on_progress
        self._stop = threading.Event()
        self._limits = replace(BUILD_LIMITS, cpus=min(BUILD_LIMITS.cpus, options.cpus))
        known = repr((LAYOUT, self._maker, base, recipe.digest, options.key()))
        self._checked = (
            check_dockerfile(recipe.dockerfile, options.registries)
            if recipe.dockerfile is not None
            else None
        )
        if self._checked:
            known += tree.digest  # a COPY can take any file
        self._known = known
        self._search = (SEARCH_SECRETS,) if options.secrets else ()
        packages = repr((LAYOUT, self._maker, base, recipe.system_packages))
        self._name_images(image_name("tools", packages) if recipe.system_packages else "")

    def _name_images(self, packages: str) -> None:
        """Name every image by what goes into it; `packages`: that with system packages, if any."""
        known = self._known
        if self._recipe.system_packages and not packages:
            known += "without system packages"
        self._packages = packages
        root = packages or self._base
        self._tools = list(
            tool_images(root, self._recipe.tools, self._maker, self._options.key_of_tools())
        )
        self._dockerfile_images = (image_name("dockerfile", known), image_name("rooted", known))
        self.dependencies = image_name("dependencies", known)
        self.image = image_name("tree", known + self._recipe.version + self._tree.digest)

    def stop(self) -> None:
        """Make `run` kill its container and raise `Stopped` within a fraction of a second."""
        self._stop.set()

    def run(self) -> str:
        """The reference of the image, built only if it is missing.

        Raises:
            EnvironmentFailed: a step failed, took too long or used too much.
            SandboxUnavailable: Docker failed.
        """
        with hold_build_lock(self.dependencies, self._stop):
            if image_exists(self._client, self.image):
                touch_image(self._client, self.image)
                return self.image
            with (
                translate_docker_errors("Docker could not build the environment"),
                open_build_network(
                    self._daemon, self._base, options=self._options, stop=self._stop
                ) as network,
            ):
                self._build_images(network)
        return self.image

    def _build_images(self, network: BuildNetwork) -> None:
        steps = self._recipe.steps
        if self._recipe.tag is not None:
            steps = (make_repository(self._recipe.tag), *steps, REMOVE_REPOSITORY)
        if not image_exists(self._client, self.dependencies):
            root = self._ensure_root(network)
            if image_exists(self._client, self.image):  # made without system packages before
                touch_image(self._client, self.image)
                return
            self._on_progress("Installing the dependencies.")
            last = (*UNINSTALL, COMPILE, *CLEAN_UP, *self._search)
            lines = (USE_HOME, *UNPACK, *steps)
            self._build_layer(root, lines, self.dependencies, network, last=last)
        self._on_progress("Installing the repository.")
        fits = MEASURE + str(self._options.disk_mb // 2)
        last = (*FINISH, fits, *self._search)
        lines = (USE_HOME, *UNPACK, *steps)
        self._build_layer(self.dependencies, lines, self.image, network, last=last)

    def _ensure_root(self, network: BuildNetwork) -> str:
        """The image to install dependencies on: the base, or the repository's Dockerfile's."""
        if self._checked is None:
            return self._ensure_tools(network)
        root, image = self._dockerfile_images
        if not image_exists(self._client, image):
            self._on_progress("Building the Dockerfile.")
            labels = {LABEL_KIND: "rooted", LABEL_MAKER: self._maker, LABEL_OWN_DOCKERFILE: "yes"}
            build = DockerfileBuild(
                self._client,
                self._tree,
                self._checked,
                base=self._base,
                limits=self._limits,
                options=self._options,
                labels=labels,
                stop=self._stop,
            )
            with translate_docker_errors("Docker could not build the Dockerfile"):
                build.run(root, image, network=network)
        return image

    def _ensure_tools(self, network: BuildNetwork) -> str:
        """The base with interpreter and package managers, a layer each, without repository code."""
        parent = self._ensure_packages(network)
        for line, image in self._tools:
            if image_exists(self._client, image):
                touch_image(self._client, image)
            else:
                self._on_progress("Installing the tools.")
                lines = (USE_HOME, line, *CLEAN_UP, *self._search)
                self._build_layer(parent, lines, image, network, tree=False)
            parent = image
        return parent

    def _ensure_packages(self, network: BuildNetwork) -> str:
        """The base with the Debian packages that the recipe names.

        Where their mirror does not answer, it goes on without, under other names: the next build
        asks again.
        """
        if not self._packages or image_exists(self._client, self._packages):
            return self._packages or self._base
        self._on_progress("Installing system packages.")
        if not self._build_packages(network):
            self._on_progress("Debian's package mirror does not answer; going on without it.")
            self._name_images("")
        return self._packages or self._base

    def _build_packages(self, network: BuildNetwork) -> bool:
        """Build the image with the packages, whose names have been checked; False if their mirror
        did not answer.

        Only Debian's and our own programs run, as root, from the mirror that the base image names.
        """
        packages = self._recipe.system_packages
        program = [SYSTEM_PYTHON, "-I", "/opt/capuchin/install_packages.py", *packages]
        text = f"FROM {self._base}\nUSER root\nRUN {json.dumps(program)}\n"
        memory = 1024 * 1024 * 1024
        with translate_docker_errors("Docker could not install system packages"):
            _, error = build_from_files(
                self._client,
                {"Dockerfile": text.encode()},
                tag=self._packages,
                network_mode=network.mode,
                buildargs=network.build_arguments(),
                labels={LABEL_KIND: "tools", LABEL_MAKER: self._maker},
                container_limits={"memory": memory, "memswap": memory},
                timeout=900,
            )
        if f"non-zero code: {NO_MIRROR}" in error:
            return False
        if error:
            raise SandboxUnavailable(f"System packages could not be installed: {error}")
        return True

    def _build_layer(
        self,
        parent: str,
        lines: tuple[str, ...],
        image: str,
        network: BuildNetwork,
        *,
        last: tuple[str, ...] = (),
        tree: bool = True,
    ) -> None:
        """`last`: lines that run as well where the time is over before them, so that what was
        finished is kept."""
        if self._stop.is_set():
            raise Stopped
        files = {name: text.encode() for name, text in self._recipe.files} if tree else {}
        if self._options.ca_bundle:
            files["ca.pem"] = read_ca_bundle(self._options.ca_bundle)
            files["ca.jks"] = make_trust_store(files["ca.pem"])
        incoming = pack_incoming(files, self._tree if tree else None)
        container = create_build_container(
            self._daemon,
            parent,
            limits=self._limits,
            network=network.mode,
            written_mb=self._options.written_mb,
        )
        try:
            with incoming.open() as data:
                self._client.put_archive(container, INCOMING, data)
            own = read_dockerfile_environment(self._client, parent) or {}
            cut = self._install(container, (*lines, *last), own, network, last=len(last))
            self._commit(container, image, cut)
        finally:
            remove_container(self._client, container)

    def _install(
        self,
        container: str,
        lines: tuple[str, ...],
        own: Mapping[str, str],
        network: BuildNetwork,
        *,
        last: int,
    ) -> str:
        """Run the lines; a sentence if the time was over before the `last` ones.

        `own` is the environment that the repository's Dockerfile sets."""
        protocol = ColdProtocol(
            self._client, output=Output(16 * 1024), max_output=BUILD_LIMITS.output_total_bytes
        )
        steps = [("bash", "-o", "pipefail", "-c", line) for line in lines]
        ours = self._options.environment(self._recipe, network.index_url)
        environment = {**own, **network.complete(ours)}
        if own:
            environment["PATH"] = own["PATH"]
        job = Job(steps=steps, checkout=CHECKOUT, environment=environment, may_wait=True, last=last)
        problem, cut, most = None, "", self._options.written_mb
        with watch_disk(self._client, container, max_mb=most) as disk:
            try:
                protocol.run_job(
                    container,
                    job,
                    seconds=BUILD_WALL,
                    stop=self._stop,
                    cpu_seconds=BUILD_LIMITS.seconds,
                )
            except DeadlinePassed:
                problem = f"The installation took longer than {BUILD_WALL / 60:g} minutes."
        too_long = (
            f"The installation took more than {BUILD_LIMITS.seconds / 60:g} minutes of processor "
            "time"
        )
        if protocol.end and protocol.end.get("limit"):
            problem = f"{too_long}."
        elif protocol.end and protocol.end.get("cut"):
            cut = f"{too_long}; what was finished is kept."
            self._on_progress(cut)
        if problem is None and not disk.over and protocol.end and protocol.end.get("exit"):
            # Perhaps a file reached its largest size.
            with translate_docker_errors("Docker does not answer"):
                disk.measure(force=True, id=container)
        if disk.over:
            problem = f"The installation wrote {disk.over} to the disk."
        if protocol.output.total > BUILD_LIMITS.output_total_bytes:
            problem = "The installation printed too much."
        if problem is None:
            reported = protocol.end is not None
            state = wait_for_final_state(self._client, container, reported=reported)
            problem = build_problem(protocol.end, state)
        if problem:
            line, log = lines[protocol.step], self._options.redact(protocol.output.text())
            better = explain_failure(line, protocol.end, log, self._options)
            lacking = re.findall(rf"^{NO_PACKAGE} .*", log, re.MULTILINE)[:3]
            message = " ".join([better or problem, *dict.fromkeys(lacking)])
            raise EnvironmentFailed(message, command=line, log=log)
        return cut

    def _commit(self, container: str, image: str, cut: str) -> None:
        repository, _, tag = image.partition(":")
        kind = repository.rpartition("/")[2]
        changes = [
            f"LABEL {LABEL_KIND}={kind}",
            f"LABEL capuchin.tree={self._tree.digest}",
            f"LABEL {LABEL_MAKER}={json.dumps(self._maker)}",
            # A container that somebody starts from the image by hand must not be removed.
            f'LABEL {LABEL_OWNER}=""',
        ]
        steps = tuple(line[:2000] for line in self._recipe.steps[:100])
        found = read_record(self._client, container) or Installation(commands=steps)
        recorded = self._options.redact(replace(found, cut=cut).model_dump_json())
        labels = {LABEL_INSTALLATION: recorded}
        # In the body: a list of distributions is too long for the address of a request.
        self._client.commit(
            container, repository, tag, changes=changes, conf={"Labels": labels}, pause=False
        )
