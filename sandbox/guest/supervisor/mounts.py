"""The private file system of one execution, made of layers and empty folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from sandbox.guest.supervisor.kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    mount,
    open_datagram_socket,
)

STATE: Final = "/sbx"
"""A file system in memory that only process 1 sees: the edits of this container."""
SCRATCH: Final = STATE + "/world"
CAPUCHIN_FOLDER: Final = "/opt/capuchin"
KEPT_HOME: Final = "/opt/env/home"
"""What builds left at home; `sandbox.layout` has the same."""
SHARED_MEMORY: Final = "size=64m,nr_inodes=10000,mode=1777"
DATA_FLAGS: Final = MS_NOSUID | MS_NODEV
NOEXEC_FLAGS: Final = MS_NOSUID | MS_NODEV | MS_NOEXEC

HIDDEN_FOLDERS: Final = (
    "/opt/incoming",
    "/dev/mqueue",
    "/sys/firmware",
    "/sys/kernel",
    # Of the container, not of the execution: a pod has a network.
    "/sys/class/net",
    "/sys/devices/virtual/net",
    "/sys/devices/virtual/powercap",
    "/proc/acpi",
    "/proc/pressure",
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


class CheckoutLayers(NamedTuple):
    """The layers of the checkout of one execution."""

    lower: Sequence[str]
    """Read-only, the topmost first."""
    upper: str | None = None
    """Where to keep what is written to the checkout, in `u`; None discards it."""
    copy_all: bool = False
    """Copy the whole checkout: an overlay refuses to rename its folders (EXDEV)."""


def mount_surroundings(disk: str) -> None:
    """Mount what executions have in common: empty folders, /proc, /etc/hosts; enable the loopback.

    `disk` holds the mount options of the file systems that the program may fill.

    Raises:
        OSError: the kernel refuses one of them.
    """
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    mount("tmpfs", SCRATCH, "tmpfs", DATA_FLAGS, disk + ",mode=0755")
    mount("tmpfs", "/tmp", "tmpfs", DATA_FLAGS, disk + ",mode=1777")  # noqa: S108
    mount("tmpfs", "/dev/shm", "tmpfs", NOEXEC_FLAGS, SHARED_MEMORY)  # noqa: S108
    mount("proc", "/proc", "proc", NOEXEC_FLAGS)
    mount(CAPUCHIN_FOLDER + "/hosts", "/etc/hosts", "none", MS_BIND)
    hide_paths()
    enable_loopback()


def mount_checkout(checkout: str, layers: CheckoutLayers, home: str = "") -> None:
    """Mount the checkout, and at `home` what builds left there; then hide their layers, which stay
    in use without a path.

    Raises:
        OSError: the kernel refuses it.
    """
    upper = layers.upper or SCRATCH
    for name in ("u", "w"):
        with contextlib.suppress(FileExistsError):  # an edit that is built
            os.mkdir(f"{upper}/{name}", 0o755)  # noqa: PTH102
    options = f"lowerdir={':'.join(layers.lower)},upperdir={upper}/u,workdir={upper}/w"
    mount("overlay", checkout, "overlay", DATA_FLAGS, options + ",userxattr")
    if layers.copy_all:
        copy_checkout(checkout)
    if home:
        os.makedirs(home, exist_ok=True)  # noqa: PTH103
        if os.path.isdir(KEPT_HOME):  # noqa: PTH112
            for name in ("h", "hw"):
                os.mkdir(f"{SCRATCH}/{name}", 0o755)  # noqa: PTH102
            options = f"lowerdir={KEPT_HOME},upperdir={SCRATCH}/h,workdir={SCRATCH}/hw"
            mount("overlay", home, "overlay", DATA_FLAGS, options + ",userxattr")
    mount(CAPUCHIN_FOLDER, STATE, "none", MS_BIND)


def copy_checkout(checkout: str) -> None:
    """Mount a full copy over `checkout`, on the execution's own disk."""
    whole = SCRATCH + "/whole"
    os.mkdir(whole, 0o755)  # noqa: PTH102
    # Timestamps are kept, or every .pyc of the image would be stale.
    argv = ["cp", "-a", "--no-preserve=ownership", checkout + "/.", whole]
    pid = os.posix_spawnp("cp", argv, {"PATH": "/usr/local/bin:/usr/bin:/bin"})
    if os.waitpid(pid, 0)[1]:
        raise OSError(errno.ENOSPC, "The checkout could not be copied")
    mount(whole, checkout, "none", MS_BIND)


def hide_paths() -> None:
    """Cover what untrusted code must not see: our own files, the machine's secrets."""
    # An empty, read-only folder; it covers the other folders as well.
    mount(
        "tmpfs", CAPUCHIN_FOLDER, "tmpfs", MS_RDONLY | NOEXEC_FLAGS, "size=4k,nr_inodes=2,mode=0555"
    )
    for path in HIDDEN_FOLDERS:
        with contextlib.suppress(FileNotFoundError):
            mount(CAPUCHIN_FOLDER, path, "none", MS_BIND)
    for path in HIDDEN_FILES:
        with contextlib.suppress(FileNotFoundError):
            mount("/dev/null", path, "none", MS_BIND)
    for path in READ_ONLY:
        with contextlib.suppress(FileNotFoundError):
            mount(path, path, "none", MS_BIND | MS_REC)
            mount("none", path, "none", MS_BIND | MS_REMOUNT | MS_RDONLY | NOEXEC_FLAGS)


def enable_loopback() -> None:
    """A new network namespace has one interface, and that is down."""
    handle = open_datagram_socket()
    request = fcntl.ioctl(handle, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
    flags = struct.unpack("16sh22x", request)[1] | IFF_UP
    fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags))
    os.close(handle)
