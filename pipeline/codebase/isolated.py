"""Our own small programs over a stranger's text, in a Python process apart.

A parser can be made to crash, or to take all memory and time; the process has limits of both, no
package of the machine, and nothing of our environment, in which the keys are.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

MEMORY_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Address space: a parsed file takes about a hundred times its size."""
_LIMITS: Final = f"""\
import resource
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""


async def run_isolated(program: str, text: bytes, *, seconds: float) -> bytes:
    """What `program` prints when it reads `text`; nothing when it crashes or takes too long."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-W", "ignore", "-c", _LIMITS + program),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(text), seconds)
    except TimeoutError:
        return b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output
