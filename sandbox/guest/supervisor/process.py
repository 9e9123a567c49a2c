"""The two processes of an execution: process 1 of its namespaces, which is ours, and the program.

Process 1 sets the namespaces up, waits for its job, gives up its own rights, starts the program and
reports its end through a pipe that the program lacks. When process 1 dies, the kernel kills all
others in its namespaces.
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
from sandbox.guest.supervisor.apply_edit import PYTHON_SIGNALS, make_edit
from sandbox.guest.supervisor.capture import capture_changes
from sandbox.guest.supervisor.mounts import CheckoutLayers, mount_checkout, mount_surroundings

NAMESPACES: Final = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWNET
)
NOT_STARTED: Final = 127
OOM_SCORE: Final = 1000
"""When memory runs out, the kernel kills the execution, not the container's process 1."""
CHUNK: Final = 64 * 1024
JOB_INPUT, OUTPUT, STATUS, FIRST_FREE = 3, 4, 5, 20
"""The handles of an execution's process 1; from `FIRST_FREE` on they are temporary."""


class GuestLimits(NamedTuple):
    """What every program in a container may use, in addition to the container's own limits."""

    checkout: str
    disk: str
    processes: int
    open_files: int
    file_bytes: int
    filter: bytes


class ProcessJob(NamedTuple):
    """What an execution runs: `argv` or, if there are `diffs`, their application."""

    layers: CheckoutLayers
    argv: Sequence[str] = ()
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """Absolute path to text, written before it starts."""
    diffs: Sequence[str] = ()
    capture: str = ""
    """The folder of the unedited tree, to report what the program changed; empty: not reported."""
    outputs: Sequence[str] = ()
    """Names of folders whose changes are not reported."""


class SandboxProcess:
    """A process 1 in new namespaces, seen from outside. `start_process` makes one in advance."""

    def __init__(self, pid: int, job_input: int, output: int, status: int) -> None:
        self.pid = pid
        self.output = output
        """What the program prints; never blocks."""
        self.status = status
        """The reports of process 1, a JSON object a line; never blocks."""
        self._job_input = job_input
        os.set_blocking(output, False)
        os.set_blocking(status, False)

    def send_job(self, job: ProcessJob) -> None:
        """Raises `OSError` if the process has died in the meantime."""
        try:
            data = memoryview(json.dumps(job).encode())
            while data:
                data = data[os.write(self._job_input, data) :]
        finally:
            os.close(self._job_input)

    def kill(self) -> resource.struct_rusage:
        """Kill it and all that it started; what they used."""
        os.kill(self.pid, signal.SIGKILL)
        return os.wait4(self.pid, 0)[2]

    def close(self) -> None:
        os.close(self.output)
        os.close(self.status)


def start_process(limits: GuestLimits) -> SandboxProcess:
    """Raises `OSError` if the kernel allows no such process."""
    (orders, orders_end), (output, output_end), (status, status_end) = (
        os.pipe2(os.O_CLOEXEC) for _ in range(3)
    )
    ids = os.getuid(), os.getgid()
    try:
        pid = kernel.clone(NAMESPACES)
        if pid == 0:
            run_first_process(limits, ids, (orders, output_end, status_end))
    finally:
        for handle in (orders, output_end, status_end):
            os.close(handle)
    return SandboxProcess(pid, orders_end, output, status)


def run_first_process(
    limits: GuestLimits, ids: tuple[int, int], handles: tuple[int, int, int]
) -> NoReturn:
    """Never returns: the caller's code is that of the container's process 1."""
    try:
        keep_only_handles(handles)
        set_up_process(limits, ids)
        job = read_job()
        mount_checkout(limits.checkout, job.layers, job.env.get("HOME", ""))
        for path, text in job.files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            write_text(path, text, os.O_WRONLY | os.O_CREAT)
        report(ready=True)
        run_to_end(job, limits)
    except (OSError, ValueError) as error:
        report(failed=str(error))
    finally:
        os._exit(1)


def keep_only_handles(handles: tuple[int, int, int]) -> None:
    """Close all handles of the container's process 1, above all those to the host."""
    nothing = os.open("/dev/null", os.O_RDWR)
    kept = [fcntl.fcntl(handle, fcntl.F_DUPFD, FIRST_FREE) for handle in (nothing, *handles)]
    for target, handle in enumerate((kept[0], kept[0], kept[0], *kept[1:])):
        os.dup2(handle, target, inheritable=target < JOB_INPUT)
    os.closerange(STATUS + 1, 1 << 20)


