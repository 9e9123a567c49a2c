"""The two processes that start in a new world: its process 1, which is ours, and the program.

Process 1 makes the world, waits for its job, goes behind the last walls itself, starts the program
there, and tells through a pipe that the program does not have how it ended. With process 1 dies all
that is in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from sandbox.guest.supervisor import kernel
from sandbox.guest.supervisor.apply_edit import BY_PYTHON, make_edit
from sandbox.guest.supervisor.mounts import Layers, furnish, surround

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
"""When memory runs out, the world goes, not the lane."""
CHUNK: Final = 64 * 1024
ORDERS, OUTPUT, STATUS, FREE = 3, 4, 5, 20
"""The handles of a world's process 1; above `FREE` they are in nobody's way."""


class Walls(NamedTuple):
    """What every program of a lane may use, beyond what the container's own limits say."""

    checkout: str
    disk: str
    processes: int
    open_files: int
    file_bytes: int
    filter: bytes


class Job(NamedTuple):
    """What is to run in a world: `argv`, or, where there are `diffs`, the making of an edit."""

    layers: Layers
    argv: Sequence[str] = ()
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """Absolute path to text, written before it starts."""
    diffs: Sequence[str] = ()
    compiles: bool = False
    """Of an edit that was made before, compile the sources."""


class Place:
    """A world that waits for its job, seen from outside. `start` makes one ahead of need."""

    def __init__(self, pid: int, orders: int, output: int, status: int) -> None:
        self.pid = pid
        self.output = output
        """What the program prints; never blocks."""
        self.status = status
        """What process 1 of the world tells, a JSON object a line; never blocks."""
        self._orders = orders
        os.set_blocking(output, False)
        os.set_blocking(status, False)

    def give(self, job: Job) -> None:
        """Raises `OSError` if the world has died in the meantime."""
        try:
            data = memoryview(json.dumps(job).encode())
            while data:
                data = data[os.write(self._orders, data) :]
        finally:
            os.close(self._orders)

    def clear(self) -> resource.struct_rusage:
        """End everything in it, wait for that, and tell what it used."""
        os.kill(self.pid, signal.SIGKILL)
        return os.wait4(self.pid, 0)[2]

    def close(self) -> None:
        os.close(self.output)
        os.close(self.status)


def start(walls: Walls) -> Place:
    """Raises `OSError` if the kernel allows no such process."""
    (orders, orders_end), (output, output_end), (status, status_end) = (
        os.pipe2(os.O_CLOEXEC) for _ in range(3)
    )
    ids = os.getuid(), os.getgid()
    try:
        pid = kernel.clone(NAMESPACES)
        if pid == 0:
            first_process(walls, ids, (orders, output_end, status_end))
    finally:
        for handle in (orders, output_end, status_end):
            os.close(handle)
    return Place(pid, orders_end, output, status)


def first_process(walls: Walls, ids: tuple[int, int], handles: tuple[int, int, int]) -> NoReturn:
    """Never returns, whatever happens: behind it is the code of process 1 of the lane."""
    try:
        own_handles(handles)
        set_up(walls, ids)
        job = take_orders()
        furnish(walls.checkout, job.layers)
        for path, text in job.files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            write(path, text, os.O_WRONLY | os.O_CREAT)
        tell(ready=True)
        live(job, walls)
    except (OSError, ValueError) as error:
        tell(failed=str(error))
    finally:
        os._exit(1)


def own_handles(handles: tuple[int, int, int]) -> None:
    """Let go of all that belongs to the lane, its line to the host above all."""
    nothing = os.open("/dev/null", os.O_RDWR)
    kept = [fcntl.fcntl(handle, fcntl.F_DUPFD, FREE) for handle in (nothing, *handles)]
    for target, handle in enumerate((kept[0], kept[0], kept[0], *kept[1:])):
        os.dup2(handle, target, inheritable=target < ORDERS)
    os.closerange(STATUS + 1, 1 << 20)


