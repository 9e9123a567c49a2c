"""One small repository for each package manager, installed as its lock file says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.errors import EnvironmentFailed
from sandbox.program import Program, python_script
from tests.support.data import lock_files
from tests.support.docker import OWNER, any_engine, build_environment, make_tree

__all__ = ["any_engine"]

VERSIONS = "import six, colorama, pytest; print(six.__version__, colorama.__version__)"
EDIT = """\
--- a/pad.js
+++ b/pad.js
@@ -1 +1 @@
-module.exports = text => require("left-pad")(text, 3, "-");
+module.exports = text => require("left-pad")(text, 4, "-");
"""
NODE = {
    "package.json": lock_files.PACKAGE_JSON,
    "pad.js": 'module.exports = text => require("left-pad")(text, 3, "-");\n',
    "test.js": 'require("assert").strictEqual(require("./pad")("7"), "---7");\n',
}


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": lock_files.UV_TOML, "uv.lock": lock_files.UV_LOCK},
        {"pyproject.toml": lock_files.POETRY_TOML, "poetry.lock": lock_files.POETRY_LOCK},
        {"pyproject.toml": lock_files.PDM_TOML, "pdm.lock": lock_files.PDM_LOCK},
    ],
    ids=["uv", "poetry", "pdm"],
)
async def test_a_python_lock_file_is_installed_as_locked_with_the_group_for_tests(
    engine: DockerEngine, tmp_path: Path, run_id: str, files: dict[str, str]
) -> None:
    image = await build_environment(
        engine, EnvironmentRequest(make_tree(tmp_path, {"app.py": "", **files}))
    )
    async with engine.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run(python_script(VERSIONS))
    assert run.output == "1.15.0 0.4.4\n"


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": lock_files.UV_TOML, "uv.lock": lock_files.UV_LOCK},
        {"pyproject.toml": lock_files.POETRY_TOML, "poetry.lock": lock_files.POETRY_LOCK},
        {"pyproject.toml": lock_files.PDM_TOML, "pdm.lock": lock_files.PDM_LOCK},
    ],
    ids=["uv", "poetry", "pdm"],
)
async def test_a_package_that_is_not_what_was_locked_is_not_installed(
    engine: DockerEngine, tmp_path: Path, run_id: str, files: dict[str, str]
) -> None:
    other = {name: re.sub("sha256:[0-9a-f]{8}", "sha256:00000000", t) for name, t in files.items()}
    with pytest.raises(EnvironmentFailed) as failed:
        await build_environment(
            engine, EnvironmentRequest(make_tree(tmp_path, {"app.py": "", **other}), run_id=run_id)
        )
    assert "do not have the hashes in the lock file" in str(failed.value)
    assert "Hash mismatch" in failed.value.log


@pytest.mark.parametrize(
    "files",
    [
        {"package-lock.json": lock_files.NPM_LOCK},
        {"pnpm-lock.yaml": lock_files.PNPM_LOCK},
        {"yarn.lock": lock_files.YARN_LOCK},
        {"yarn.lock": lock_files.BERRY_LOCK, ".yarnrc.yml": "nodeLinker: node-modules\n"},
    ],
    ids=["npm", "pnpm", "yarn 1", "yarn 4"],
)
async def test_a_node_repository_runs_its_own_tests_sealed_on_an_edit(
    engine: DockerEngine, tmp_path: Path, run_id: str, files: dict[str, str]
) -> None:
    image = await build_environment(
        engine, EnvironmentRequest(make_tree(tmp_path, {**NODE, **files}))
    )
    async with engine.open(image, run_id=run_id) as sandbox:
        before = await sandbox.run(Program(["npm", "test"]))
        after = await sandbox.run(Program(["npm", "test"], diffs=[EDIT]))
        script = await sandbox.run(Program(["cat", "installed-by"]))
    assert (before.exit_code, after.exit_code) == (1, 0), after.output
    assert "'--7'" in before.output
    assert script.output == "10001\n"


async def test_packages_of_node_are_asked_of_the_operators_registry(
    ca_bundle: Path | None, tmp_path: Path, run_id: str
) -> None:
    registry = "http://127.0.0.1:9/npm"
    engine = DockerEngine(
        DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle, npm_registry=registry))
    )
    files = {"package-lock.json": lock_files.NPM_LOCK, ".npmrc": "fetch-retries=0\n"}
    with pytest.raises(EnvironmentFailed) as failed:
        await build_environment(
            engine, EnvironmentRequest(make_tree(tmp_path, {**NODE, **files}), run_id=run_id)
        )
    await engine.close()
    assert failed.value.command.startswith("npm ")
    assert "ECONNREFUSED" in failed.value.log
    assert f"{registry}/" in failed.value.log
