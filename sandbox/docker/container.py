"""The isolation of every container, and its attached stream."""

import contextlib
import json
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from types import TracebackType
from typing import Any, Final, cast

import docker
from docker.errors import ImageNotFound
from docker.types import Ulimit

from sandbox.docker.apparmor import choose_profile
from sandbox.errors import SandboxUnavailable
from sandbox.execution.jobs import DeadlinePassed
from sandbox.guest.supervisor.mounts import HIDDEN_FILES, HIDDEN_FOLDERS, READ_ONLY, STATE
from sandbox.layout import CHECKOUT, LABEL_KIND, UID, USER
from sandbox.program import INODES, OPEN_FILES, Limits

POLL_SECONDS: Final = 0.2
"""How long it may take until a stop from another thread is noticed."""
CHUNK: Final = 64 * 1024
SHARED_MEMORY: Final = {"/dev/shm": "noexec,nosuid,nodev,size=64m,nr_inodes=10000,mode=1777"}  # noqa: S108
GVISOR: Final = "runsc"
THREADS_EACH, THREADS_OF_GVISOR = 4, 256
"""How many threads of the host gVisor needs for one process in it, and for itself."""
HOSTNAME: Final = "sandbox"
NO_NETWORK: Final[Mapping[str, Any]] = {
    "network_mode": "none",
    "extra_hosts": {HOSTNAME: "127.0.0.1"},
    "dns": ["127.0.0.1"],
    "dns_search": ["."],
}
"""Only the loopback. Tests start servers under the names of this machine, so Docker shall write
/etc/hosts; that it writes the host's name servers and domains into /etc/resolv.conf is prevented.
Process 1 of a warm container mounts an /etc/hosts by itself: without any network of its own, Docker
starts a container sooner."""
OWN_MEMORY_MB: Final = 32
"""Memory for process 1 of a warm container, on top of what the program under test may use."""
SUPERVISOR_CODE: Final = (
    "import sys; sys.path.insert(0, '/opt/capuchin'); "
    "from sandbox.guest.supervisor.serve import main; main()"
)


class AttachedStream:
    """Standard input, output and error of a container, attached before it starts.

    Frames: https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach
    """

    def __init__(self, client: docker.APIClient, container: str) -> None:
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        self._holder = cast(Any, client.attach_socket(container, params=params))
        # For a unix or plain TCP socket the SDK returns a raw reader around the real socket.
        self._socket: socket.socket = getattr(self._holder, "_sock", self._holder)
        self._frame_bytes_left = 0
        self._kind = 0

    def __enter__(self) -> "AttachedStream":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        response: Any = getattr(self._holder, "_response", None)
        # The response owns the connection: closed after the reader, it would warn.
        if response is not None:
            response.close()
        self._holder.close()

    def send(self, data: bytes, *, seconds: float) -> None:
        self._socket.settimeout(seconds)
        self._socket.sendall(data)

    def read(self, *, deadline: float, stopped: Callable[[], bool]) -> tuple[int, bytes] | None:
        """The next piece of output with its stream; None when the container has ended.

        Raises:
            DeadlinePassed: `deadline` (of `time.monotonic`) has passed, or `stopped()` is true.
        """
        if not self._frame_bytes_left:
            header = self._receive_exactly(8, deadline, stopped)
            if header is None:
                return None
            self._kind, self._frame_bytes_left = struct.unpack(">BxxxL", header)
            if not self._frame_bytes_left:
                return self._kind, b""
        data = self._receive(min(self._frame_bytes_left, CHUNK), deadline, stopped)
        self._frame_bytes_left -= len(data)
        return (self._kind, data) if data else None

    def _receive_exactly(
        self, size: int, deadline: float, stopped: Callable[[], bool]
    ) -> bytes | None:
        data = b""
        while len(data) < size:
            more = self._receive(size - len(data), deadline, stopped)
            if not more:
                return None
            data += more
        return data

    def _receive(self, size: int, deadline: float, stopped: Callable[[], bool]) -> bytes:
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or stopped():
                raise DeadlinePassed
            wait = min(left, POLL_SECONDS)
            # `select` does not see decrypted bytes that wait in this process.
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                ready, _, _ = select.select([self._socket], [], [], wait)
                if not ready:
                    continue
            # Over TLS a part of a record may have arrived, and the rest may take longer.
            self._socket.settimeout(wait)
            with contextlib.suppress(TimeoutError):
                return self._socket.recv(size)


@dataclass(frozen=True)
class Runtime:
    """What starts a container, and the system calls that the container may make."""

    profile: str
    """JSON, as Docker takes it."""
    name: str = ""
    """One of the daemon's runtimes, say `runsc`; empty is its default."""


@dataclass(frozen=True)
class Daemon:
    """A connected daemon, as one run uses it."""

    client: docker.APIClient
    runtime: Runtime
    labels: Mapping[str, str]
    """On every container of the run."""

    def create(
        self, image: str, kind: str, host: Mapping[str, Any], *, user: str = USER, **settings: Any
    ) -> str:
        """The id of a new container, which is not started.

        Raises:
            SandboxUnavailable: `image` is gone.
        """
        try:
            made = cast(Any, self.client).create_container(
                image,
                user=user,
                **settings,
                working_dir="/",
                stdin_open=True,
                use_config_proxy=False,
                # An image's own would run beside process 1, outside of its clock.
                healthcheck={"test": ["NONE"]},
                host_config=host,
                labels={**self.labels, LABEL_KIND: kind},
            )
        except ImageNotFound as error:
            raise SandboxUnavailable(f"The image {image} is gone; prepare it again.") from error
        return str(made["Id"])


