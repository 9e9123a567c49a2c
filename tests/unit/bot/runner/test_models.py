"""The models of the settings, as a worker builds them, against recorded services."""

import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.comments.pull_request import price_notes, render_cost
from bot.runner.models import ModelContext, ModelFactory
from bot.settings import Settings
from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.code_places import Located
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.models.base import Message, ModelRequest, ScoreUnavailable
from pipeline.models.metering import Meter
from pipeline.store import DirStore
from pipeline.workflows.outcome import Models
from sandbox.frozen import replace

NAME = "claude-haiku-4-5"
SAID = (Message(role="user", text="Hi"),)


def service(**answer: Any) -> RecordedServer:
    written = {"version": 1, "note": "Made up.", "answers": [{"call": "*", **answer}]}
    return RecordedServer(Recording.model_validate(written))


@asynccontextmanager
async def made(
    root: Path, solver: str, servers: list[RecordedServer], *, scout: str = "", **given: Any
) -> AsyncGenerator[tuple[Models, Meter]]:
    """`{0}` in `solver` is the first server's address, and so on."""
    options = Options.model_validate({k: v for k, v in given.items() if k in Options.model_fields})
    rest = {k: v for k, v in given.items() if k not in Options.model_fields}
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(server.serve()) for server in servers]
        settings = Settings(
            solver_model=solver.format(*urls),
            scout_model=scout.format(*urls),
            anthropic_api_key=SecretStr("k"),
            **rest,
        )
        store = DirStore(root)
        meter = await Meter.open(store, 10)
        purpose = ModelContext(meter, options)
        yield await stack.enter_async_context(ModelFactory(settings).open(purpose)), meter


async def test_a_list_of_solvers_is_asked_in_order_and_the_accounts_name_who_answered(
    tmp_path: Path,
) -> None:
    servers = [service(status=404), service(reply="yes")]
    text = f"anthropic:{NAME}@{{0}}, openai:qwen@{{1}}/v1"
    async with made(tmp_path, text, servers) as (models, meter):
        reply = await models.solver.complete(ModelRequest("", SAID, call="testing/0"))
        assert models.solver.profile.window == 32_768, "what is planned fits each of them"
    assert reply.model == "recorded-qwen"
    assert [account.model for account in meter.accounts()] == ["recorded-qwen"]


async def test_only_the_solver_is_asked_to_think(tmp_path: Path) -> None:
    server = service(reply="yes")
    text = f"anthropic:{NAME}@{{0}}"
    async with made(tmp_path, text, [server], scout=text, thinking_tokens=2000) as (models, _):
        assert models.scout is not None
        await models.solver.complete(ModelRequest("", SAID, call="testing/0"))
        await models.scout.complete(ModelRequest("", SAID, call="relevance"))
    assert [asked.thinking_tokens for asked in server.requests] == [2000, 0]


async def test_a_price_that_is_in_no_list_is_marked_as_assumed(tmp_path: Path) -> None:
    servers = [service(reply="yes"), service(reply="yes")]
    text = "anthropic:mystery@{0}"
    async with made(tmp_path, text, servers, scout="openai:qwen@{1}/v1") as (models, meter):
        assert models.scout is not None
        await models.solver.complete(ModelRequest("", SAID, call="testing/0"))
        await models.scout.complete(ModelRequest("", SAID, call="relevance"))
    kept = await Meter.open(DirStore(tmp_path), 1)
    live = [replace(a, model="m") for a in kept.accounts()]
    guessed, free = price_notes(live)
    assert guessed.startswith("The price of mystery is not known; it is counted at $25 and $125")
    assert free == "qwen runs on the operator's own server: free."
    assert f"{guessed}\n\n{free}" in render_cost(live)
    assert price_notes(meter.accounts()) == (), "recorded answers cost nothing at all"


async def test_the_operators_prices_are_used(tmp_path: Path) -> None:
    facts = {
        "price": {"input": 0, "output": 1_000_000},
        "window": 9000,
        "max_output": 2,
        "sampling": True,
    }
    prices = {"version": 1, "date": "2026-11", "models": {"qwen": facts}}
    (tmp_path / "prices.json").write_text(json.dumps(prices))
    given: dict[str, Any] = {"prices_file": tmp_path / "prices.json"}
    async with made(tmp_path, "openai:qwen@{0}/v1", [service(reply="yes")], **given) as (models, m):
        await models.solver.complete(ModelRequest("", SAID, call="testing/0"))
        assert models.solver.profile.window == 9000
    assert m.ledger.dollars == 1


async def test_the_window_of_a_self_hosted_model_comes_from_its_server(tmp_path: Path) -> None:
    written = {"version": 1, "note": "Made up.", "answers": [{"call": "*", "reply": "yes"}]}
    server = RecordedServer(Recording.model_validate(written), windows={"qwen": 131_072})
    async with made(tmp_path, "openai:qwen@{0}/v1", [server]) as (models, _):
        assert models.solver.profile.window == 131_072
        await models.solver.complete(ModelRequest("", SAID, call="x"))
    assert server.requests[-1].max_tokens == 131_072 // 4


async def test_a_process_reward_model_that_writes_its_score_keeps_within_its_window(
    tmp_path: Path,
) -> None:
    written = {"version": 1, "note": "Made up.", "answers": [{"call": "*", "reply": "yes"}]}
    server = RecordedServer(Recording.model_validate(written), windows={"prm": 8_192})
    async with server.serve() as url:
        prm = f"openai:prm@{url}/v1"
        async with made(tmp_path, "openai:qwen@{0}/v1", [service(reply="y")], prm_model=prm) as it:
            assert it[0].prm is not None
            with pytest.raises(ScoreUnavailable):
                await it[0].prm.score(
                    Issue(repository="a/b", title="t", body="b"), Located(files=())
                )
    assert server.requests[-1].max_tokens == 8_192 // 4


async def test_a_server_that_does_not_state_its_window_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with made(tmp_path, "openai:qwen@{0}/v1", [service(reply="yes")]) as (models, _):
        assert models.solver.profile.window == 32_768
    assert "does not state the model's window: assuming 32768 tokens" in caplog.text
    assert "CAPUCHIN_PRICES_FILE" in caplog.text


def test_the_clients_of_models_are_imported_before_a_worker_works() -> None:
    """Their import takes seconds, in which no lease would be renewed."""
    code = """
import asyncio, sys
from bot.bootstrap import open_bot
from bot.settings import Settings

async def look():
    async with open_bot(Settings(anthropic_api_key="k")):
        print(*sorted({"anthropic", "openai"} & set(sys.modules)))

asyncio.run(look())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "anthropic\n"
