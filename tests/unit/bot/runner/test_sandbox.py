"""The settings decide where executions run."""

from __future__ import annotations

import pytest

from bot.runner.sandbox import build_engine
from bot.settings import Settings, SettingsError
from sandbox.docker.docker_engine import DockerEngine
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
