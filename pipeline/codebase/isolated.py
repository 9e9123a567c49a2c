"""Runs our own small programs over untrusted text in a separate Python process.

Hostile text can crash a parser or exhaust memory and time; the process has limits for both, and no
access to our environment, which holds the keys.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import sys
from collections.abc import Sequence
from typing import Final

from pipeline.codebase.processes import kill_session
from pipeline.codebase.recent import RecentBytes

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