def set_up(walls: Walls, ids: tuple[int, int]) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.set_dumpable(on=True)  # or the files in /proc/self would belong to root
    uid, gid = ids
    write("/proc/self/setgroups", "deny")
    write("/proc/self/gid_map", f"{gid} {gid} 1")
    write("/proc/self/uid_map", f"{uid} {uid} 1")
    write("/proc/self/oom_score_adj", str(FIRST_TO_DIE))
    # What runs here has our uid: without this it could write /proc/1/mem and open our pipes.
    kernel.set_dumpable(on=False)
    surround(walls.disk)


def take_orders() -> Job:
    """The job, waited for; a lane that ends closes the pipe, and there is none."""
    data = bytearray()
    while more := os.read(ORDERS, CHUNK):
        data += more
    if not data:
        os._exit(0)
    layers, *rest = json.loads(data)
    return Job(Layers(*layers), *rest)


def write(path: str, text: str, flags: int = os.O_WRONLY) -> None:
    handle = os.open(path, flags, 0o644)
    try:
        data = memoryview(text.encode("utf-8", "surrogateescape"))
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)


def tell(**fields: object) -> None:
    os.write(STATUS, json.dumps(fields).encode() + b"\n")


def live(job: Job, walls: Walls) -> NoReturn:
    close_in(walls)
    begun = time.monotonic()
    child = edit(job, walls) if job.diffs else program(job)
    os.close(OUTPUT)
    ended = NOT_STARTED << 8
    while child:
        pid, status, _ = os.wait4(-1, 0)
        if pid == child:
            ended = status
            break
    seconds = time.monotonic() - begun
    end_the_rest()
    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = [resource.getrusage(who) for who in whose]
    cpu_seconds = sum(u.ru_utime + u.ru_stime for u in used)
    peak_kb = max(u.ru_maxrss for u in used)
    tell(ended=ended, seconds=seconds, cpu_seconds=cpu_seconds, peak_kb=peak_kb)
    os._exit(0)


def end_the_rest() -> None:
    """Kill whatever the program left running, and wait for it: so that what it used is known."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all that process 1 can see but itself
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait4(-1, 0)


def close_in(walls: Walls) -> None:
    """Take away from this process and all that it starts whatever is left; there is no way back."""
    set_limits(walls)
    os.umask(0o022)
    os.chdir(walls.checkout)
    kernel.no_new_privileges()
    kernel.drop_capabilities()
    kernel.install_filter(walls.filter)


def program(job: Job) -> int:
    """The program that was asked for; 0 after printing why there is none.

    Started without a copy of this process, which would take longer than all the walls.
    """
    outputs = [(os.POSIX_SPAWN_DUP2, OUTPUT, handle) for handle in (1, 2)]
    argv, env = list(job.argv), dict(job.env)
    found: Exception = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in places(argv[0], env):
        try:
            return os.posix_spawn(
                path, argv, env, file_actions=outputs, setsid=True, setsigdef=BY_PYTHON
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            found = error
        except (OSError, ValueError) as error:
            found = error
            break
    os.write(OUTPUT, f"{argv[0]}: {found}\n".encode("utf-8", "replace"))
    return 0


def places(name: str, env: Mapping[str, str]) -> list[str]:
    """Where a program of this name may lie, as a shell would look for it."""
    if "/" in name:
        return [name]
    return [f"{folder}/{name}" for folder in env.get("PATH", os.defpath).split(":")]


def edit(job: Job, walls: Walls) -> int:
    """The process that makes the edit."""
    child = os.fork()
    if child == 0:
        code = NOT_STARTED
        try:
            os.setsid()
            os.dup2(OUTPUT, 1)
            os.dup2(OUTPUT, 2)
            os.closerange(3, 1 << 20)
            code = make_edit(job.diffs, walls.checkout, compiles=job.compiles)
        except (OSError, ValueError) as error:
            os.write(1, f"edit: {error}\n".encode("utf-8", "replace"))
        finally:
            os._exit(code)
    return child


def set_limits(walls: Walls) -> None:
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, walls.open_files),
        (resource.RLIMIT_FSIZE, walls.file_bytes),
        # Counted for each user namespace, so that process 1 of this one is the only other.
        (resource.RLIMIT_NPROC, walls.processes + 1),
    ):
        resource.setrlimit(kind, (value, value))