def choose_runtime(requested: str, known: Mapping[str, Any]) -> str:
    """The name of the runtime for Docker, of those in `known`; empty is the daemon's default.

    Raises:
        SandboxUnavailable: the daemon does not know it.
    """
    if requested == "auto":
        return GVISOR if GVISOR in known else ""
    if requested not in known and requested != "default":
        raise SandboxUnavailable(
            f"Docker has no runtime {requested!r}, only {', '.join(sorted(known))}. Register it in "
            "the daemon's configuration, or set CAPUCHIN_SANDBOX_RUNTIME to another."
        )
    return "" if requested == "default" else requested


def seccomp_profile() -> str:
    """Our seccomp profile: Docker's own allows vsock, netlink, io_uring and ptrace."""
    return (resources.files("sandbox.guest.image") / "seccomp.json").read_text()


def warm_profile(profile: str) -> str:
    """`profile` for a warm container, whose process 1 makes namespaces and mounts in them.

    A second filter forbids both again before any untrusted code runs
    (`sandbox.guest.supervisor.seccomp`).
    """
    parsed: dict[str, Any] = json.loads(profile)
    rules = [rule for rule in parsed["syscalls"] if rule["names"] != ["clone"]]
    rules.append({"names": ["clone", "mount"], "action": "SCMP_ACT_ALLOW"})
    return json.dumps(parsed | {"syscalls": rules})


def common_limits(limits: Limits, runtime: Runtime) -> dict[str, Any]:
    """What an execution and a build have in common."""
    processes = limits.processes + 8  # process 1 and its helpers come on top
    ulimits = [
        Ulimit(name="core", soft=0, hard=0),
        Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
    ]
    if runtime.name == GVISOR:
        # Docker counts the threads of gVisor's kernel, which ends when it gets no more. That kernel
        # itself counts the programs, apart from others of their uid.
        ulimits.append(Ulimit(name="nproc", soft=processes, hard=processes))
        processes = processes * THREADS_EACH + THREADS_OF_GVISOR
    return {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true", f"seccomp={runtime.profile}"],
        "mem_limit": limits.memory_mb * 1024 * 1024,
        "memswap_limit": limits.memory_mb * 1024 * 1024,
        "pids_limit": processes,
        "nano_cpus": int(limits.cpus * 1_000_000_000),
        "cpu_shares": 256,  # Docker gives 1,024 to any other container
        "ulimits": ulimits,
        "log_config": {"Type": "none"},
        "init": False,
        "ipc_mode": "none",
        "runtime": runtime.name or None,
    }


def create_cold_container(daemon: Daemon, image: str, *, limits: Limits) -> str:
    """A container for one execution, not yet started; its id."""
    size = f"size={limits.disk_mb}m,nr_inodes={INODES}"
    host = daemon.client.create_host_config(
        **common_limits(limits, daemon.runtime),
        **NO_NETWORK,
        read_only=True,
        tmpfs={
            CHECKOUT: f"exec,nosuid,nodev,{size},uid={UID},gid={UID},mode=0755",
            "/tmp": f"exec,nosuid,nodev,{size},mode=1777",  # noqa: S108
            **SHARED_MEMORY,
        },
    )
    host |= {  # what a warm execution does not see either
        "MaskedPaths": [*HIDDEN_FOLDERS, *HIDDEN_FILES, "/proc/asound", "/proc/timer_stats"],
        "ReadonlyPaths": list(READ_ONLY),
    }
    return daemon.create(image, "execution", host, hostname=HOSTNAME)


def create_warm_container(daemon: Daemon, image: str, *, limits: Limits) -> str:
    """A container for many executions, one at a time, not yet started; its id.

    It removes itself when it ends. Its limits are those of one execution.
    """
    profile = warm_profile(daemon.runtime.profile)
    settings = common_limits(limits, replace(daemon.runtime, profile=profile))
    # Docker's own AppArmor profile forbids the mounts; without AppArmor this has no effect.
    apparmor = choose_profile(str(daemon.client.base_url))
    settings["security_opt"].append(f"apparmor={apparmor}")
    memory = (limits.memory_mb + OWN_MEMORY_MB) * 1024 * 1024
    settings |= {"mem_limit": memory, "memswap_limit": memory}
    owner = f"uid={UID},gid={UID},mode=0700"
    host = daemon.client.create_host_config(
        **settings,
        network_mode="none",
        read_only=True,
        auto_remove=True,
        tmpfs={
            STATE: f"exec,nosuid,nodev,size={limits.disk_mb}m,nr_inodes={INODES},{owner}",
            "/tmp": "noexec,nosuid,nodev,size=1m,nr_inodes=10,mode=0555",  # noqa: S108
            **SHARED_MEMORY,
        },
    )
    # An execution may mount its own /proc only if ours is whole; it hides there what Docker hides.
    host |= {"MaskedPaths": [], "ReadonlyPaths": []}
    return daemon.create(
        image,
        "lane",
        host,
        hostname=HOSTNAME,
        entrypoint=["python3", "-I", "-S", "-c", SUPERVISOR_CODE],
        network_disabled=True,
    )


def create_build_container(
    daemon: Daemon, image: str, *, limits: Limits, network: str, written_mb: int
) -> str:
    """A container for the steps of a build, on a network and with a disk; its id.

    `BuildDisk` checks at intervals what it writes in all; no file gets larger than `written_mb`.
    """
    settings = common_limits(limits, daemon.runtime)
    # One file may grow a little past the limit of the disk, so that the limit is noticed.
    most = (written_mb + 1) * 1_000_000
    settings["ulimits"].append(Ulimit(name="fsize", soft=most, hard=most))
    host = daemon.client.create_host_config(**settings, network_mode=network, tmpfs=SHARED_MEMORY)
    return daemon.create(image, "build", host)
