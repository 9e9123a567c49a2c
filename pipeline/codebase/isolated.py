"""A process of our own that reads code with tree-sitter, with limits of time and memory.

Some kilobytes of hostile code take tree-sitter gigabytes in one step that nothing interrupts, so
code is never parsed in a process that holds anything else. `isolated.py` starts a process for each
text; this one stays, because an edit has many short parts.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from pipeline.codebase.isolated import build_import_path

MEMORY_BYTES: Final = 768 * 1024 * 1024
"""Of address space: a megabyte of code takes a tenth of it."""
CPU_SECONDS: Final = 4
"""Of processor time for one text, the start of the process included."""
WALL_SECONDS: Final = 60.0
"""However little processor time it gets."""
MOST_ANSWER: Final = 256 * 1024 * 1024
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


class ReaderProcess:
    """One process at a time; safe to use from threads. It starts with the first text."""

    def __init__(self, cpu_seconds: int = CPU_SECONDS) -> None:
        self._cpu_seconds = cpu_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, function: Callable[[bytes], bytes], data: bytes) -> bytes | None:
        """What `function`, which stands in a module of ours, makes of `data`; None if it raises an
        error, or needs more than `CPU_SECONDS` or `MEMORY_BYTES`.
        """
        head = f"{function.__module__} {function.__name__} {len(data)}\n".encode()
        with self._lock:
            try:
                return self._ask(head + data)
            except BrokenPipeError:  # it was gone before: the machine ended it, not this text
                return self._ask(head + data)

    def close(self) -> None:
        """End the process; the next text starts another."""
        with self._lock:
            self._end()

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
            answer = _read_answer(process.stdout.fileno())
        finally:
            if answer is None:
                self._end()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        program = _PROGRAM.format(
            memory=MEMORY_BYTES, seconds=self._cpu_seconds, path=build_import_path()
        )
        self._process = subprocess.Popen(
            (sys.executable, "-I", "-W", "ignore", "-c", program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # a fork of ours must have nothing of a request to write again
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


def _read_answer(descriptor: int) -> bytes | None:
    """The next answer; None if the process ended, is late, or answers without end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    late = time.monotonic() + WALL_SECONDS
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
            if length > MOST_ANSWER:
                return None
    return bytes(received)


READER: Final = ReaderProcess()
atexit.register(READER.close)
os.register_at_fork(after_in_child=READER.forget)
