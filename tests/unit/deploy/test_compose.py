import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from bot.server.app import create_app
from bot.server.connections import serve_app
from bot.settings import Settings, find_unknown_variables
from pipeline.lab.learning.interpreter import TrainingConfig
from pipeline.models.spec import look_up, parse_spec
from sandbox.docker.container import Runtime, common_limits
from sandbox.program import Limits
from tests.support.redis import RedisServer

ROOT = Path(__file__).parents[3]


COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


@pytest.fixture
def flags() -> list[str]:
    return SERVICES["vllm"]["command"]


@pytest.mark.parametrize("name", ["server", "worker", "redis"])
def test_every_service_is_watched_limited_and_started_again(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["mem_limit"]
    assert service["restart"] == "unless-stopped"
    assert service["logging"]["options"]["max-size"]


def test_where_all_want_the_processors_guests_yield_to_services() -> None:
    usual = 1024  # what Docker gives to a container that names no other share
    assert SERVICES["server"]["cpu_shares"] == SERVICES["redis"]["cpu_shares"] == 2 * usual
    guest = common_limits(Limits(), Runtime(profile="{}"))["cpu_shares"]
    assert guest == usual // 4


def test_nothing_starts_before_redis_answers_and_all_data_has_a_name() -> None:
    for name in ("server", "worker"):
        assert SERVICES[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}
        assert SERVICES[name]["cap_drop"] == ["ALL"]
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    named = {mount.partition(":")[0] for mount in mounts if not mount.startswith(("/", "$"))}
    assert named == set(COMPOSE["volumes"])


@pytest.mark.parametrize(("name", "is_up"), [("server", True), ("worker", False)])
def test_the_health_checks_ask_what_the_server_answers(
    name: str, is_up: bool, redis_server: RedisServer, redis_prefix: str
) -> None:
    """A server with Redis is healthy; without any worker, the worker's check fails."""
    argv = SERVICES[name]["healthcheck"]["test"][1:]
    settings = Settings(
        webhook_secret=SecretStr("secret"), redis_url=redis_server.url, redis_prefix=redis_prefix
    )

    async def check() -> int:
        async with serve_app(create_app(settings), "127.0.0.1", 0) as address:
            code = re.sub(r"http://[^/]+", address, argv[-1])
            process = await asyncio.create_subprocess_exec(
                sys.executable, *argv[1:-1], code, stderr=asyncio.subprocess.DEVNULL
            )
            return await process.wait()

    assert (asyncio.run(check()) == 0) is is_up


def test_vllm_caches_prefixes_and_prefills_in_chunks(flags: list[str]) -> None:
    wanted = {
        "--enable-prefix-caching",
        "--enable-chunked-prefill",
        "--enable-prompt-tokens-details",
    }
    assert wanted <= set(flags)


def by_default(flag: str) -> str:
    """A flag where none of the variables that compose reads is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", flag)


def test_trained_models_are_served_alike_in_compose_and_in_kubernetes() -> None:
    """Three adapters of the trainer's rank, under the names that the settings ask for."""
    folder = ROOT / "deploy/kubernetes/models"
    manifests = list(yaml.safe_load_all((folder / "vllm.yaml").read_text()))
    (container,) = manifests[-1]["spec"]["template"]["spec"]["containers"]
    flags: list[str] = container["args"]
    assert flags == list(map(by_default, SERVICES["vllm-learned"]["command"]))
    rank = TrainingConfig.model_fields["rank"].default
    assert {"--enable-lora", f"--max-lora-rank={rank}"} <= set(flags)
    start = flags.index("--lora-modules") + 1
    served = {"base", *(name.partition("=")[0] for name in flags[start : start + 3])}
    lines = (folder / "settings.env").read_text().split()
    models = [line for line in lines if re.match(r"CAPUCHIN_\w+(_MODEL|_REFERENCE)=", line)]
    assert {parse_spec(line.partition("=")[2]).name for line in models} == served
    assert find_unknown_variables(dict(line.split("=", 1) for line in lines)) == []
    assert "vllm-learned" in SERVICES["server"]["environment"]["CAPUCHIN_OWN_HOSTS"]


def test_vllm_takes_prompts_as_long_as_files_are_cut_to(flags: list[str]) -> None:
    given = dict(by_default(flag).split("=", 1) for flag in flags if "=" in flag)
    scout = look_up(parse_spec("openai:any@http://vllm:8000/v1"))
    assert int(given["--max-model-len"]) >= scout.profile.window
