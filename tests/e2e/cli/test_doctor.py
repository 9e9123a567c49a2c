"""`capuchin doctor`: what it finds, and what `--clean` removes."""

import asyncio
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import docker
import pytest
from docker.errors import NotFound

from bot.bootstrap import learn_app
from bot.cli.doctor_checks import clean_all, run_checks
from bot.cli.doctor_services import CheckFailed, check_permissions
from bot.runner.sandbox import FIX_OWNER, build_engine
from bot.settings import Settings
from capuchin_demo.recorded.recording import RecordedAnswer, Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.models.providers.provider_http import DOCTOR_CALL
from sandbox.docker import build_network, docker_engine
from sandbox.docker.base_image import base_reference, ensure_base_image, image_exists
from sandbox.docker.docker_client import connect
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import Engine, EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from sandbox.frozen import replace
from sandbox.kubernetes.cluster import Cluster
from sandbox.kubernetes.pod import PodOptions, warm_pod_manifest
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.program import Limits
from sandbox.scratch import lock_folder
from tests.e2e.harness import BotHarness
from tests.support import own_docker_daemon
from tests.support.docker import build_environment, make_tree
from tests.support.local_kubernetes import NAMESPACE, LocalCluster
from tests.support.own_docker_daemon import OwnDaemon
from tests.support.redis import RedisServer
from tests.support.remote_docker import docker_behind_ssh, docker_behind_tls, skip_without_sshd


async def test_everything_that_is_needed_is_seen_to_work(recorded_bot: BotHarness) -> None:
    recorded_bot.add_repo()
    checks = await run_checks(recorded_bot.settings)
    assert [check for check in checks if not check.works] == []
    found = {check.name: check.found for check in checks}
    assert {"Python", "git", "Docker", "base image", "GitHub App", "model"} <= found.keys()
    assert "acme/shop" in found["fetching"]
    assert {"permissions", "workers"} <= found.keys()
    assert found["Docker"].startswith("Docker ")


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
        orm_model=f"openai:reward@{url}/v1",
        prm_model=f"openai:process@{url}/v1",
    )
    checks = {check.name: check for check in await run_checks(settings)}
    assert checks["scout"].works
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
        trained = replace(settings, orm_model=f"{settings.orm_model},openai:base@{url}/v1")
        implicit = {check.name: check for check in await run_checks(trained)}
    found = checks["reward model"].found
    assert found.startswith(settings.orm_model)
    assert "16,384" in found
    assert not checks["process reward model"].works
    assert "base, orm" in checks["process reward model"].mend
    assert "log-probabilities of the prompt" in implicit["reward model"].found


def _recording(*answers: RecordedAnswer) -> Recording:
    return Recording(version=1, note="Written by hand.", answers=answers)