def set_up_process(limits: GuestLimits, ids: tuple[int, int]) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.set_dumpable(on=True)  # or the files in /proc/self would belong to root
    uid, gid = ids
    write_text("/proc/self/setgroups", "deny")
    write_text("/proc/self/gid_map", f"{gid} {gid} 1")
    write_text("/proc/self/uid_map", f"{uid} {uid} 1")
    write_text("/proc/self/oom_score_adj", str(OOM_SCORE))
    # What runs here has our uid: without this it could write /proc/1/mem and open our pipes.
    kernel.set_dumpable(on=False)
    mount_surroundings(limits.disk)


def read_job() -> ProcessJob:
    """Wait for the job; end this process if the container ends, which closes the pipe."""
    data = bytearray()
    while more := os.read(JOB_INPUT, CHUNK):
        data += more
    if not data:
        os._exit(0)
    layers, *rest = json.loads(data)
    return ProcessJob(CheckoutLayers(*layers), *rest)


def write_text(path: str, text: str, flags: int = os.O_WRONLY) -> None:
    handle = os.open(path, flags, 0o644)
    try:
        data = memoryview(text.encode("utf-8", "surrogateescape"))
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)


def report(**fields: object) -> None:
    data = memoryview(json.dumps(fields).encode() + b"\n")
    while data:
        data = data[os.write(STATUS, data) :]


def run_to_end(job: ProcessJob, limits: GuestLimits) -> NoReturn:
    drop_rights(limits)
    begun = time.monotonic()
    child = start_edit(job) if job.diffs else start_program(job)
    os.close(OUTPUT)
    ended = NOT_STARTED << 8
    while child:
        pid, status, _ = os.wait4(-1, 0)
        if pid == child:
            ended = status
            break
    seconds = time.monotonic() - begun
    kill_remaining()
    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = [resource.getrusage(who) for who in whose]
    cpu_seconds = sum(u.ru_utime + u.ru_stime for u in used)
    peak_kb = max(u.ru_maxrss for u in used)
    if job.capture and os.WIFEXITED(ended):
        report(**capture_changes(job.capture, limits.checkout, job.outputs))
    report(ended=ended, seconds=seconds, cpu_seconds=cpu_seconds, peak_kb=peak_kb)
    os._exit(0)


def kill_remaining() -> None:
    """Kill all that the program left running and wait for it, so that what it used is counted."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all that process 1 can see but itself
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait4(-1, 0)


def drop_rights(limits: GuestLimits) -> None:
    """Give up the rights of this process and of all that it starts, for good."""
    set_limits(limits)
    os.umask(0o022)
    os.chdir(limits.checkout)
    kernel.set_no_new_privileges()
    kernel.drop_capabilities()
    kernel.install_filter(limits.filter)


def start_program(job: ProcessJob) -> int:
    """Start the program; its id, or 0 after printing why it did not start.

    `posix_spawn` makes no copy of this process, which would take longer than all the setup.
    """
    outputs = [(os.POSIX_SPAWN_DUP2, OUTPUT, handle) for handle in (1, 2)]
    argv, env = list(job.argv), dict(job.env)
    found: Exception = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in candidate_paths(argv[0], env):
        try:
            return os.posix_spawn(
                path, argv, env, file_actions=outputs, setsid=True, setsigdef=PYTHON_SIGNALS
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


def candidate_paths(name: str, env: Mapping[str, str]) -> list[str]:
    """Where a program of this name may be, as a shell would search for it."""
    if "/" in name:
        return [name]
    return [f"{folder}/{name}" for folder in env.get("PATH", os.defpath).split(":")]


def start_edit(job: ProcessJob) -> int:
    """Start the process that applies the diffs; its id."""
    child = os.fork()
    if child == 0:
        code = NOT_STARTED
        try:
            os.setsid()
            os.dup2(OUTPUT, 1)
            os.dup2(OUTPUT, 2)
            os.closerange(3, 1 << 20)
            code = make_edit(job.diffs)
        except (OSError, ValueError) as error:
            os.write(1, f"edit: {error}\n".encode("utf-8", "replace"))
        finally:
            os._exit(code)
    return child


def set_limits(limits: GuestLimits) -> None:
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        # Counted for each user namespace, so that process 1 of this one is the only other.
        (resource.RLIMIT_NPROC, limits.processes + 1),
    ):
        resource.setrlimit(kind, (value, value))
