"""`capuchin fix --strategy`, and the key `strategy` of the repository's file."""

from __future__ import annotations

import json
from pathlib import Path

from bot.cli import local_run
from capuchin_demo.recorded.server import RecordedServer
from pipeline.bundle import read_bundle
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix


async def test_the_repository_asks_for_a_search_and_the_command_line_overrides_it(
    tmp_path: Path,
) -> None:
    llm = RecordedServer(shop.answers(*shop.SEARCHING, shop.RIGHT_AT_ONCE))
    async with llm.serve() as url:
        await check_both(LocalFix(tmp_path, llm, url))


async def check_both(local_fix: LocalFix) -> None:
    config = shop.FILES[".github/capuchin.yml"] + "strategy: search\n"
    local_fix.commit({**shop.FILES, ".github/capuchin.yml": config})
    assert await local_fix.fix("--strategy", "samples", "--samples", "1") == local_run.FIXED
    assert not any(asked.call.startswith("understanding") for asked in local_fix.llm.requests)
    local_fix.out = local_fix.out.with_name("searched")
    assert await local_fix.fix() == local_run.FIXED
    report = json.loads((local_fix.out / "report.json").read_text())
    found = report["context"]["search"]["located"]  # without a reward model, all answers go on
    assert [one["places"][0]["scope"] for one in found] == ["def total(a, b):", "def count(items):"]
    assert "| 1 | `shop/till.py:2` | it subtracts |  |" in (local_fix.out / "report.md").read_text()
    assert {"understanding/0.json", "localisation/1.json", "search/result.json"} <= set(
        read_bundle(local_fix.out / "run.tar.zst").documents
    )
