"""git as a stranger runs it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from capuchin_demo.hub.git_repository import git_environment


@dataclass
class GitResult:
    """How a git command ended."""

    status: int
    output: str


async def git(folder: Path, *arguments: str) -> GitResult:
    """The real git binary, with an identity and no configuration of this machine."""
    process = await asyncio.create_subprocess_exec(
        "git", "-c", "user.name=Alice", "-c", "user.email=alice@example.com",
        "-C", str(folder), *arguments,
        env=git_environment(), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode is not None
    return GitResult(process.returncode, output.decode())
