"""A running hub with `acme/shop`, and a git client without our configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.localhub import AppIdentity, LocalHub, Repo, generate_app
from bot.localhub.git.run import git_environment


@dataclass
class Ran:
    """The result of a git command."""

    status: int
    output: str


async def git(folder: Path, *arguments: str) -> Ran:
    """The real git binary, with an identity and no configuration of this machine."""
    process = await asyncio.create_subprocess_exec(
        "git", "-c", "user.name=Alice", "-c", "user.email=alice@example.com",
        "-C", str(folder), *arguments,
        env=git_environment(), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, output.decode())


@pytest.fixture(scope="session")
def app() -> AppIdentity:
    return generate_app()


@pytest.fixture
async def hub(app: AppIdentity, tmp_path: Path) -> AsyncGenerator[LocalHub, None]:
    one = LocalHub(tmp_path / "hub", "s3cret", app)
    async with one.serve():
        yield one
    assert one.unexpected == []


@pytest.fixture
def repo(hub: LocalHub) -> Repo:
    one = hub.add_repo("acme/shop", {"shop.py": "def total(a, b):\n    return a - b\n"})
    one.grant("alice", "write")
    one.grant("bob", "read")
    return one
