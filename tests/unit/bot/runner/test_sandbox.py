"""The engine that the settings ask for."""

import json

import pytest

from bot.runner.sandbox import build_engine, build_options
from bot.settings import Settings, SettingsError
from sandbox.docker.docker_engine import DockerEngine
from sandbox.environment.recipe import Recipe
from sandbox.kubernetes.kubernetes_engine import KubernetesEngine


async def test_executions_run_in_docker_by_default() -> None:
    engine = build_engine(Settings())
    assert isinstance(engine, DockerEngine)
    await engine.close()


async def test_pods_are_used_when_asked_for() -> None:
    environ = {
        "CAPUCHIN_SANDBOX": "kubernetes",
        "CAPUCHIN_SANDBOX_REGISTRY": "registry.example.org/capuchin",
    }
    engine = build_engine(Settings.from_env(environ))
    assert isinstance(engine, KubernetesEngine)
    await engine.close()


def test_pods_without_a_registry_are_refused_in_a_sentence() -> None:
    settings = Settings.from_env({"CAPUCHIN_SANDBOX": "kubernetes"})
    with pytest.raises(SettingsError, match="CAPUCHIN_SANDBOX_REGISTRY is not set"):
        build_engine(settings)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("BUILD_SECRETS", "{", "CAPUCHIN_BUILD_SECRETS: it must be a JSON object"),
        ("BUILD_SECRETS", '["x"]', "CAPUCHIN_BUILD_SECRETS: "),
        ("BUILD_SECRETS", '{"PATH": "12345678"}', 'CAPUCHIN_BUILD_SECRETS: "PATH" is not a'),
    ],
)
def test_an_invalid_build_setting_is_named(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        build_engine(Settings.from_env({f"CAPUCHIN_{name}": value}))


def test_own_indexes_are_options_of_builds_unless_they_hold_a_login() -> None:
    own = {
        "PIP_INDEX_URL": "https://pypi.lan/simple",
        "npm_config_registry": "https://a:b@npm.lan/",
        "MAVEN_MIRROR_URL": "https://maven.lan/all",
    }
    build = build_options(Settings.from_env({"CAPUCHIN_BUILD_SECRETS": json.dumps(own)}))
    assert build.index_url == own["PIP_INDEX_URL"]
    assert build.npm_registry is None
    told = build.environment(Recipe(()), None)
    assert told["CAPUCHIN_MAVEN_MIRROR"] == told["MVNW_REPOURL"] == own["MAVEN_MIRROR_URL"]
    assert build.secrets == {"npm_config_registry": own["npm_config_registry"]}


def test_a_secret_is_not_shown_with_the_settings() -> None:
    settings = Settings.from_env({"CAPUCHIN_BUILD_SECRETS": '{"TOKEN": "hunter22"}'})
    assert settings.build_secrets["TOKEN"].get_secret_value() == "hunter22"
    assert "hunter22" not in repr(settings)
