"""The network of a build: a way out to public addresses and to what the operator permits.

Two containers that run only our own program make it (`sandbox.guest.network.egress`). The build
joins the first, which has a loopback interface and nothing else; behind two sockets on it the
second, on the network that the operator names, answers: a proxy and a cache of the package index.
No host, neighbour, private network or resolver is in reach of a build's own packets.
"""

import json
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from docker.types import LogConfig

from sandbox.docker.cold_execution import remove_container
from sandbox.docker.container import GVISOR, AttachedStream, Daemon
from sandbox.environment.build_options import DEFAULT_INDEX, PROXY_NAME, BuildOptions
from sandbox.errors import SandboxUnavailable
from sandbox.execution.cancellation import Stopped
from sandbox.execution.jobs import DeadlinePassed
from sandbox.guest.network.holder import INDEX_PORT, MEETING, PROXY_PORT
from sandbox.guest.network.index_cache import FOLDER

NETWORK: Final = "bridge"
"""The Docker network through which builds reach public addresses."""
READY_SECONDS: Final = 120
"""How long the two containers may take to start, on a busy host."""
INDEX_VOLUME: Final = "capuchin-index-2"
"""Holds what `index_cache.py` keeps, for all builds on this daemon; only that program sees it."""
BLOCK_PROGRAM: Final = "/opt/capuchin/block_metadata.py"


@dataclass(frozen=True)
class BuildNetwork:
    """What the containers of a build need to know of their network."""

    mode: str
    index_url: str | None
    """The package index as the build sees it; None is the default one."""
    proxy: str | None
    """The address of the proxy; None under gVisor."""

    def complete(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of a step, with our proxy in place of the operator's."""
        if not self.proxy:
            return {**environment}
        kept = {n: v for n, v in environment.items() if not PROXY_NAME.fullmatch(n)}
        return kept | proxy_environment(self.proxy, kept.get("JAVA_TOOL_OPTIONS", ""))

    def build_arguments(self) -> dict[str, str]:
        """Docker's predefined build arguments, which RUN lines see and no image keeps."""
        predefined = {"http_proxy", "https_proxy", "no_proxy"}
        return {n: v for n, v in proxy_environment(self.proxy).items() if n.lower() in predefined}


def proxy_environment(proxy: str | None, java: str = "") -> dict[str, str]:
    """What makes programs use `proxy`, except for the loopback interface; `java`: further options
    of JVMs."""
    if not proxy:
        return {}
    names = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]
    names += ["YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"]  # yarn 2 reads no others
    local = dict.fromkeys(["no_proxy", "NO_PROXY"], "localhost,127.0.0.1,::1")
    address = urlsplit(proxy)
    for scheme in ("http", "https"):
        java += f" -D{scheme}.proxyHost={address.hostname} -D{scheme}.proxyPort={address.port}"
    own = {"NODE_USE_ENV_PROXY": "1", "JAVA_TOOL_OPTIONS": java.strip()}
    return {**dict.fromkeys(names, proxy), **local, **own}


@contextmanager
def open_build_network(
    daemon: Daemon, base: str, *, options: BuildOptions, stop: threading.Event
) -> Generator[BuildNetwork]:
    """The network of a build, made of containers on the image `base`.

    They end with the block, or when this process dies.

    gVisor has a loopback interface of its own. Under it, builds are on Docker's bridge itself and
    only the metadata addresses are blocked.

    Raises:
        SandboxUnavailable: Docker or the kernel refuses it.
        Stopped: `stop` was set.
    """
    with ExitStack() as stack:

        def start(asked: object, mode: str, **settings: Any) -> tuple[str, AttachedStream]:
            container = create_network_container(daemon, base, mode=mode, **settings)
            stack.callback(remove_container, daemon.client, container)
            attached = stack.enter_context(AttachedStream(daemon.client, container))
            daemon.client.start(container)
            attached.send(json.dumps(asked).encode() + b"\n", seconds=READY_SECONDS)
            return container, attached

        if daemon.runtime.name == GVISOR:
            blocking, attached = start({}, NETWORK, program=BLOCK_PROGRAM)
            wait_until_ready(attached, stop)
            yield BuildNetwork(f"container:{blocking}", options.index_url, None)
            return
        url = options.index_url or DEFAULT_INDEX
        # Secrets may be the login at the index, which no cache may share.
        cached = not options.secrets and url.startswith(("http://", "https://"))
        ca = read_ca_bundle(options.ca_bundle).decode() if options.ca_bundle and cached else ""
        asked = {
            "permitted": options.list_permitted(),
            "index": url if cached else "",
            "ca": ca,
            "quota": options.written_mb * 1_000_000,
            "parent": options.parent_proxy(),
        }
        serving, attached = start(asked, NETWORK, program="egress.serve", cached=cached)
        holding, _ = start({}, "none", program="holder.hold", beside=serving)
        wait_until_ready(attached, stop)
        shown = f"http://127.0.0.1:{INDEX_PORT}/simple" if cached else options.index_url
        yield BuildNetwork(f"container:{holding}", shown, f"http://127.0.0.1:{PROXY_PORT}")


def create_network_container(
    daemon: Daemon, base: str, *, mode: str, program: str, cached: bool = False, beside: str = ""
) -> str:
    """A container that runs one of our network programs, not yet started; its id.

    `program` is a path or a function of `sandbox.guest.network`. `beside` is a container whose
    folder `MEETING` it shares.
    """
    blocks = program == BLOCK_PROGRAM
    serves = not blocks and not beside
    host = daemon.client.create_host_config(
        binds=[f"{INDEX_VOLUME}:{FOLDER}"] if cached else None,
        volumes_from=[beside] if beside else None,
        network_mode=mode,
        cap_drop=["ALL"],
        cap_add=["NET_ADMIN"] if blocks else None,
        # SELinux would keep the one from the other's socket.
        security_opt=["no-new-privileges:true", "label=disable"],
        read_only=True,
        pids_limit=192 if serves else 8,
        mem_limit=(512 if serves else 64) * 1024 * 1024,
        log_config=LogConfig(type="none"),
    )
    call = (
        "import sys; sys.path.insert(0, '/opt/capuchin'); "
        f"from sandbox.guest.network import {program.partition('.')[0]}; {program}()"
    )
    code = [program] if blocks else ["-c", call]
    return daemon.create(
        base,
        "network",
        host,
        user="0:0",
        entrypoint=["python3", "-I", "-S", *code],
        command=[],
        volumes=[MEETING] if serves else None,
    )


def wait_until_ready(attached: AttachedStream, stop: threading.Event) -> None:
    """Wait until the container reports its routes."""
    received = b""
    deadline = time.monotonic() + READY_SECONDS
    try:
        while received != b"ready\n":
            frame = attached.read(deadline=deadline, stopped=stop.is_set)
            if frame is None:
                last = received.decode(errors="replace").strip().splitlines()[-1:]
                raise SandboxUnavailable(
                    f"The build network could not be created: {' '.join(last)[:200]}"
                )
            received += frame[1]
    except DeadlinePassed:
        if stop.is_set():
            raise Stopped from None
        raise SandboxUnavailable(
            f"The build network was not ready after {READY_SECONDS} seconds."
        ) from None


def read_ca_bundle(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SandboxUnavailable(f"The CA bundle cannot be read: {error}") from error
