"""The walls of every container: no network, no privilege, no disk, and a limit on all the rest."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final, cast

import docker
from docker.types import Ulimit

from sandbox.daemon import LABEL_KIND, UID, USER
from sandbox.limits import Limits

CHECKOUT: Final = "/testbed"
"""Where the program under test finds the repository, and where the editable install points."""
TREE: Final = "/opt/tree"
"""Where the image keeps the installed tree; copied to the checkout for each execution."""
ENVIRONMENT: Final = "/opt/env"
INODES: Final = 200_000
OPEN_FILES: Final = 4096
SHARED_MEMORY: Final = {"/dev/shm": "noexec,nosuid,nodev,size=64m,nr_inodes=10000,mode=1777"}  # noqa: S108
OWN_PROCESSES: Final = 8
"""Room for process 1 and its helpers on top of what the program under test may start."""

PROGRAM_ENVIRONMENT: Final = {
    "PATH": f"{ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin",
    "VIRTUAL_ENV": ENVIRONMENT,
    "HOME": "/tmp",  # noqa: S108 - a file system of its own in the container
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
}
"""All that the program under test sees of an environment."""


def seccomp_profile() -> str:
    """Our system-call filter: Docker's own lets vsock, netlink, io_uring and ptrace through."""
    return (resources.files("sandbox.image") / "seccomp.json").read_text()


def common_walls(limits: Limits, profile: str) -> dict[str, Any]:
    """What an execution and a build have in common."""
    return {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true", f"seccomp={profile}"],
        "mem_limit": limits.memory_mb * 1024 * 1024,
        "memswap_limit": limits.memory_mb * 1024 * 1024,
        "pids_limit": limits.processes + OWN_PROCESSES,
        "nano_cpus": int(limits.cpus * 1_000_000_000),
        "ulimits": [
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
        ],
        "log_config": {"Type": "none"},
        "init": False,
        "ipc_mode": "none",
    }


def create_execution(
    client: docker.APIClient, image: str, *, limits: Limits, profile: str, labels: Mapping[str, str]
) -> str:
    """A container for one execution, not yet started; its id."""
    size = f"size={limits.disk_mb}m,nr_inodes={INODES}"
    owner = f"uid={UID},gid={UID}"
    host = client.create_host_config(
        **common_walls(limits, profile),
        network_mode="none",
        read_only=True,
        tmpfs={
            CHECKOUT: f"exec,nosuid,nodev,{size},{owner},mode=0755",
            "/tmp": f"exec,nosuid,nodev,{size},mode=1777",  # noqa: S108
            **SHARED_MEMORY,
        },
    )
    made = cast(
        dict[str, Any],
        client.create_container(
            image,
            user=USER,
            hostname="sandbox",
            working_dir="/",
            stdin_open=True,
            network_disabled=True,
            use_config_proxy=False,
            host_config=host,
            labels={**labels, LABEL_KIND: "execution"},
        ),
    )
    return str(made["Id"])


def create_build(
    client: docker.APIClient,
    image: str,
    *,
    limits: Limits,
    profile: str,
    labels: Mapping[str, str],
    network: str,
) -> str:
    """A container for the steps of a build, on a network and with a disk; its id."""
    made = cast(
        dict[str, Any],
        client.create_container(
            image,
            user=USER,
            working_dir="/",
            stdin_open=True,
            use_config_proxy=False,
            host_config=client.create_host_config(
                **common_walls(limits, profile), network_mode=network, tmpfs=SHARED_MEMORY
            ),
            labels={**labels, LABEL_KIND: "build"},
        ),
    )
    return str(made["Id"])