async def test_what_the_app_lacks_and_what_did_not_arrive_is_said(
    bot: BotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no")
    hub, app = bot.hub, bot.hub.app
    await bot.report_issue(bot.add_repo())
    await hub.webhooks.wait_until_idle()
    settings = replace(bot.settings, redis_url="redis://127.0.0.1:9/0")
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


async def test_an_installation_that_has_not_accepted_all_is_named_with_the_page_to_do_it(
    bot: BotHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """By doctor, and by a worker that starts."""
    one, other = (bot.add_repo(f"{owner}/shop").installation for owner in ("acme", "late"))
    assert one is not None
    assert other is not None
    del other.permissions["checks"]
    other.events = tuple(event for event in other.events if event != "push")
    with pytest.raises(CheckFailed) as failed:
        await check_permissions(bot.settings)
    await learn_app(bot.settings, bot.parts.github)
    for said in (failed.value.found, caplog.text):
        assert "checks: write" in said
        assert "events: push" in said
        assert f"/late/settings/installations/{other.id}" in said
        assert "acme" not in said
    other.permissions, other.events = one.permissions, one.events
    assert "every installation" in await check_permissions(bot.settings)


async def test_a_secret_that_ends_in_a_line_break_is_read_without_it_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CAPUCHIN_WEBHOOK_SECRET", "abc\r\n")
    monkeypatch.setenv("CAPUCHIN_GITHUB_APP_ID", " 12\n")
    settings = Settings.from_env()
    assert (settings.webhook_secret.get_secret_value(), settings.github_app_id) == ("abc", "12")
    checks = {check.name: check for check in await run_checks(settings)}
    assert checks["environment"].works
    assert "CAPUCHIN_WEBHOOK_SECRET" in checks["environment"].found


async def test_a_misspelt_variable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPUCHIN_SOLVER_MODLE", "x")
    checks = {check.name: check for check in await run_checks(Settings())}
    found = checks["environment"].found
    assert "CAPUCHIN_SOLVER_MODLE" in found
    assert "CAPUCHIN_SOLVER_MODEL" in found


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


@pytest.mark.parametrize(
    ("name", "given", "mend"),
    [
        ("model", {"solver_model": "nonsense"}, "CAPUCHIN_SOLVER_MODEL"),
        ("GitHub App", {"github_app_id": "999"}, "CAPUCHIN_GITHUB"),
    ],
)
async def test_a_setting_that_a_service_does_not_know_is_found_with_its_mend(
    recorded_bot: BotHarness, name: str, given: dict[str, str], mend: str
) -> None:
    checks = await run_checks(replace(recorded_bot.settings, **given))
    found = next(check for check in checks if check.name == name)
    assert (found.works, mend in found.mend) == (False, True)


DOCKERFILE = "FROM capuchin/base\nRUN touch /made\nRUN exit 1\n"
OLD = 1_000_000_000


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, daemon: docker.APIClient) -> Iterator[OwnDaemon]:
    """A Docker of our own, which has the base image."""
    if not own_docker_daemon.can_run_own_daemon():
        pytest.skip("needs root and dockerd")
    with OwnDaemon(tmp_path_factory.mktemp("docker")) as made:
        made.copy_image(ensure_base_image(daemon), daemon)
        yield made


@contextmanager
def far(way: str, own: OwnDaemon, folder: Path) -> Generator[dict[str, str]]:
    """The settings that lead to it."""
    if way == "ssh":
        skip_without_sshd()
        with docker_behind_ssh(folder) as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
            yield {"DOCKER_HOST": url + own.url.removeprefix("unix://")}
        return
    with docker_behind_tls(folder, own.url.removeprefix("unix://")) as port:
        yield {
            "DOCKER_HOST": f"tcp://localhost:{port}",
            "DOCKER_TLS_VERIFY": "1",
            "DOCKER_CERT_PATH": str(folder),
        }


def settings_of(environment: dict[str, str]) -> Settings:
    named = {name.removeprefix("CAPUCHIN_").lower(): v for name, v in environment.items()}
    return Settings.model_validate({n: v for n, v in named.items() if n in Settings.model_fields})


async def leave(engine: Engine, folder: Path) -> None:
    """Images of an installed repository, and layers of a Dockerfile that failed."""
    await build_environment(
        engine, EnvironmentRequest(make_tree(folder / "one", {"app.py": ""}), setup=["true"])
    )
    tree = make_tree(folder / "two", {"app.py": "", "Dockerfile": DOCKERFILE})
    with pytest.raises(EnvironmentFailed):
        await build_environment(engine, EnvironmentRequest(tree, dockerfile="Dockerfile"))
    await engine.close()


def command(environment: dict[str, str]) -> str:
    argv = [sys.executable, "-m", "bot", "doctor", "--clean"]
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}  # noqa: TID251 - of a child
    done = subprocess.run(argv, env={**kept, **environment}, capture_output=True, text=True)
    return done.stderr


