"""`capuchin doctor` where everything works, and where something does not."""

from __future__ import annotations

import dataclasses
import re
import uuid
from pathlib import Path
from typing import Any, cast

import pytest
from docker.errors import NotFound

from bot.cli.doctor_checks import clean_all, run_checks
from bot.settings import Settings
from capuchin_demo.recorded.recording import RecordedAnswer, Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.models.providers.provider_http import DOCTOR_CALL
from sandbox.docker.base_image import image_exists
from sandbox.docker.docker_client import connect
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.frozen import replace
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from tests.e2e.harness import BotHarness
from tests.support.docker import build_environment, make_tree


async def test_everything_that_is_needed_is_seen_to_work(recorded_bot: BotHarness) -> None:
    recorded_bot.add_repo()
    checks = await run_checks(recorded_bot.settings)
    assert [check for check in checks if not check.works] == []
    found = {check.name: check.found for check in checks}
    assert {"Python", "git", "Docker", "base image", "GitHub App", "model"} <= found.keys()
    assert "acme/shop" in found["fetching"]
    assert {"permissions", "workers"} <= found.keys()


async def test_a_redis_that_keeps_nothing_on_disk_is_found(
    bot: BotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = (await bot.redis.config_get("save"))["save"]
    await bot.redis.config_set("save", "")
    found = {check.name: check for check in await run_checks(bot.settings)}["Redis"]
    await bot.redis.config_set("save", kept)
    assert not found.works
    assert "disk" in found.found


async def test_each_model_that_is_set_is_asked(recorded_bot: BotHarness) -> None:
    url = recorded_bot.settings.anthropic_base_url
    settings = replace(
        recorded_bot.settings,
        scout_model=f"openai:scout@{url}/v1",
        embedding_model="openai:vectors@http://127.0.0.1:9/v1",
        orm_model=f"openai:reward@{url}/v1",
        prm_model=f"openai:process@{url}/v1",
    )
    checks = {check.name: check for check in await run_checks(settings)}
    assert checks["scout"].works
    assert not checks["embedding model"].works
    assert "log-probabilities" in checks["reward model"].mend
    assert checks["process reward model"].works
    assert checks["process reward model"].found
    assert [asked.call for asked in recorded_bot.llm.requests].count(DOCTOR_CALL) >= 2


async def test_served_adapters_are_asked_for_what_a_run_asks(recorded_bot: BotHarness) -> None:
    """The windows are said; a name that the server lacks, and answers without probabilities."""
    said = RecordedAnswer(call=DOCTOR_CALL, reply="+", logprobs={"+": -0.1, "-": -2.4})
    unknown = RecordedAnswer(call=DOCTOR_CALL, status=404, error="The model `prm` does not exist.")
    windows = {"base": 16_384, "orm": "base"}
    judge = RecordedServer(_recording(said), windows=windows)
    lacks = RecordedServer(_recording(unknown), windows=windows)
    async with judge.serve() as url, lacks.serve() as other:
        settings = replace(
            recorded_bot.settings,
            orm_model=f"openai:orm@{url}/v1",
            prm_model=f"openai:prm@{other}/v1",
        )
        checks = {check.name: check for check in await run_checks(settings)}
        trained = replace(settings, orm_reference=f"openai:base@{url}/v1")
        implicit = {check.name: check for check in await run_checks(trained)}
    found = checks["reward model"].found
    assert found.startswith(settings.orm_model)
    assert "16,384" in found
    assert not checks["process reward model"].works
    assert "base, orm" in checks["process reward model"].mend
    for name in ("reward model", "reference model"):
        assert "log-probabilities" in implicit[name].found


def _recording(*answers: RecordedAnswer) -> Recording:
    return Recording(version=1, note="Written by hand.", answers=answers)


async def test_what_the_app_lacks_and_what_did_not_arrive_is_said(bot: BotHarness) -> None:
    hub, app = bot.hub, bot.hub.app
    await bot.report_issue(bot.add_repo())
    await hub.webhooks.wait_until_idle()
    settings = replace(bot.settings, redis_url="redis://127.0.0.1:9/0", docker_url="unix:///no")
    checks = {check.name: check for check in await run_checks(settings)}
    assert re.match(r"(\d+) .*\b\1\b", checks["webhooks"].found)
    hub.app = dataclasses.replace(
        app, permissions={**app.permissions, "checks": "read"}, events=("issues",)
    )
    status, hub.deliveries[-1].status = hub.deliveries[-1].status, 401
    checks = {check.name: check for check in await run_checks(settings)}
    hub.app, hub.deliveries[-1].status = app, status
    lacking = checks["permissions"].found
    assert ("checks: write" in lacking, "check_run" in lacking) == (True, True)
    assert not checks["webhooks"].works
    assert "webhook secret" in checks["webhooks"].mend


async def test_a_misspelt_variable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPUCHIN_SOLVER_MODLE", "x")
    checks = {check.name: check for check in await run_checks(Settings())}
    found = checks["environment"].found
    assert "CAPUCHIN_SOLVER_MODLE" in found
    assert "CAPUCHIN_SOLVER_MODEL" in found


async def test_docker_tells_how_executions_are_held(recorded_bot: BotHarness) -> None:
    (docker,) = [
        check for check in await run_checks(recorded_bot.settings) if check.name == "Docker"
    ]
    assert docker.found.startswith("Docker ")


async def test_cleaning_takes_the_images_and_the_containers_of_dead_runs(
    recorded_bot: BotHarness, tmp_path: Path
) -> None:
    owner = f"tests-{uuid.uuid4().hex}"
    engine = DockerEngine(DockerOptions(owner=owner))
    tree = make_tree(tmp_path, {"app.py": f"# {uuid.uuid4()}"})
    image = await build_environment(
        engine, EnvironmentRequest(tree, setup=["true"], scope=uuid.uuid4().hex)
    )
    client = connect(None)
    labels = {LABEL_RUN: "dead", LABEL_OWNER: owner}
    made = str(cast(Any, client).create_container(image, labels=labels)["Id"])
    said = await clean_all(recorded_bot.settings, [engine])
    await engine.close()
    assert said.startswith("Removed 1 container, ")
    assert not image_exists(client, image)
    with pytest.raises(NotFound):
        client.inspect_container(made)
    client.close()


async def test_a_wrong_key_of_the_model_is_found_with_its_mend(recorded_bot: BotHarness) -> None:
    settings = replace(recorded_bot.settings, solver_model="nonsense")
    (model,) = [check for check in await run_checks(settings) if check.name == "model"]
    assert not model.works
    assert "CAPUCHIN_SOLVER_MODEL" in model.mend


async def test_an_app_that_github_does_not_know_is_found_with_its_mend(
    recorded_bot: BotHarness,
) -> None:
    settings = replace(recorded_bot.settings, github_app_id="999")
    (app,) = [check for check in await run_checks(settings) if check.name == "GitHub App"]
    assert not app.works
    assert "CAPUCHIN_GITHUB" in app.mend


async def test_nothing_set_at_all_is_many_mends_and_no_crash() -> None:
    settings = Settings(
        redis_url="redis://127.0.0.1:9/0",
        docker_url="unix:///nowhere.sock",
        anthropic_base_url="http://127.0.0.1:9",
    )
    checks = await run_checks(settings)
    broken = {check.name for check in checks if not check.works}
    assert {"Redis", "Docker", "webhook secret", "GitHub App", "model"} <= broken
    assert all(check.mend for check in checks if not check.works)
