"""What one execution sees: a private view of the file system, made of layers and empty folders."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sandbox.supervisor.kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    datagram_socket,
    mount,
)

STATE: Final = "/sbx"
"""A file system in memory that only process 1 sees: the edits of this lane."""
SCRATCH: Final = STATE + "/world"
OURS: Final = "/opt/capuchin"
SHARED_MEMORY: Final = "size=64m,nr_inodes=10000,mode=1777"
PLAIN: Final = MS_NOSUID | MS_NODEV
NOTHING: Final = MS_NOSUID | MS_NODEV | MS_NOEXEC

HIDDEN_FOLDERS: Final = (
    OURS,
    "/opt/incoming",
    "/dev/mqueue",
    "/sys/firmware",
    "/sys/kernel",
    "/sys/devices/virtual/powercap",
    "/proc/acpi",
    "/proc/scsi",
)
HIDDEN_FILES: Final = (
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/latency_stats",
    "/proc/interrupts",
    "/proc/sysrq-trigger",
)
READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys")
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


@dataclass(frozen=True)
class World:
    """Where the parts of a world come from."""

    checkout: str
    layers: Sequence[str]
    """Read-only, the topmost first."""
    disk: str
    """The options of the file systems that the program may fill, as `mount` takes them."""
    upper: str | None = None
    """Keep what is written to the checkout here, in `u`; None lets it go with the world."""


def make(world: World) -> None:
    """Turn the namespaces of this process into `world`. There is no way back.

    Raises:
        OSError: the kernel forbids a part of it.
    """
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    mount_checkout(world)
    mount("tmpfs", "/tmp", "tmpfs", PLAIN, world.disk + ",mode=1777")  # noqa: S108
    mount("tmpfs", "/dev/shm", "tmpfs", NOTHING, SHARED_MEMORY)  # noqa: S108
    mount("proc", "/proc", "proc", NOTHING)
    hide()
    loopback_up()


def mount_checkout(world: World) -> None:
    writable = world.upper or SCRATCH
    if world.upper is None:
        mount("tmpfs", SCRATCH, "tmpfs", PLAIN, world.disk + ",mode=0755")
    for name in ("u", "w"):
        if world.upper is None or not os.path.isdir(f"{writable}/{name}"):  # noqa: PTH112
            os.mkdir(f"{writable}/{name}", 0o755)  # noqa: PTH102
    options = f"lowerdir={':'.join(world.layers)},upperdir={writable}/u,workdir={writable}/w"
    mount("overlay", world.checkout, "overlay", PLAIN, options + ",userxattr")


def hide() -> None:
    """Cover what is not for untrusted eyes: our own files, other edits, the machine's secrets.

    The checkout keeps hold of its layers, although their folders can no longer be named.
    """
    # An empty folder that nobody can write to; it covers the rest as well.
    mount("tmpfs", STATE, "tmpfs", MS_RDONLY | NOTHING, "size=4k,nr_inodes=2,mode=0555")
    for path in HIDDEN_FOLDERS:
        if os.path.isdir(path):  # noqa: PTH112 - pathlib is slow, and this runs for each execution
            mount(STATE, path, "none", MS_BIND)
    for path in HIDDEN_FILES:
        if os.path.exists(path):  # noqa: PTH110
            mount("/dev/null", path, "none", MS_BIND)
    for path in READ_ONLY:
        if os.path.isdir(path):  # noqa: PTH112
            mount(path, path, "none", MS_BIND | MS_REC)
            mount("none", path, "none", MS_BIND | MS_REMOUNT | MS_RDONLY | NOTHING)


def loopback_up() -> None:
    """A new network namespace has one interface, and that is down."""
    handle = datagram_socket()
    request = fcntl.ioctl(handle, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
    flags = struct.unpack("16sh22x", request)[1] | IFF_UP
    fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags))
    os.close(handle)
