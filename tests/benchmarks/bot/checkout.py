"""The second checkout of a repository, one commit later, against a fresh clone of it."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from bot.git.mirrors import Mirrors, Remote
from capuchin_demo.hub.tokens import generate_app
from pipeline.codebase.commit import Codebase
from tests.benchmarks.table import Row
from tests.support.github.hub import LocalHub

FILES = 2_000
ROUNDS = 5


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hub = LocalHub(folder / "hub", "secret", generate_app())
        async with hub.serve():
            files = {f"src/m{n // 50}/f{n}.py": _text(n) for n in range(FILES)}
            repo = hub.add_repo("acme/large", files=files)
            hub.add_user("alice")
            repo.grant("alice", "write")

            token = hub.create_personal_token("alice")

            async def get_token() -> str:
                return token

            remote = Remote(f"{hub.url}/acme/large.git", get_token)
            mirrors = Mirrors(folder / "data")
            await mirrors.checkout(remote, "acme/large", "main")
            seconds: list[float] = []
            fresh: list[float] = []
            for n in range(ROUNDS):
                await hub.commit(repo, "main", {f"src/m0/f{n}.py": _text(-n)}, "Change", "alice")
                seconds.append(await _second(mirrors, remote))
                fresh.append(await _clone(hub.url, token, folder / "clone"))
    return [
        Row(
            f"second checkout, {FILES} files",
            statistics.median(seconds) * 1000,
            "ms",
            "git clone",
            statistics.median(fresh) * 1000,
        )
    ]


async def _second(mirrors: Mirrors, remote: Remote) -> float:
    began = time.perf_counter()
    checkout = await mirrors.checkout(remote, "acme/large", "main")
    codebase = await Codebase.open(checkout.git_dir, checkout.base)
    await codebase.build_tree()
    return time.perf_counter() - began


async def _clone(url: str, token: str, place: Path) -> float:
    address = url.replace("http://", f"http://x-access-token:{token}@")
    began = time.perf_counter()
    git = await asyncio.create_subprocess_exec(
        "git", "clone", "--quiet", f"{address}/acme/large.git", str(place)
    )
    assert await git.wait() == 0
    took = time.perf_counter() - began
    shutil.rmtree(place)
    return took


def _text(seed: int) -> str:
    return "".join(f"def f{seed}_{n}(x):\n    return x + {seed * n}\n\n\n" for n in range(40))
