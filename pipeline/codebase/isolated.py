"""Calls our functions on untrusted text in a process with limits.

Hostile text can crash a parser or exhaust memory and time: a few kilobytes of code take tree-sitter
gigabytes in one step that nothing interrupts. The process has limits for both, and no access to our
environment, which holds the keys.
"""

import asyncio
import atexit
import hashlib
import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from pipeline.codebase.recent_bytes import RecentBytes

MEMORY_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Of address space: a parsed file takes about a hundred times its size."""
_PROGRAM: Final = """\
import importlib, resource, sys
def limit(seconds):
    used = resource.getrusage(resource.RUSAGE_SELF)
    end = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.path[:0] = {path!r}
while head := sys.stdin.buffer.readline():
    limit({seconds})
    module, function, length = head.decode().split()
    data = sys.stdin.buffer.read(int(length))
    answer = getattr(importlib.import_module(module), function)(data)
    sys.stdout.buffer.write(b"%d\\n" % len(answer) + answer)
    sys.stdout.buffer.flush()
"""
_RECENT: Final = RecentBytes(16 * 1024 * 1024)


class IsolatedProcess:
    """One process at a time, which starts with the first call; safe to use from threads."""

    def __init__(self, cpu_seconds: int = 4, memory_bytes: int = MEMORY_BYTES) -> None:
        """The processor time is for one call, the start of the process included."""
        self._cpu_seconds = cpu_seconds
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, function: Callable[[bytes], bytes], data: bytes) -> bytes | None:
        """The result of `function`, which one of our modules defines, for `data`.

        None if it raises an error or exceeds the limits.
        """
        head = f"{function.__module__} {function.__name__} {len(data)}\n".encode()
        with self._lock:
            try:
                return self._ask(head + data)
            except BrokenPipeError:  # it was gone before: the machine ended it, not this text
                return self._ask(head + data)

    def close(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            self._end()

    def kill(self) -> None:
        """Make a call that is under way in another thread return None."""
        if (process := self._process) is not None:
            process.kill()

    def forget(self) -> None:
        """Leave the process to the one that started it: this one is its fork."""
        self._lock = threading.Lock()
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
            self._process.returncode = 0  # not a child of this process: nothing to wait for
            self._process = None

    def _ask(self, request: bytes) -> bytes | None:
        process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        answer = None
        try:
            left = memoryview(request)
            while left:
                left = left[os.write(process.stdin.fileno(), left) :]
            # Added to the processor time, on a machine that gives the process little of it.
            answer = _read_answer(process.stdout.fileno(), 60.0 + self._cpu_seconds)
        finally:
            if answer is None:
                self._end()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        program = _PROGRAM.format(
            memory=self._memory_bytes,
            seconds=self._cpu_seconds,
            # Isolated Python ignores PYTHONPATH and the current folder.
            path=[folder for folder in sys.path if folder],
        )
        self._process = subprocess.Popen(
            (sys.executable, "-I", "-W", "ignore", "-c", program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # a fork must not write part of a request again
            env={},
        )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        assert process.stdin
        assert process.stdout
        process.stdout.close()
        process.stdin.close()


def _read_answer(descriptor: int, seconds: float) -> bytes | None:
    """The next answer; None if the process ended, is late, or answers without end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    late = time.monotonic() + seconds
    received = bytearray()
    length: int | None = None
    while length is None or len(received) < length:
        ready = waiting.poll(max(0.0, late - time.monotonic()) * 1000)
        piece = os.read(descriptor, 1024 * 1024) if ready else b""
        if not piece:
            return None
        received += piece
        if length is None and b"\n" in received:
            head, _, received = received.partition(b"\n")
            length = int(head)
            if length > 256 * 1024 * 1024:
                return None
    return bytes(received)


READER: Final = IsolatedProcess(memory_bytes=768 * 1024 * 1024)
"""For the many short parts of an edit: a process for each would take too long."""
atexit.register(READER.close)
os.register_at_fork(after_in_child=READER.forget)


def limits_hold() -> bool:
    """Whether a helper process answers, and one that takes too much memory does not."""
    process = IsolatedProcess(memory_bytes=256 * 1024 * 1024)
    try:
        answers = process.call(allocate, b"1") is not None
        return answers and process.call(allocate, str(1024**3).encode()) is None
    finally:
        process.close()


def allocate(data: bytes) -> bytes:
    """Take as many bytes of memory as `data` says; for `limits_hold`."""
    return str(len(bytes(int(data)))).encode()


async def call_isolated(
    function: Callable[[bytes], bytes],
    data: bytes,
    *,
    seconds: float,
    memory_bytes: int = MEMORY_BYTES,
) -> bytes | None:
    """Call `function` in a process of its own; see `IsolatedProcess.call`.

    Recent results are kept: candidates and runs parse the same files.
    """
    key = await asyncio.to_thread(_digest, function, data)
    answer = _RECENT.get(key)
    if answer is None:
        process = IsolatedProcess(math.ceil(seconds), memory_bytes)
        try:
            answer = await asyncio.to_thread(_call_once, process, function, data)
        except asyncio.CancelledError:
            process.kill()
            raise
        if answer is not None:  # a crash may be the machine's
            _RECENT.add(key, answer)
    return answer


def _call_once(
    process: IsolatedProcess, function: Callable[[bytes], bytes], data: bytes
) -> bytes | None:
    """Also one that begins after its caller was cancelled leaves no process."""
    try:
        return process.call(function, data)
    finally:
        process.close()


def _digest(function: Callable[[bytes], bytes], data: bytes) -> str:
    name = f"{function.__module__} {function.__name__}\n"
    return hashlib.sha256(name.encode() + data).hexdigest()
