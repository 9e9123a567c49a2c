"""The logs of processes: their format, and what they say of each record's run and delivery."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from bot.server.app import create_app
from bot.settings import Settings
from bot.telemetry.log import build_formatter
from capuchin_demo.environment import find_free_port
from capuchin_demo.hub.tokens import generate_app
from pipeline.models.base import ModelMisconfigured
from tests.e2e import shop
from tests.e2e.harness import BotHarness
from tests.e2e.webhook.delivery import SECRET, deliver, labeled, serving

Record = dict[str, Any]


@contextmanager
def log_of(name: str) -> Generator[list[Record]]:
    """The records of a logger, in JSON, once the block is left."""
    stream, records = io.StringIO(), list[Record]()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(build_formatter("json"))
    logger = logging.getLogger(name)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        records += [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_each_record_of_a_run_names_it_and_the_stage(one_sample_bot: BotHarness) -> None:
    repo = one_sample_bot.add_repo(config=shop.ONE_SAMPLE)
    with log_of("") as records:
        run = await one_sample_bot.solve(await one_sample_bot.open_issue(repo))
    ours = [record for record in records if record.get("run") == run.id]
    assert {(r["repository"], r["issue"], r["delivery"]) for r in ours} == {
        ("acme/shop", run.issue, run.delivery)
    }
    asked = [r for r in ours if "/v1/messages" in r["event"]]
    assert {"context", "edits", "reproduction"} <= {record["stage"] for record in asked}
    (ended,) = (r for r in ours if r["event"].startswith(f"Run {run.id} ended after "))
    assert (ended["logger"], "stage" in ended) == ("bot.queue.attempt", False)
    assert (ended["status"], "cause" in ended) == (run.status.value, False)


async def test_the_end_of_a_failed_run_is_one_line_with_class_cause_and_status(
    bot: BotHarness,
) -> None:
    bot.runner.answer = ModelMisconfigured("401: no such key\nERROR forged")
    with log_of("bot") as records:
        run = await bot.solve(await bot.open_issue(bot.add_repo()))
    (ended,) = (r for r in records if r["event"].startswith(f"Run {run.id} ended after "))
    assert (ended["level"], ended["status"], ended["failure"]) == (
        "warning",
        "failed",
        "model misconfigured",
    )
    assert ended["cause"] == "ModelMisconfigured: 401: no such key ERROR forged"
    deliveries = [r["event"] for r in records if r["event"].startswith("Delivery ")]
    assert f"Delivery {run.delivery} of 'issues': 202" in deliveries
    assert any(r["event"].startswith("Worker ") for r in records)


async def test_a_record_of_the_server_names_the_delivery() -> None:
    nowhere = f"redis://127.0.0.1:{find_free_port()}/0"
    settings = Settings.model_validate({"webhook_secret": SECRET, "redis_url": nowhere})
    with log_of("bot.server") as records:
        async with serving(create_app(settings)) as client:
            assert (await deliver(client, labeled(), delivery="guid")).status_code == 503
    (refused,) = (record for record in records if record["logger"] == "bot.server.app")
    assert "guid" in refused["event"]
    assert (refused["delivery"], refused["repository"]) == ("guid", "acme/shop")


@pytest.mark.parametrize("command", ["serve", "worker"])
@pytest.mark.parametrize("log_format", ["", "json"])
def test_the_setting_acts_on_processes(command: str, log_format: str) -> None:
    environment = {
        "PATH": os.defpath,
        "CAPUCHIN_LOG_FORMAT": log_format,
        "CAPUCHIN_WEBHOOK_SECRET": "a secret",
        "CAPUCHIN_GITHUB_APP_ID": "1",
        "CAPUCHIN_GITHUB_PRIVATE_KEY": generate_app().private_key_pem,
        "CAPUCHIN_REDIS_URL": f"redis://127.0.0.1:{find_free_port()}/0",
        "CAPUCHIN_PORT": "0",
        "ANTHROPIC_API_KEY": "none",
    }
    argv = [sys.executable, "-m", "bot", command]
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.kill()
    if log_format == "json":
        assert json.loads(line).keys() >= {"timestamp", "level", "logger", "event"}
    else:
        assert line.split()[1] in ("INFO", "WARNING")
