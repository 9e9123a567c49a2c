"""Repositories of several kinds, installed for real."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, cast
from uuid import uuid4

import docker
import pytest

from pipeline.concurrency import gather_all
from sandbox.docker import build_image
from sandbox.docker.build_steps import BUILD_LIMITS
from sandbox.docker.docker_client import DockerAddress
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.errors import EnvironmentFailed, SandboxUnavailable
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.frozen import replace
from sandbox.program import Program, python_script, shell_command
from sandbox.tree import Archive, Tree
from tests.contracts.sandbox import preparing_process
from tests.support.data.directory_trees import tree_of_directory
from tests.support.docker import (
    OWNER,
    PACKAGE,
    any_engine,
    build_environment,
    containers_of,
    make_tree,
    run_in,
    wait_until_running,
)

__all__ = ["any_engine"]

OF_MANAGERS = ("PIP_", "PDM_", "UV_", "POETRY_", "npm_config_", "YARN_", "NODE_EXTRA_")


async def test_a_prepared_tree_is_found_again_at_once(
    engine: DockerEngine, prepared: str, tmp_path: Path
) -> None:
    make_tree(tmp_path, PACKAGE)
    (tmp_path / "src/shop/link.py").symlink_to("total.py")
    said: list[str] = []
    again = await build_environment(
        engine, EnvironmentRequest(tree_of_directory(tmp_path)), on_progress=said.append
    )
    assert (again, said) == (prepared, [])


async def test_setup_lines_replace_detection_and_progress_is_reported(
    engine: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    said: list[str] = []
    tree = make_tree(tmp_path, {"app.py": "import made\n"})
    image = await build_environment(
        engine,
        EnvironmentRequest(
            tree, setup=["echo 'X = 7' > made.py", "id -u > who"], scope=run_id, run_id=run_id
        ),
        on_progress=said.append,
    )
    async with engine.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run(python_script("import app; print(app.made.X, open('who').read())"))
    parent = str(cast(dict[str, Any], daemon.inspect_image(image))["Parent"])
    daemon.remove_image(image)
    daemon.remove_image(parent, force=True)
    assert run.output == "7 10001\n\n"
    assert said == ["Installing the dependencies.", "Installing the repository."]
    assert containers_of(daemon, run_id) == []


async def test_a_folder_that_the_setup_locks_fails_no_build(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    tree = make_tree(tmp_path, {"app.py": "X = 7\n"})
    line = f"mkdir -p locked && touch locked/{run_id} && chmod 500 locked"
    request = EnvironmentRequest(tree, setup=[line], run_id=run_id)
    run = await run_in(engine, request, python_script("import app; print(app.X)"))
    assert run.output == "7\n"


async def test_a_release_never_replaces_the_repositorys_own_package(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    setup = "import setuptools\nsetuptools.setup(name='idna', version='0.1', packages=['idna'])\n"
    tree = make_tree(
        tmp_path,
        {
            "setup.py": setup,
            "idna/__init__.py": "OWN = True\n",
            "test-requirements.txt": "requests==2.32.*\n",  # which needs a newer idna
        },
    )
    request = EnvironmentRequest(tree, run_id=run_id)
    code = "import idna, importlib.metadata as m; print(idna.OWN, m.version('requests')[:5])"
    run = await run_in(engine, request, Program(["python", "-I", "-c", code]))
    assert run.output == "True 2.32.\n"


async def test_a_project_below_the_root_and_a_workspaces_members_are_installed(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    build = "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
    below = {
        "backend/pyproject.toml": f"{build}[project]\nname = 'shop'\nversion = '1'\n"
        "dependencies = ['six']\n[tool.setuptools]\npackages = ['shop']\n",
        "backend/shop/__init__.py": "import six, shop_web\n",
        "backend/shop/more.py": "",
        # What suits the environment is installed beside the project, what does not is left out.
        "web/pyproject.toml": f"{build}[project]\nname = 'shop-web'\nversion = '1'\n",
        "web/src/shop_web/__init__.py": "",
        "attic/pyproject.toml": f"{build}[project]\nname = 'attic'\nversion = '1'\n"
        "dependencies = ['six<1.10']\n",
        "attic/src/attic/__init__.py": "",
    }
    member = "[project]\nname = '{}'\nversion = '1'\ndependencies = [{}]\n"
    workspace = {
        "pyproject.toml": "[tool.uv.workspace]\nmembers = ['packages/*']\n",
        "packages/till/pyproject.toml": build
        + member.format("till-of-shop", "'shop-core', 'six'")
        + "[tool.uv.sources]\nshop-core = {workspace = true}\n",
        "packages/till/src/till/__init__.py": "import core, six\n",
        "packages/core/pyproject.toml": build + member.format("shop-core", ""),
        "packages/core/src/core/__init__.py": "",
    }
    sibling = {
        "libs/graph/pyproject.toml": build
        + member.format("graph", "'graph-core'")
        + "[tool.uv.sources]\ngraph-core = {path = '../core', editable = true}\n",
        "libs/graph/src/graph/__init__.py": "import graph_core\n",
        "libs/graph/src/graph/more.py": "",
        "libs/core/pyproject.toml": build + member.format("graph-core", "'six'"),
        "libs/core/src/graph_core/__init__.py": "import six\n",
    }
    for name, files in {"shop": below, "till": workspace, "graph": sibling}.items():
        request = EnvironmentRequest(make_tree(tmp_path / name, files), run_id=run_id)
        code = f"import {name}, pytest; print({name}.__file__)"
        run = await run_in(engine, request, Program(["python", "-I", "-c", code]))
        assert run.output.startswith("/testbed/")


async def test_a_new_tree_with_the_same_dependencies_reuses_them(
    engine: DockerEngine, tmp_path: Path, daemon: docker.APIClient
) -> None:
    said: list[str] = []
    for number in range(2):
        # A digest of its own, so that the image is new whatever ran here before.
        tree = make_tree(tmp_path / str(number), {"app.py": f"# {time.time_ns()}"})
        image = await build_environment(
            engine, EnvironmentRequest(tree, setup=["true"]), on_progress=said.append
        )
        daemon.remove_image(image)
    assert said[-1] == "Installing the repository."
    assert said.count("Installing the dependencies.") <= 1


async def test_images_are_not_shared_between_scopes(engine: DockerEngine, tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"app.py": ""})
    one = await build_environment(
        engine, EnvironmentRequest(tree, setup=["true"], scope="acme/shop")
    )
    two = await build_environment(
        engine, EnvironmentRequest(tree, setup=["true"], scope="fork/shop")
    )
    assert one != two


async def test_two_at_once_build_once(
    engine: DockerEngine, tmp_path: Path, daemon: docker.APIClient
) -> None:
    said: list[str] = []
    tree = make_tree(tmp_path, {"app.py": f"# {time.time_ns()}"})
    images = await gather_all(
        build_environment(engine, EnvironmentRequest(tree, setup=["true"]), on_progress=said.append)
        for _ in range(3)
    )
    assert len(set(images)) == 1
    daemon.remove_image(images[0])
    assert said.count("Installing the repository.") == 1


async def test_two_processes_at_once_build_once(tmp_path: Path, daemon: docker.APIClient) -> None:
    make_tree(tmp_path, {"app.py": f"# {time.time_ns()}"})
    command = [sys.executable, "-m", preparing_process.__name__, f"tests-{uuid4().hex}"]
    processes = [
        await asyncio.create_subprocess_exec(*command, str(tmp_path), stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    printed = await gather_all(process.communicate() for process in processes)
    (*one, image), (*two, again) = [output.decode().splitlines() for output, _ in printed]
    assert image == again
    daemon.remove_image(image)
    assert [*one, *two].count("Installing the repository.") == 1


async def test_cancelling_a_build_takes_its_container_along(
    engine: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    tree = make_tree(tmp_path, {"app.py": ""})
    building = asyncio.create_task(
        build_environment(engine, EnvironmentRequest(tree, setup=["sleep 1000"], run_id=run_id))
    )
    await wait_until_running(daemon, run_id, "sleep 1000")
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert containers_of(daemon, run_id) == []


async def test_a_bundle_that_is_not_there_is_the_operators_mistake(tmp_path: Path) -> None:
    engine = DockerEngine(DockerOptions(build=BuildOptions(ca_bundle=tmp_path / "none.pem")))
    tree = make_tree(tmp_path / "tree", {"app.py": ""})
    with pytest.raises(SandboxUnavailable, match=r"CA bundle cannot be read: .*none\.pem"):
        await build_environment(engine, EnvironmentRequest(tree, setup=[f"echo {time.time_ns()}"]))
    await engine.close()


async def test_what_was_finished_when_its_time_was_over_is_kept(
    engine: DockerEngine, tmp_path: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_image, "BUILD_LIMITS", replace(BUILD_LIMITS, seconds=3))
    said: list[str] = []
    tree = make_tree(tmp_path, {"app.py": "X = 7\n"})
    spin = "python -c 'while True: pass'"
    request = EnvironmentRequest(tree, setup=["sleep 6; echo made > made", spin], run_id=run_id)
    image = await build_environment(engine, request, on_progress=said.append)
    async with engine.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run(python_script("import app; print(app.X, open('made').read())"))
    assert run.output == "7 made\n\n"
    assert "processor time" in said[1], "waiting does not count"
    recorded = await engine.read_installation(image)
    assert recorded is not None
    assert (recorded.cut, recorded.commands) == (said[1], ("sleep 6; echo made > made", spin))
    hangs = EnvironmentRequest(tree, setup=["sleep 6", "exit 3"], run_id=run_id)
    with pytest.raises(EnvironmentFailed) as failed:
        await build_environment(engine, hangs)
    assert "[This step took 6 s.]" in failed.value.log


async def test_a_failing_step_is_reported_with_its_log(
    engine: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    tree = make_tree(tmp_path, {"app.py": ""})
    with pytest.raises(EnvironmentFailed, match="exit code 3") as failed:
        await build_environment(
            engine,
            EnvironmentRequest(tree, setup=["echo well", "echo wrong; exit 3"], run_id=run_id),
        )
    assert failed.value.command == "echo wrong; exit 3"
    assert failed.value.log.endswith("well\nwrong\n")
    assert containers_of(daemon, run_id) == []


async def test_a_build_sees_no_privilege_and_no_variable_of_the_host(
    engine: DockerEngine, tmp_path: Path
) -> None:
    line = "env | cut -d= -f1 | sort > seen; grep CapEff /proc/self/status >> seen"
    tree = make_tree(tmp_path, {"app.py": ""})
    request = EnvironmentRequest(tree, setup=[line], run_id="test-env")
    run = await run_in(engine, request, Program(["cat", "seen"]))
    assert run.output.splitlines()[-1].endswith("0" * 16)
    names = {name for name in run.output.split()[:-2] if not name.startswith(OF_MANAGERS)}
    proxied = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
    assert names - proxied <= {
        "JAVA_TOOL_OPTIONS", "NODE_USE_ENV_PROXY", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
        "CAPUCHIN_VERSION", "CAPUCHIN_VERSION_SOURCE", "HOME", "LANG", "PATH", "PBR_VERSION",
        "POETRY_DYNAMIC_VERSIONING_BYPASS", "PWD", "SHLVL",
        "PYTHONHASHSEED", "PYTHONUNBUFFERED", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE",
        "SETUPTOOLS_SCM_PRETEND_VERSION", "TZ", "VIRTUAL_ENV", "_",
    }  # fmt: skip


async def test_history_stays_out_and_paths_cannot_escape(
    engine: DockerEngine, tmp_path: Path
) -> None:
    directory = tmp_path / "tree"
    make_tree(directory, {"app.py": "", ".git/config": "x"})
    (directory / "out").symlink_to("/opt/capuchin")
    tree = tree_of_directory(directory)
    request = EnvironmentRequest(tree, setup=["true"], run_id="test-git")
    run = await run_in(engine, request, Program(["ls", "-A"]))
    assert run.output.split() == ["__pycache__", "app.py", "out"]


async def test_source_of_a_size_that_nobody_writes_is_not_compiled(
    engine: DockerEngine, tmp_path: Path
) -> None:
    files = {"app.py": "", "it's (1).py": "x = 2\n" * 400_000, "big\nname.py": "x = 1\n" * 400_000}
    tree = make_tree(tmp_path, files)
    request = EnvironmentRequest(tree, setup=["true"], run_id="test-compiled")
    run = await run_in(engine, request, Program(["ls", "__pycache__"]))
    assert run.output.split() == ["app.cpython-311.pyc"]


async def test_packages_are_compiled_and_folders_of_data_stay_as_they_are(
    engine: DockerEngine, tmp_path: Path
) -> None:
    # pycodestyle's tests read every file in testing/data; poetry-core's copy whole packages.
    files = dict.fromkeys(("src/single.py", "lib/shop/__init__.py", "lib/shop/till.py"), "")
    files |= {"broken/__init__.py": "x =\n", "shop/data/E10.py": "", "tests/data/__init__.py": ""}
    tree = make_tree(tmp_path, files)
    request = EnvironmentRequest(tree, setup=["true"], run_id="test-compiled")
    find = Program(["find", ".", "-name", "*.pyc", "-o", "-path", "*/data/*"])
    run = await run_in(engine, request, find)
    assert sorted(run.output.split()) == [
        "./lib/shop/__pycache__/__init__.cpython-311.pyc",
        "./lib/shop/__pycache__/till.cpython-311.pyc",
        "./shop/data/E10.py",
        "./src/__pycache__/single.cpython-311.pyc",
        "./tests/data/__init__.py",
    ]


async def test_what_an_installer_leaves_uncompiled_is_compiled_once(
    engine: DockerEngine, tmp_path: Path
) -> None:
    install = (
        "import pathlib, sysconfig; site = pathlib.Path(sysconfig.get_paths()['purelib']); "
        "(site / 'dep/tests').mkdir(parents=True, exist_ok=True); "
        "(site / 'dep/__init__.py').write_text('x = 1'); "
        "(site / 'dep/tests/data.py').write_text('x = 1'); (site / 'bad.py').write_text('x =')"
    )
    setup = [f'python -c "{install}"']
    tree = make_tree(tmp_path, {"app.py": ""})
    request = EnvironmentRequest(tree, setup=setup, run_id="test-compiled")
    look = (
        "import importlib.util, os; module = importlib.util.find_spec('dep'); "
        "folder = os.path.dirname(module.origin); "
        "print(os.listdir(folder + '/__pycache__'), os.listdir(folder + '/tests'))"
    )
    run = await run_in(engine, request, Program(["python", "-c", look]))
    assert run.output == "['__init__.cpython-311.pyc'] ['data.py']\n"


async def test_a_checkout_too_large_for_the_sandbox_is_reported_before_any_run(
    engine: DockerEngine, tmp_path: Path
) -> None:
    tree = make_tree(tmp_path, {"app.py": "", "big": bytes(40 << 20)})
    with pytest.raises(EnvironmentFailed, match="larger than 32 MB"):
        await build_environment(engine, EnvironmentRequest(tree, setup=["true"]))


async def test_a_file_that_is_no_archive_is_reported(tmp_path: Path) -> None:
    engine = DockerEngine(DockerOptions(address=DockerAddress(f"unix://{tmp_path}/none.sock")))
    with TemporaryFile() as file:
        file.write(b"not a tar" * 200)
        tree = Tree(Archive(file), digest="0" * 40)
    with pytest.raises(EnvironmentFailed, match="cannot be read"):
        await build_environment(engine, EnvironmentRequest(tree))
    await engine.close()


@pytest.mark.parametrize("mode", ["warm", "cold"])
async def test_what_a_build_leaves_at_home_is_there_and_git_knows_the_commit(
    engine: DockerEngine, tmp_path: Path, run_id: str, mode: ConfiguredMode
) -> None:
    tree = make_tree(tmp_path, {"Makefile": "check:\n\ttrue\n", "a.zig": ""})
    lines = (
        "mkdir -p ~/.gradle ~/.npm/_cacache && echo dist >~/.gradle/ok",
        "git describe --tags >tag && git ls-files >>tag && git config core.hooksPath .husky",
    )
    request = EnvironmentRequest(tree, setup=lines, run_id=run_id, described="v1.2-0-gabcdef0")
    image = await build_environment(engine, request)
    look = "cat tag; ls -A . ~; cat ~/.gradle/ok; echo x >~/.gradle/lock && ls ~/.gradle"
    executing = DockerEngine(DockerOptions(owner=OWNER, mode=mode))
    async with executing.open(image, run_id=run_id) as sandbox:
        for _ in range(2):
            words = (await sandbox.run(shell_command(look))).output.split()
            assert words[:3] == ["v1.2", "Makefile", "a.zig"]
            assert words[-3:] == ["dist", "lock", "ok"]
            assert not {".git", ".npm"} & {*words}
    await executing.close()
