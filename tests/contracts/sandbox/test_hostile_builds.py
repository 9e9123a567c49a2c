"""Install hooks and builds of other languages than Python meet the walls of every build."""

import json
import re
import socket
from pathlib import Path

import docker
import pytest

from sandbox.docker.docker_engine import DockerEngine
from sandbox.engine import EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from sandbox.program import EditBuild, Ending, shell_command
from tests.support.data.language_projects import PROJECTS
from tests.support.docker import build_environment, gateway_of, make_tree, usual_engine

__all__ = ["usual_engine"]

ATTACK = """\
env >seen; cat /proc/*/environ >>seen 2>/dev/null
cat /root/.netrc /root/.npmrc ~/.docker/config.json >>seen 2>&1
for place in /etc /usr/bin /opt /opt/capuchin /root; do
    touch $place/owned 2>/dev/null && echo WROTE $place >>seen
done
bash -c "exec 3<>/dev/tcp/GATEWAY/PORT" 2>>seen && echo OPEN >>seen
bash -c "exec 3<>/dev/tcp/169.254.169.254/80" 2>>seen && echo OPEN >>seen
true
"""
HOOKS = {
    "make": {"Makefile": "all:\n\tsh attack.sh\ntest:\n\ttrue\n", "till.c": ""},
    "npm": {
        "package.json": '{"scripts": {"postinstall": "sh attack.sh", "test": "true"}}',
        "till.js": "",
    },
    "cargo": {
        "Cargo.toml": '[package]\nname = "till"\nversion = "0.1.0"\n',
        "build.rs": (
            "use std::process::Command;\n"
            'fn main() { Command::new("sh").arg("attack.sh").status().unwrap(); }\n'
        ),
        "src/lib.rs": "",
    },
    "maven": {
        "pom.xml": re.sub("<packaging>.*", "", PROJECTS["java"].files["pom.xml"]).replace(
            "<plugins>",
            "<plugins><plugin><artifactId>maven-antrun-plugin</artifactId><version>3.1.0</version>"
            "<executions><execution><phase>initialize</phase><goals><goal>run</goal></goals>"
            '<configuration><target><exec executable="sh"><arg value="attack.sh"/></exec></target>'
            "</configuration></execution></executions></plugin>",
        ),
        ".github/workflows/ci.yml": PROJECTS["java"]
        .files[".github/workflows/ci.yml"]
        .replace("install ", "install libmaven-antrun-plugin-java "),
        "src/main/java/Till.java": "",
    },
    "gradle": {
        "build.gradle": "println 'sh attack.sh'.execute().text\ntask testClasses {}\n",
        "src/main/java/Till.java": "",
    },
}
SETUP = {"maven": ("true",)}
"""Where the usual steps need what Debian lacks."""


@pytest.mark.parametrize("tool", HOOKS)
async def test_an_install_hook_finds_no_secret_no_host_and_no_place_to_write(
    engine: DockerEngine,
    tmp_path: Path,
    run_id: str,
    daemon: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-key")
    gateway = gateway_of(daemon, "bridge")
    with socket.create_server((gateway, 0)) as host:
        attack = ATTACK.replace("GATEWAY", gateway).replace("PORT", str(host.getsockname()[1]))
        tree = make_tree(tmp_path, {**HOOKS[tool], "attack.sh": attack})
        setup = SETUP.get(tool, ())
        request = EnvironmentRequest(tree, setup=setup, run_id=run_id, scope=run_id)
        image = await build_environment(engine, request)
        host.setblocking(False)
        with pytest.raises(BlockingIOError):
            host.accept()
    async with engine.open(image, run_id=run_id) as sandbox:
        seen = (await sandbox.run(shell_command("cat seen; ls /opt/owned /etc/owned"))).output
    assert "PATH=" in seen
    assert "-Dhttps.proxyHost=" in seen  # a JVM reads no other
    assert not [word for word in ("canary", "WROTE", "OPEN") if word in seen], seen


async def test_a_lock_file_that_names_the_intranet_is_refused(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    till = {"version": "1.0.0", "resolved": "http://10.1.2.3/till.tgz"}
    package = {"name": "shop", "dependencies": {"till": "1.0.0"}}
    lock = {"": package, "node_modules/till": till}
    files = {
        "package.json": json.dumps(package),
        "package-lock.json": json.dumps({"name": "shop", "lockfileVersion": 3, "packages": lock}),
        ".npmrc": "fetch-retries=0\n",
    }
    request = EnvironmentRequest(make_tree(tmp_path, files), run_id=run_id, scope=run_id)
    with pytest.raises(EnvironmentFailed) as failed:
        await build_environment(engine, request)
    assert "10.1.2.3" in failed.value.log
    assert "403" in failed.value.log


@pytest.mark.parametrize(
    ("build", "files", "seconds"),
    [
        (EditBuild(lines=("while :; do :; done",)), {}, 2.0),
        (EditBuild(lines=("gradle testClasses",)), {"build.gradle": "while (true) {}\n"}, 20.0),
    ],
    ids=["a shell", "gradle"],
)
async def test_a_build_of_an_edit_that_never_ends_is_stopped_and_told(
    engine: DockerEngine,
    tmp_path: Path,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
    build: EditBuild,
    files: dict[str, str],
    seconds: float,
) -> None:
    monkeypatch.setattr("sandbox.execution.jobs.BUILD_SECONDS", seconds)
    tree = make_tree(tmp_path, {**files, "till.ex": "1\n"})
    request = EnvironmentRequest(tree, setup=["true"], build=["true"], run_id=run_id, scope=run_id)
    image = await build_environment(engine, request)
    edit = "--- a/till.ex\n+++ b/till.ex\n@@ -1 +1 @@\n-1\n+2\n"
    async with engine.open(image, run_id=run_id, build=build) as sandbox:
        run = await sandbox.run(shell_command("true", diffs=[edit]))
        unedited = await sandbox.run(shell_command("true"))
    assert (run.ending, unedited.exit_code) == (Ending.UNBUILT, 0)
    assert f"did not end within {seconds:.0f} seconds" in run.output
