"""A worker keeps its machine's disk within the ceilings, and `/metrics` says so."""

from __future__ import annotations

import dataclasses
import os
import re

import httpx

from bot.server.app import create_app
from bot.server.connections import serve_app
from sandbox.frozen import replace
from tests.e2e.harness import BotHarness


async def test_a_mirror_that_nobody_used_for_long_makes_room_and_is_counted(
    bot: BotHarness,
) -> None:
    repo, other = bot.add_repo(), bot.add_repo("acme/other")
    await bot.label(await bot.report_issue(repo))
    await bot.settle()
    mirrors = list((bot.settings.data_dir / "mirrors").glob("*/acme/*.git"))
    (old,) = mirrors
    os.utime(old.with_suffix(".lock"), (0, 0))
    bot.parts = dataclasses.replace(bot.parts, settings=replace(bot.settings, mirrors_mb=0))
    await bot.label(await bot.report_issue(other))
    await bot.settle()
    assert not old.exists()
    async with (
        serve_app(create_app(bot.settings), "127.0.0.1", 0) as server,
        httpx.AsyncClient(timeout=120, trust_env=False) as client,
    ):
        text = (await client.get(f"{server}/metrics")).text
    assert 'capuchin_limit_bytes{of="mirrors"} 0' in text
    evicted = re.search(r'capuchin_evicted_bytes_total\{of="mirrors"\} (\S+)', text)
    assert evicted is not None
    assert float(evicted[1]) > 1000
