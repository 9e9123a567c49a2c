"""Process 1 of cold and build containers: makes a checkout, runs programs in it, reports the end.

It runs inside the container and imports only the standard library. Standard output belongs to the
program under test. Standard error is ours alone: one JSON object a line, each with the nonce that
the host sent, first `ready` (or `rejected`, or `failed`), last `exit` or `signal`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from sandbox.guest.supervisor.apply_edit import GIT_ENVIRONMENT
from sandbox.guest.supervisor.mounts import KEPT_HOME
from sandbox.guest.supervisor.time_limit import TimeLimit, count_oom_kills

PR_SET_DUMPABLE = 4
MESSAGE_BYTES = 4000
HOST_GONE = 125
NOT_STARTED = 127
TOLD_SECONDS = 5
"""Of a build's steps those that take as long are told in its log."""
LAST_SHARE = 8
"""The part of their time that a build's last steps have when it is over before them."""
BUILD_OUTPUT = 32 * 1024
"""Bytes that are shown of what a failed build printed."""


class NotReady(Exception):
    """The checkout could not be made; `kind` is `rejected` or `failed`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def main() -> None:
    # Process 1 of a namespace ignores every signal that has no handler; Python sets this one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    job: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    # What runs here has our uid: without this it could write /proc/1/mem and open our pipes.
    set_dumpable(on=False)
    wipe_environment()
    try:
        make_checkout(job)
    except NotReady as error:
        report(job, **{error.kind: str(error)})
        os._exit(1)
    report(job, ready=True)
    threading.Thread(target=exit_with_host, daemon=True).start()
    if job["build"] and (unbuilt := build_checkout(job)):
        report(job, **unbuilt, oom=count_oom_kills(), **kill_and_measure())
        os._exit(1)
    code = 0
    started = time.monotonic()
    limit = limit_time(job, job["cpu_seconds"])
    number, last, cut = 0, len(job["steps"]) - job["last"], False
    while number < len(job["steps"]):
        report(job, step=number)
        begun = time.monotonic()
        code = run_step(job, job["steps"][number])
        if limit and number < last < len(job["steps"]):
            os.write(1, b"[There was no more time for this step.]\n")
            limit, number, cut = limit_time(job, job["cpu_seconds"] / LAST_SHARE), last, True
            continue
        if code:
            break
        number += 1
        took = time.monotonic() - begun
        if not job["tree"] and took >= TOLD_SECONDS:
            os.write(1, f"[This step took {took:.0f} s.]\n".encode())
    end: dict[str, Any] = {"exit": code} if code >= 0 else {"signal": -code}
    if limit and code < 0:
        end["limit"] = limit[0]
    if cut:
        end["cut"] = True
    seconds, oom = time.monotonic() - started, count_oom_kills()
    used = kill_and_measure()
    if job["capture"] and code >= 0:
        report(job, captured=capture(job))
    report(job, **end, seconds=seconds, oom=oom, **used)
    os._exit(code if code >= 0 else 128 - code)


def limit_time(job: dict[str, Any], seconds: float | None) -> list[str]:
    """Limit the processor time of what runs from now on; the list gets the limit that is met."""
    limit: list[str] = []
    if seconds:
        limits = (seconds, job["may_wait"], limit)
        threading.Thread(target=enforce_time, args=limits, daemon=True).start()
    return limit


def report(job: dict[str, Any], **fields: Any) -> None:
    line = memoryview((json.dumps({"nonce": job["nonce"], **fields}) + "\n").encode())
    while line:
        line = line[os.write(2, line) :]


def set_dumpable(*, on: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, int(on), 0, 0, 0)


def wipe_environment() -> None:
    """Wipe the memory that /proc/1/environ shows: gVisor shows it to all of our uid."""
    strings = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    for number in range(len(os.environ)):  # noqa: TID251 - only counted
        if start := strings[number]:
            ctypes.memset(start, 0, len(ctypes.string_at(start)))


def make_checkout(job: dict[str, Any]) -> None:
    checkout = job["checkout"]
    if job["tree"]:
        # Timestamps are kept, or every .pyc of the image would be stale.
        copied = run_tool(
            ["cp", "-a", "--no-preserve=ownership", job["tree"] + "/.", checkout], cwd="/"
        )
        if copied.returncode:
            raise NotReady(
                "failed", "The checkout could not be copied: " + decode_tail(copied.stderr)
            )
    for number, diff in enumerate(job["diffs"], start=1):
        apply_diff(diff, checkout, f"Diff {number} of {len(job['diffs'])}: ")
    for path, text in job["files"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        write_file(path, text.encode("utf-8", "surrogateescape"))
    if home := job["env"].get("HOME"):
        with contextlib.suppress(OSError):  # of a Dockerfile
            os.makedirs(home, exist_ok=True)  # noqa: PTH103
        if job["tree"] and os.path.isdir(KEPT_HOME):  # noqa: PTH112
            run_tool(["cp", "-a", "--no-preserve=ownership", KEPT_HOME + "/.", home], cwd="/")


def write_file(path: str, data: bytes) -> None:
    with open(path, "wb") as file:  # noqa: PTH123 - pathlib takes longer to import than the rest
        file.write(data)


def apply_diff(diff: str, checkout: str, which: str) -> None:
    if not diff.strip():
        return
    data = diff.encode("utf-8", "surrogateescape")
    applied = run_tool(["git", "apply", "--whitespace=nowarn", "-"], cwd=checkout, data=data)
    if applied.returncode:
        raise NotReady("rejected", which + decode_tail(applied.stderr))


def run_tool(
    argv: list[str], *, cwd: str, data: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        argv, cwd=cwd, input=data, env=GIT_ENVIRONMENT, capture_output=True, check=False
    )


def decode_tail(text: bytes) -> str:
    return text[-MESSAGE_BYTES:].decode("utf-8", "replace").strip()


def build_checkout(job: dict[str, Any]) -> dict[str, Any]:
    """Build the edited checkout; if that fails, print what it printed, and return the report."""
    started = time.monotonic()
    limit: list[str] = []
    limits = (job["build_seconds"], False, limit)
    threading.Thread(target=enforce_time, args=limits, daemon=True).start()
    with tempfile.TemporaryFile() as log:
        code = run_step(job, job["build"], output=log.fileno())
        limit.append("")  # ends the thread
        if not code:
            return {}
        log.seek(max(0, log.seek(0, os.SEEK_END) - BUILD_OUTPUT))
        os.write(1, log.read())
    return {"unbuilt": True, "limit": limit[0], "seconds": time.monotonic() - started}


def run_step(job: dict[str, Any], argv: list[str], output: int = 1) -> int:
    """The exit code of one program, negative for a signal."""
    try:
        child = subprocess.Popen(
            argv,
            cwd=job["checkout"],
            env=job["env"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=prefer_oom_kill,
        )
    except (OSError, ValueError) as error:
        os.write(1, f"{argv[0]}: {error}\n".encode("utf-8", "replace"))
        return NOT_STARTED
    return os.waitstatus_to_exitcode(wait_for(child.pid))


def enforce_time(seconds: float, may_wait: bool, found: list[str]) -> None:
    """Kill the program when it has used `seconds` of processor time, or does nothing for so long
    although it may not wait; `found` gets the limit."""
    limit = TimeLimit(seconds, may_wait=may_wait)
    while not found:
        time.sleep(limit.pause)
        if (exceeded := limit.find_exceeded()) and not found:
            found.append(exceeded)
            os.kill(-1, signal.SIGKILL)


def capture(job: dict[str, Any]) -> dict[str, Any]:
    """What the programs changed in the checkout; nothing of them runs any more."""
    from sandbox.guest.supervisor.capture import capture_changes

    return capture_changes(job["tree"], job["checkout"], job["outputs"])


def kill_and_measure() -> dict[str, Any]:
    """What all programs used; kills those that still run first, so that they are counted."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all but process 1
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    sums = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cpu_seconds": sums.ru_utime + sums.ru_stime, "peak_kb": sums.ru_maxrss}


def prefer_oom_kill() -> None:
    set_dumpable(on=True)  # or /proc/self would belong to root until the exec
    write_file("/proc/self/oom_score_adj", b"1000")


def exit_with_host() -> None:
    """Exit when standard input ends: the host's connection is gone, and nobody can stop us."""
    while os.read(0, 1024):
        pass
    os._exit(HOST_GONE)


def wait_for(pid: int) -> int:
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status