@pytest.mark.parametrize("way", ["tls", "ssh"])
async def test_nothing_of_ours_is_left_where_docker_is_far_away(
    way: str,
    own: OwnDaemon,
    redis_server: RedisServer,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (build_network, docker_engine):
        monkeypatch.setattr(module, "NETWORK", "none")  # that daemon has no other
    with far(way, own, tmp_path_factory.mktemp("far")) as led:
        for name, value in led.items():
            monkeypatch.setenv(name, value)
        # Its name is short: a socket lies in it, whose path may have 107 bytes.
        await nothing_is_left(led, own, redis_server, tmp_path, tmp_path_factory.mktemp("t"))


async def nothing_is_left(
    led: dict[str, str], own: OwnDaemon, redis_server: RedisServer, tmp_path: Path, temporary: Path
) -> None:
    environment = {
        **led,
        "CAPUCHIN_REDIS_URL": redis_server.url,
        "CAPUCHIN_REDIS_PREFIX": f"{tmp_path.name}:",
        "CAPUCHIN_DATA_DIR": str(tmp_path / "data"),
        "TMPDIR": str(temporary),
    }
    settings = settings_of(environment)
    for owner in ("", FIX_OWNER):
        await leave(build_engine(settings, owner=owner), tmp_path / f"tree{owner}")
    client = own.client()
    base = base_reference()
    for owner in (FIX_OWNER, f"{settings.github_url} {settings.github_app_id}"):
        labels = {LABEL_RUN: "dead", LABEL_OWNER: owner}
        client.create_container(base, labels=labels, entrypoint=["sleep"], command=["60"])
    stale, held = temporary / "capuchin-patch-a", temporary / "capuchin-demo-b"
    half = tmp_path / "data/mirrors/h/o/.new-c"
    for folder in (stale, held, half):
        folder.mkdir(parents=True)
        os.utime(folder, (OLD, OLD))
    handle = lock_folder(held)

    said = await asyncio.to_thread(command, environment)

    os.close(handle)
    assert said.startswith("Removed 2 containers")
    assert said.rstrip().endswith("2 temporary folders.")
    assert (stale.exists(), held.exists(), half.exists()) == (False, True, False)
    assert client.containers(all=True) == []
    listed = cast(list[dict[str, Any]], client.images())
    assert [image["RepoTags"] for image in listed] == [[base]]
    assert (client.volumes()["Volumes"] or []) == []
    networks = {network["Name"] for network in cast(list[dict[str, str]], client.networks())}
    assert networks <= {"bridge", "host", "none"}
    client.close()


async def test_pods_go_and_the_builders_images_too(
    own: OwnDaemon, redis_server: RedisServer, tmp_path: Path
) -> None:
    with LocalCluster() as cluster:
        environment = {
            "CAPUCHIN_SANDBOX": "kubernetes",
            "CAPUCHIN_SANDBOX_REGISTRY": "registry.invalid/x",
            "KUBECONFIG": str(cluster.kubeconfig(tmp_path)),
            "DOCKER_HOST": own.url,
            "CAPUCHIN_REDIS_URL": redis_server.url,
            "CAPUCHIN_REDIS_PREFIX": f"{tmp_path.name}:",
        }
        settings = settings_of(environment)
        pods = Cluster(NAMESPACE, tmp_path / "kubeconfig")
        for owner in (FIX_OWNER, f"{settings.github_url} {settings.github_app_id}", "another"):
            labels = {LABEL_RUN: "dead", LABEL_OWNER: owner}
            image, limits = base_reference(), Limits(memory_mb=64)
            pods.create_pod(
                warm_pod_manifest(image, limits=limits, labels=labels, options=PodOptions())
            )
        pods.close()
        said = await asyncio.to_thread(command, environment)
        assert said.startswith("Removed 2 containers")
        (left,) = cluster.pods.values()
        assert left["metadata"]["annotations"][LABEL_OWNER] == "another"


def test_a_program_that_outlived_us_is_ended(tmp_path: Path) -> None:
    from sandbox.scratch import PROCESS_FILE, remove_stale

    folder = tmp_path / "capuchin-ssh-x"
    folder.mkdir()
    child = subprocess.Popen(["tail", "-f", "/dev/null", f"{folder}/docker.sock"], stderr=-3)
    while not Path(f"/proc/{child.pid}/cmdline").read_bytes():
        time.sleep(0.01)  # it is between closing our pipe and being another program
    (folder / PROCESS_FILE).write_text(str(child.pid))
    assert remove_stale([tmp_path], young_seconds=3600) == 0
    assert remove_stale([tmp_path], young_seconds=0) == 1
    assert child.wait(120) == -signal.SIGKILL
