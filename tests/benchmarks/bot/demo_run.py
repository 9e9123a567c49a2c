"""The demo's run with a model that answers at once: what Capuchin itself takes.

Label to pull request with warm images, against the time that the run's own executions take.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

from redis.asyncio import Redis

from bot.data.run import Run, RunStatus
from bot.settings import Settings
from bot.storage.keys import Keys
from capuchin_demo.environment import MAINTAINER, REPORTER, run_environment
from capuchin_demo.hub.issue_actions import add_labels, open_issue
from capuchin_demo.package import fetch_release, unpack
from capuchin_demo.show import watch_run
from sandbox.frozen import replace
from tests.benchmarks.table import Row

Json = dict[str, "Json"] | list["Json"] | str | float | bool | None


async def measure() -> list[Row]:
    settings = Settings.from_env()
    settings = replace(settings, anthropic_api_key=Settings().anthropic_api_key)
    package = unpack(fetch_release(settings.data_dir / "cache"))
    await _run(settings, package)  # builds the images
    took, executing = await _run(settings, package)
    return [
        Row(
            "whole run, the model answers at once",
            took,
            "s",
            f"its executions alone, {settings.sandbox_parallel} at a time",
            executing / settings.sandbox_parallel,
        )
    ]


async def _run(settings: Settings, package: dict[str, bytes]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        async with run_environment(Path(folder), settings, package) as stage:
            hub = stage.hub
            reporter, maintainer = hub.add_user(REPORTER), hub.add_user(MAINTAINER)
            issue = open_issue(hub, stage.repo, "DateTime", "in a List", reporter)
            await asyncio.sleep(0.5)
            began = time.perf_counter()
            add_labels(hub, issue, [settings.label], maintainer)
            run = await watch_run(stage, issue, lambda _: None)
            took = time.perf_counter() - began
            assert run.status is RunStatus.OPENED_PULL_REQUEST, run
            return took, await _execution_seconds(stage.settings, run)


async def _execution_seconds(settings: Settings, run: Run) -> float:
    """Seconds of every execution in the run's checkpoints."""
    keys = Keys(settings.redis_prefix)
    seen: set[str] = set()
    async with Redis.from_url(settings.redis_url) as redis:
        found = cast(AsyncIterator[bytes], redis.scan_iter(match=keys.checkpoint(run.id, "*")))
        async for key in found:
            document: Json = json.loads(zlib.decompress(await redis.get(key)))
            seen |= {json.dumps(each, sort_keys=True) for each in _executions(document)}
    return sum(float(json.loads(each)["seconds"]) for each in seen)


def _executions(value: Json) -> Iterator[dict[str, Json]]:
    if isinstance(value, dict):
        if {"seconds", "ending", "output"} <= value.keys():
            yield value
        for each in value.values():
            yield from _executions(each)
    elif isinstance(value, list):
        for each in value:
            yield from _executions(each)
