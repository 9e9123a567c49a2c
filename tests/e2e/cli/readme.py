"""The README's blocks as they stand: only github.com and the issue's address are exchanged."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SEE, FIX, SERVE = re.findall(r"^```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
HOME = "https://github.com/capuchin-app/capuchin"


@asynccontextmanager
async def shell(block: str, folder: Path, **env: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The lines of a block in a shell, in the environment of a person who has set nothing."""
    ours = ("CAPUCHIN_", "ANTHROPIC_", "PYTEST", "PYTHONPATH", "VIRTUAL_ENV", "MAKE", "MFLAGS")
    usual = {k: v for k, v in os.environ.items() if not k.startswith(ours)}  # noqa: TID251 - a person's own environment
    clone = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf",
        "GIT_CONFIG_VALUE_0": HOME,
    }
    process = await asyncio.create_subprocess_exec(
        "bash", "-e", "-c", block, cwd=folder, env={**usual, **clone, **env},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, process_group=0,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 15)
            await process.communicate()


async def run(block: str, folder: Path, **env: str) -> str:
    async with shell(block, folder, **env) as process:
        out, _ = await asyncio.wait_for(process.communicate(), 1200)
    assert process.returncode == 0, out.decode()
    return out.decode()
