"""The whole stack as a worker builds it: a spec, its client, the meter and the throttle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from capuchin_demo.recorded.server import RecordedServer
from pipeline.models.base import Model, ModelRequest
from pipeline.models.factory import build_model
from pipeline.models.metering import Meter
from pipeline.models.spec import parse_spec
from pipeline.models.wrappers import ConcurrencyWindow, MeteredModel, ThrottledModel
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore
from tests.contracts.models.clients import KEY, recording, user

ANSWERS = ({"call": "testing", "status": 529, "times": 4, "reply": "x" * 40_000},)


@pytest.mark.parametrize(
    "text",
    ["anthropic:recorded-claude-sonnet-4-6@{}", "openai:recorded-claude-sonnet-4-6@{}/v1"],
)
async def test_a_recorded_run_is_paid_at_list_prices_under_its_own_name(
    tmp_path: Path, text: str
) -> None:
    server = RecordedServer(recording(*ANSWERS), key=KEY)
    meter = await Meter.open(DirStore(tmp_path), ceiling=0.15)
    async with server.serve() as url:
        client = build_model(parse_spec(text.format(url)), api_key=KEY)
        model: Model = ThrottledModel(
            MeteredModel(client, meter), ConcurrencyWindow(2), waits=(0, 0)
        )
        await model.complete(ModelRequest("", (user("Hi"),), call="testing/0"))
        with pytest.raises(BudgetSpent):
            await model.complete(ModelRequest("", (user("Hi"),), call="testing/1"))
        await client.aclose()
    (account,) = meter.accounts()
    assert (account.stage, account.model) == ("testing", "recorded-claude-sonnet-4-6")
    assert account.dollars == pytest.approx(0.15, abs=0.001)
    assert len(server.requests) == 5


def test_no_sdk_is_imported_before_a_client_is_built() -> None:
    code = (
        "import sys, capuchin_demo.recorded.server, pipeline.models.factory, "
        "pipeline.models.metering, pipeline.models.wrappers; "
        "sys.exit(bool({'anthropic', 'openai'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
