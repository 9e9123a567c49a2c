"""`capuchin learn serve` as a process, three instances for it, and what a trainer asks."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.e2e import shop
from tests.e2e.shop import GOLD, NAMES, TEST_PATCH
from tests.support.data.repositories import make_repository

IDS = ("acme__door-1", "acme__door-2", "acme__lost-1")


async def write_instances(folder: Path) -> Path:
    commit = await make_repository(folder / "trees/acme__shop.git", shop.FILES)
    row: dict[str, Any] = {
        "instance_id": IDS[0],
        "repo": "acme/shop",
        "base_commit": commit,
        "problem_statement": shop.BODY,
        "patch": GOLD,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": [NAMES.format("test_total")],
        "PASS_TO_PASS": [NAMES.format("test_count")],
    }
    bad = {**row, "instance_id": IDS[1], "patch": GOLD.replace("a + b", "a * b")}
    lost = {**row, "instance_id": IDS[2], "repo": "acme/lost"}
    path = folder / "instances.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (row, bad, lost)))
    return path


class Client(httpx.AsyncClient):
    """What a trainer does."""

    async def ask(self, step: str, /, **asked: Any) -> Any:
        answer = await self.post(step, json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def reset(self) -> str:
        opened = await self.ask("/environments", instance_id=IDS[0])
        assert opened["problem_statement"] == shop.BODY
        assert set(opened) == {"environment", "instance_id", "repo", "problem_statement"}
        return f"/environments/{opened['environment']}"


@asynccontextmanager
async def serve(instances: Path, trees: Path) -> AsyncGenerator[Client]:
    """The command as a process, which a signal ends with exit code 0 and no container left."""
    words = ("learn", "serve", str(instances), str(trees), "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot", *words, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    said = (await process.stdout.readline()).decode()
    url = re.search(r"http://127\.0\.0\.1:\d+", said)
    assert url, said
    try:
        async with Client(base_url=url[0], timeout=600) as client:
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        code = await process.wait()
    assert code == 0
