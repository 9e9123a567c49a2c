"""What runs leave in logs, metrics and a receiver of traces."""

import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import generate_latest
from redis.exceptions import RedisError
from stamina.instrumentation import RetryDetails

from bot.data.run import Run
from bot.errors import GitHubUnavailable
from bot.github.http import _log_retry  # pyright: ignore[reportPrivateUsage]
from bot.server.app import create_app
from bot.settings import Settings
from bot.storage.client import Outage
from bot.telemetry.log import build_formatter
from bot.telemetry.measurements import METRICS
from bot.telemetry.tracing import tracing
from capuchin_demo.environment import find_free_port
from capuchin_demo.hub.tokens import generate_app
from pipeline.models.base import ModelMisconfigured
from sandbox.frozen import replace
from tests.e2e import shop
from tests.e2e.harness import BotHarness
from tests.e2e.webhook.delivery import SECRET, deliver, labeled, serving
from tests.support.serving import wait_for_port

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
    assert (ended["status"], "cause" in ended) == (run.status.words, False)
    acts = [r for r in ours if r["logger"] == "bot.audit"]
    assert {act["by"] for act in acts} == {run.asked_by}
    said = [act["event"].removeprefix("GitHub: ") for act in acts]
    assert {
        f"POST /repos/acme/shop/issues/{run.issue}/comments",
        f"git push {run.head_commit} refs/heads/{run.branch}",
        "POST /repos/acme/shop/pulls",
    } <= set(said)
    assert not any(act.startswith("GET ") for act in said)


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


def test_a_wait_has_its_service_its_cause_and_its_seconds_as_keys() -> None:
    with log_of("bot") as records:
        Outage().begin(RedisError("gone"))
        why = GitHubUnavailable("GET /user: github.test: 502")
        _log_retry(RetryDetails("GET", (), {}, 1, 2.04, 0.0, why))
    assert [(r["waits_for"], r["why"], r.get("wait")) for r in records] == [
        ("redis", "gone", None),
        ("github", "GET /user: github.test: 502", 2.0),
    ]


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
        "ANTHROPIC_API_KEY": "none",
    }
    argv = [sys.executable, "-m", "bot", command]
    argv += ["--port=0"] if command == "serve" else []
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.kill()
    if log_format == "json":
        assert json.loads(line).keys() >= {"timestamp", "level", "logger", "event"}
    else:
        assert line.split()[1] in ("INFO", "WARNING")


SERVER: Final = "mockotlpserver"
"""Elastic's receiver, of npm's package @elastic/mockotlpserver."""
RECEIVE: Final = """
const {MockOtlpServer, normalizeTrace} = require(process.argv[1]);
new MockOtlpServer({
    services: ["http"],
    logLevel: "fatal",
    httpHostname: "127.0.0.1",
    httpPort: Number(process.argv[2]),
    onTrace: (trace) => console.log(JSON.stringify(normalizeTrace(trace))),
}).start();
"""
CHILDREN: Final = ("stage", "model call", "execution", "GitHub call")


class Receiver:
    """A receiver of OTLP that prints what it gets."""

    def __init__(self, port: int, log: Path) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._log = log

    def list_spans(self) -> list[dict[str, Any]]:
        """All spans so far."""
        spans: list[dict[str, Any]] = []
        for line in self._log.read_text(encoding="utf-8").splitlines():
            if line.startswith('{"resourceSpans"') and line.endswith("}"):
                for resource in json.loads(line)["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        spans += scope["spans"]
        return spans


@contextmanager
def receiving(folder: Path) -> Generator[Receiver | None]:
    """None: the program is missing."""
    program = shutil.which(SERVER)
    if program is None:
        yield None
        return
    port, log = find_free_port(), folder / "otlp.log"
    package = Path(program).resolve().parents[1]
    words = ["node", "-e", RECEIVE, str(package), str(port)]  # its command's ports are fixed
    with log.open("wb") as file, subprocess.Popen(words, stdout=file, stderr=file) as process:
        try:
            wait_for_port(port)
            yield Receiver(port, log)
        finally:
            process.terminate()


def list_roots(spans: list[dict[str, Any]], run: Run) -> list[dict[str, Any]]:
    """The spans of the run's trace that have no parent."""
    return [span for span in spans if span["traceId"] == run.id and not span.get("parentSpanId")]


def has_root(receiver: Receiver, run: Run) -> bool:
    """Whether the last span of the run's trace arrived: the root ends after all others."""
    return list_roots(receiver.list_spans(), run) != []


def read_sample(page: str, name: str) -> float:
    """The sum of a metric's samples whose labels begin as given."""
    return sum(float(value) for value in re.findall(rf"(?m)^{re.escape(name)}.* (\S+)$", page))


async def test_a_run_leaves_samples_and_one_trace(
    one_sample_bot: BotHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")  # milliseconds
    before = generate_latest(METRICS).decode()  # of other tests of this process
    repo = one_sample_bot.add_repo(config=shop.ONE_SAMPLE)
    with receiving(tmp_path) as receiver:
        endpoint = receiver.address if receiver else ""
        with tracing(replace(one_sample_bot.settings, otlp_endpoint=endpoint)):
            run = await one_sample_bot.solve(await one_sample_bot.open_issue(repo))
        if receiver is not None:  # it prints what it has received when it comes to it
            await one_sample_bot.until(partial(has_root, receiver, run))
    page = generate_latest(METRICS).decode()

    def grown(name: str) -> float:
        return read_sample(page, f"capuchin_{name}") - read_sample(before, f"capuchin_{name}")

    assert grown(f'run_dollars_count{{end="{run.status.words}"}}') == 1
    assert grown("run_dollars_sum") == pytest.approx(run.dollars, abs=1e-6)
    assert grown('queue_duration_seconds_count{lane="issues"}') == 1
    for name in ("stage_duration_seconds", "execution_duration_seconds", "model_call_tokens"):
        assert grown(f"{name}_count") > 0, name
    calls = grown("model_call_duration_seconds_count")
    assert 0 < calls <= len(one_sample_bot.llm.requests)
    assert grown("github_call_duration_seconds_count") > 0
    assert repo.name not in page
    if receiver is None:
        pytest.skip(f"{SERVER} is missing: npm install -g --ignore-scripts @elastic/{SERVER}")
    spans = [span for span in receiver.list_spans() if span["traceId"] == run.id]
    (root,) = list_roots(spans, run)
    assert (root["name"], root["attributes"]["capuchin.status"]) == ("run", run.status.words)
    stages = {span["spanId"]: span for span in spans if span["name"].startswith("stage ")}
    assert {span["parentSpanId"] for span in stages.values()} == {root["spanId"]}
    asked = [span for span in spans if span["name"].startswith("model call ")]
    executed = [span for span in spans if span["name"] == "execution"]
    assert len(asked) == calls
    assert executed
    for span in (*asked, *executed):
        assert span["parentSpanId"] in stages
    for span in spans:
        assert span is root or span["name"].startswith(CHILDREN)
