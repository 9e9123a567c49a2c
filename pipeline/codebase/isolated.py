"""Runs our small programs over untrusted text in processes with limits.

Hostile text can crash a parser or exhaust memory and time; the process has limits for both, and no
access to our environment, which holds the keys.

Some kilobytes of hostile code take tree-sitter gigabytes in one step that nothing interrupts, so
code is never parsed in a process that holds anything else. `isolated.py` starts a process for each
text; this one stays, because an edit has many short parts.
"""

from __future__ import annotations

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
from collections.abc import Callable, Sequence
from typing import Final

from pipeline.codebase.commit import RecentBytes
from pipeline.codebase.git import kill_session

MEMORY_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Address space: a parsed file takes about a hundred times its size."""
MOST_OUTPUT: Final = 256 * 1024 * 1024
"""Bytes; a program with more output has failed."""
_LIMITS: Final = """\
import resource
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""
_CALL: Final = """\
import gc, sys
gc.disable()
sys.path[:0] = {path!r}
from {module} import {function}
gc.enable()
answer = {function}(sys.stdin.buffer.read())
sys.stdout.buffer.write(b"+" + answer)
gc.freeze()
"""
"""What is imported is no garbage, and nothing has to be looked through when the process ends."""
_READ: Final = 1024 * 1024
_RECENT: Final = RecentBytes(16 * 1024 * 1024)


class IsolatedFailure(Exception):
    """The process crashed, or exceeded its time or memory."""


async def run_isolated(program: str, text: bytes, *, seconds: float) -> bytes:
    """Run `program` on `text` and return its output; empty if it crashes or takes too long.

    It can import only the standard library. Recent output is kept: candidates and runs parse the
    same files.
    """
    return await _run_once(("-S",), program, text, seconds, MEMORY_BYTES)


async def call_isolated(
    module: str,
    function: str,
    data: bytes,
    *,
    seconds: float,
    memory: int = MEMORY_BYTES,
    keep: bool = False,
) -> bytes:
    """Call `function`, from bytes to bytes, of our `module` and return its result for `data`.

    `keep` keeps recent results, where the same `data` comes again.

    Raises:
        IsolatedFailure: it raised an error, or needs more than `seconds` or `memory` (bytes of
            address space).
    """
    program = _CALL.format(path=build_import_path(), module=module, function=function)
    run = _run_once if keep else _run
    answer = await run((), program, data, seconds, memory)
    if answer[:1] != b"+":
        raise IsolatedFailure(f"{module}.{function}")
    return answer[1:]


def build_import_path() -> list[str]:
    """The folder of our packages: isolated Python ignores PYTHONPATH and the current folder."""
    return [folder for folder in sys.path if folder]


async def _run_once(
    flags: Sequence[str], program: str, text: bytes, seconds: float, memory: int
) -> bytes:
    """As `_run`, but equal text gives equal output, so recent output is kept."""
    key = hashlib.sha256(program.encode() + b"\0" + text).hexdigest()
    output = _RECENT.get(key)
    if output is None:
        output = await _run(flags, program, text, seconds, memory)
        if output:  # a crash may be the machine's
            _RECENT.add(key, output)
    return output


async def _run(
    flags: Sequence[str], program: str, text: bytes, seconds: float, memory: int
) -> bytes:
    limits = _LIMITS.format(memory=memory, seconds=math.ceil(seconds))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", *flags, "-W", "ignore", "-c", limits + program),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            return await _communicate(process, text)
    except TimeoutError:
        return b""
    finally:
        await kill_session(process)


async def _communicate(process: asyncio.subprocess.Process, text: bytes) -> bytes:
    """Communicate like `Process.communicate`, but cut off excessive output."""
    assert process.stdin is not None
    assert process.stdout is not None
    feeding = asyncio.ensure_future(_feed(process.stdin, text))
    try:
        output = bytearray()
        while piece := await process.stdout.read(_READ):
            output += piece
            if len(output) > MOST_OUTPUT:
                return b""
        await process.wait()
        return bytes(output)
    finally:
        feeding.cancel()


async def _feed(pipe: asyncio.StreamWriter, text: bytes) -> None:
    try:
        pipe.write(text)
        await pipe.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the program ended before it had read everything
    finally:
        pipe.close()


READER_PROCESS_MEMORY_BYTES: Final = 768 * 1024 * 1024
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
            memory=READER_PROCESS_MEMORY_BYTES, seconds=self._cpu_seconds, path=build_import_path()
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
