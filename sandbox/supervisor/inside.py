"""The two processes that start in a new world: its process 1, which is ours, and the program.

Process 1 makes the world, starts the program behind the last walls, and tells through a pipe that
the program does not have how it ended. With process 1 dies everything in its world.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from sandbox.supervisor import kernel
from sandbox.supervisor.world import World, make

NAMESPACES: Final = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWNET
)
NOT_STARTED: Final = 127
FIRST_TO_DIE: Final = 1000
NEXT_TO_DIE: Final = 900
"""When memory runs out with nothing left but us, the world goes, not the lane."""
BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)
"""What Python changed of the signals."""


@dataclass(frozen=True)
class Walls:
    """What the program may use, beyond what the container's own limits say."""

    processes: int
    open_files: int
    file_bytes: int
    filter: bytes


@dataclass(frozen=True)
class Program:
    """What runs in the world: `work` of our own, behind the same walls, or `argv`."""

    argv: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    files: Mapping[str, str] | None = None
    """Absolute path to text, written before it starts."""
    work: Callable[[], int] | None = None


@dataclass(frozen=True)
class Started:
    """A world with its process 1, seen from outside."""

    pid: int
    output: int
    """What the program prints; never blocks."""
    status: int
    """What process 1 tells, a JSON object a line; never blocks."""


def start(world: World, program: Program, walls: Walls) -> Started:
    """Raises `OSError` if the kernel allows no such process."""
    output, output_end = os.pipe2(os.O_CLOEXEC)
    status, status_end = os.pipe2(os.O_CLOEXEC)
    ids = os.getuid(), os.getgid()
    try:
        pid = kernel.clone(NAMESPACES)
        if pid == 0:
            os.close(output)
            os.close(status)
            first_process(world, program, walls, ids, output_end, status_end)
    except OSError:
        os.close(output)
        os.close(status)
        raise
    finally:
        os.close(output_end)
        os.close(status_end)
    os.set_blocking(output, False)
    os.set_blocking(status, False)
    return Started(pid, output, status)


def first_process(
    world: World, program: Program, walls: Walls, ids: tuple[int, int], output: int, status: int
) -> NoReturn:
    """Never returns, whatever happens: behind it is the code of process 1 of the lane."""
    with contextlib.suppress(OSError, MemoryError):
        try:
            set_up(world, program, ids)
            tell(status, ready=True)
            live(program, walls, world.checkout, output, status)
        except (OSError, ValueError) as error:
            tell(status, failed=str(error))
    os._exit(1)


def set_up(world: World, program: Program, ids: tuple[int, int]) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open("/dev/null", os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)
    os.close(nothing)
    kernel.set_dumpable(on=True)  # or the files in /proc/self would belong to root
    uid, gid = ids
    write("/proc/self/setgroups", "deny")
    write("/proc/self/gid_map", f"{gid} {gid} 1")
    write("/proc/self/uid_map", f"{uid} {uid} 1")
    write("/proc/self/oom_score_adj", str(NEXT_TO_DIE))
    # What runs here has our uid: without this it could write /proc/1/mem and open our pipes.
    kernel.set_dumpable(on=False)
    make(world)
    for path, text in (program.files or {}).items():
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        write(path, text, os.O_WRONLY | os.O_CREAT)


def write(path: str, text: str, flags: int = os.O_WRONLY) -> None:
    handle = os.open(path, flags, 0o644)
    try:
        data = memoryview(text.encode("utf-8", "surrogateescape"))
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)


def tell(status: int, **fields: object) -> None:
    os.write(status, json.dumps(fields).encode() + b"\n")


def live(program: Program, walls: Walls, checkout: str, output: int, status: int) -> NoReturn:
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        become(program, walls, checkout, output)
    os.close(output)
    while True:
        pid, ended, _ = os.wait4(-1, 0)
        if pid == child:
            break
    tell(status, ended=ended, seconds=time.monotonic() - begun)
    os._exit(0)


def become(program: Program, walls: Walls, checkout: str, output: int) -> NoReturn:
    """Take away all that is left, then turn into the program."""
    code = NOT_STARTED
    try:
        os.setsid()
        kernel.set_dumpable(on=True)
        write("/proc/self/oom_score_adj", str(FIRST_TO_DIE))
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, 1 << 20)
        set_limits(walls)
        os.umask(0o022)
        os.chdir(checkout)
        kernel.no_new_privileges()
        kernel.drop_capabilities()
        kernel.install_filter(walls.filter)
        if program.work:
            code = program.work()
        else:
            os.execvpe(program.argv[0], list(program.argv), dict(program.env or {}))  # noqa: S606
    except (OSError, ValueError) as error:
        name = program.argv[0] if program.argv else "work"
        os.write(1, f"{name}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code)


def set_limits(walls: Walls) -> None:
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, walls.open_files),
        (resource.RLIMIT_FSIZE, walls.file_bytes),
        # Counted for each user namespace, so that process 1 of this one is the only other.
        (resource.RLIMIT_NPROC, walls.processes + 1),
    ):
        resource.setrlimit(kind, (value, value))
