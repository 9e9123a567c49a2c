"""The App asks for what its code uses, and for nothing that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.data.request import ConfigCheckRequest
from bot.data.run import Login, Mode
from bot.github.credentials import PERMISSIONS
from bot.runs.config_check import check_config
from capuchin_demo.hub.hub import LocalHub
from capuchin_demo.hub.rest_call import match
from capuchin_demo.hub.rest_router import OPERATIONS
from capuchin_demo.hub.state import Exchange
from capuchin_demo.hub.tokens import LEVELS
from pipeline.data.types import CommitSha
from tests.e2e.harness import BotHarness
from tests.support.hub import ref_of


def needs_of(exchange: Exchange) -> str:
    """What the hub asks of a token for this call: `issues:write`, or several parted by `|`."""
    if exchange.api == "git":
        return "contents:write" if "receive-pack" in exchange.path else "contents:read"
    found = match(OPERATIONS, exchange.method, exchange.path)
    assert found is not None
    needs = found[0].needs
    if "/issues/" in exchange.path and "|" in needs:  # of an issue, and of no pull request
        needs = next(one for one in needs.split("|") if one.startswith("issues:"))
    return "" if needs in ("app", "open") else needs


def suffice(granted: dict[str, str], needs: str) -> bool:
    return any(
        LEVELS.index(granted.get(name, "none")) >= LEVELS.index(level)
        for name, _, level in (one.partition(":") for one in needs.split("|"))
    )


@pytest.fixture
async def used(manual_bot: BotHarness, hub: LocalHub, tmp_path: Path) -> set[str]:
    """What a whole run, looking after its pull request and a settings check ask for."""
    repo, issue = await manual_bot.prepare_issue()
    run = await manual_bot.work_on(await manual_bot.lease(repo, issue))
    assert run.pull_request is not None
    asked = await manual_bot.runs.create(
        ref_of(repo), run.pull_request, asked_by=Login("alice"), delivery="t", mode=Mode.FOLLOW_UP
    )
    lease = await manual_bot.take(asked.run_id)
    await manual_bot.work_on(lease)
    files: dict[str, str | None] = {".capuchin.yml": "samples: 0\n"}
    await hub.commit(repo, "settings", files, "x", "bob")
    pull = await hub.open_pull(repo, "settings", "x", "bob")
    request = ConfigCheckRequest(
        repo=ref_of(repo), pull=pull.number, head=CommitSha(pull.head_sha), delivery="d"
    )
    await check_config(request, manual_bot.parts.github)
    assert len(repo.check_runs) == 2
    return {needs for exchange in hub.requests if (needs := needs_of(exchange))}


async def test_what_is_asked_for_suffices(used: set[str]) -> None:
    assert [needs for needs in used if not suffice(PERMISSIONS, needs)] == []


async def test_none_of_it_could_be_left_out_or_lowered(used: set[str]) -> None:
    idle: list[str] = []
    for name, level in PERMISSIONS.items():
        less = PERMISSIONS | {name: LEVELS[LEVELS.index(level) - 1]}
        if all(suffice(less, needs) for needs in used):
            idle.append(name)
    assert idle == []
