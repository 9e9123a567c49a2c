"""A repository that asks for another Python than the usual one."""

from __future__ import annotations

import json
from pathlib import Path

import docker
import pytest

from bot.cli import local_run
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from sandbox.engine import EnvironmentRequest
from sandbox.errors import SandboxUnavailable
from sandbox.frozen import replace
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix
from tests.support.certificates import host_certificates
from tests.support.docker import build_environment, make_tree
from tests.support.second_python import build_root_image

NOWHERE = "http://127.0.0.1:9/mirror"


def asks_for(bound: str) -> dict[str, str]:
    project = f'[project]\nname = "shop"\nversion = "1"\nrequires-python = "{bound}"\n'
    return {**shop.FILES, "pyproject.toml": f"{project}\n{shop.FILES['pyproject.toml']}"}


async def test_a_repository_gets_the_interpreter_of_the_image_that_it_asks_for(
    local_fix: LocalFix, daemon: docker.APIClient, capsys: pytest.CaptureFixture[str]
) -> None:
    root, minor = build_root_image(daemon)
    asserts = f"import sys\n\n\ndef test_python():\n    assert sys.version_info[1] == {minor}\n"
    local_fix.commit({**asks_for(f"==3.{minor}.*"), "tests/test_python.py": asserts})
    settings = replace(local_fix.settings, sandbox_base=root)
    assert await local_fix.fix("--json", settings=settings) == local_run.FIXED
    report = json.loads(capsys.readouterr().out)
    # Both of its own tests, and so the one that looks at its interpreter.
    assert [report["suite"][side] for side in ("passed_before", "passed_after")] == [2, 2]


async def test_one_that_is_nowhere_is_reported_before_any_money_is_spent(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit(asks_for("<3.8"))
    settings = replace(local_fix.settings, build_python_mirror=NOWHERE)
    assert await local_fix.fix(settings=settings) == local_run.FAILED
    said = capsys.readouterr().err
    assert ("<3.8" in said, "3.7" in said) == (True, True)
    assert local_fix.llm.requests == []


async def test_a_base_that_is_nowhere_is_reported(tmp_path: Path) -> None:
    engine = build_engine(
        Settings.model_validate(
            {"sandbox_base": "registry.invalid/none:1", "build_ca_bundle": host_certificates()}
        )
    )
    with pytest.raises(SandboxUnavailable, match=r"registry.invalid/none:1"):
        await build_environment(engine, EnvironmentRequest(make_tree(tmp_path, {"a.py": ""})))
    await engine.close()
