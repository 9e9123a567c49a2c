"""One small repository for each package manager and build backend, installed as it says."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.errors import EnvironmentFailed
from sandbox.program import Program, python_script
from tests.support.docker import (
    OWNER,
    any_engine,
    build_environment,
    gateway_of,
    make_tree,
    run_in,
)
from tests.support.serving import serve_beside
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

__all__ = ["any_engine"]


VERSIONS = "import six, colorama, pytest; print(six.__version__, colorama.__version__)"
EDIT: str = TEXTS["EDIT"]
NODE = {
    "pad.js": 'module.exports = text => require("left-pad")(text, 3, "-");\n',
    "test.js": 'require("assert").strictEqual(require("./pad")("7"), "---7");\n',
}


def locked(manager: str) -> dict[str, str]:
    """A repository of tiny dependencies with its lock file, as that manager wrote it.

    Only the lock file says which versions: old ones, that nobody would choose today.
    """
    folder = Path(__file__).parents[2] / "support/data/locked" / manager
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("manager", ["uv", "poetry", "pdm"])
async def test_a_python_lock_file_is_installed_as_locked_with_the_group_for_tests(
    engine: DockerEngine, tmp_path: Path, run_id: str, manager: str
) -> None:
    tree = make_tree(tmp_path, {"app.py": "", **locked(manager)})
    request = EnvironmentRequest(tree, run_id=run_id)
    run = await run_in(engine, request, python_script(VERSIONS))
    assert run.output == "1.15.0 0.4.4\n"


@pytest.mark.parametrize("manager", ["uv", "poetry", "pdm"])
async def test_a_package_that_is_not_what_was_locked_is_not_installed(
    engine: DockerEngine, tmp_path: Path, run_id: str, manager: str
) -> None:
    other = {
        name: re.sub("sha256:[0-9a-f]{8}", "sha256:00000000", text)
        for name, text in locked(manager).items()
    }
    with pytest.raises(EnvironmentFailed) as failed:
        await build_environment(
            engine, EnvironmentRequest(make_tree(tmp_path, {"app.py": "", **other}), run_id=run_id)
        )
    assert "do not have the hashes in the lock file" in str(failed.value)
    assert "Hash mismatch" in failed.value.log


@pytest.mark.parametrize("manager", ["npm", "pnpm", "yarn-1", "yarn-4"])
async def test_a_node_repository_runs_its_own_tests_sealed_on_an_edit(
    engine: DockerEngine, tmp_path: Path, run_id: str, manager: str
) -> None:
    image = await build_environment(
        engine, EnvironmentRequest(make_tree(tmp_path, {**NODE, **locked(manager)}))
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
    files = {**locked("npm"), ".npmrc": "fetch-retries=0\n"}
    with pytest.raises(EnvironmentFailed) as failed:
        await build_environment(
            engine, EnvironmentRequest(make_tree(tmp_path, {**NODE, **files}), run_id=run_id)
        )
    await engine.close()
    assert failed.value.command.startswith("npm ")
    assert "ECONNREFUSED" in failed.value.log
    assert f"{registry}/" in failed.value.log


@contextmanager
def serve_crate(folder: Path, address: str) -> Generator[str]:
    """A sparse index with one crate; https://doc.rust-lang.org/cargo/reference/registry-index.html"""
    crate = folder / "dl/pad/1.0.0/download"
    crate.parent.mkdir(parents=True)
    with tarfile.open(crate, "w:gz") as archive:
        for name, text in {
            "Cargo.toml": '[package]\nname = "pad"\nversion = "1.0.0"\n',
            "src/lib.rs": "pub fn one() -> u8 { 1 }\n",
        }.items():
            member = tarfile.TarInfo(f"pad-1.0.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    digest = hashlib.sha256(crate.read_bytes()).hexdigest()
    row: dict[str, Any] = {
        "name": "pad",
        "vers": "1.0.0",
        "deps": [],
        "cksum": digest,
        "features": {},
    }
    (folder / "3/p").mkdir(parents=True)
    (folder / "3/p/pad").write_text(json.dumps({**row, "yanked": False}) + "\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with serve_beside(handler, address) as port:
        url = f"http://{address}:{port}"
        (folder / "config.json").write_text(json.dumps({"dl": f"{url}/dl"}))
        yield url


async def test_crates_come_from_the_operators_registry_and_are_there_without_a_network(
    ca_bundle: Path | None, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    files = {
        "Cargo.toml": '[package]\nname = "till"\nversion = "1.0.0"\n[dependencies]\npad = "1"\n',
        "src/lib.rs": "#[test]\nfn pads() { assert_eq!(pad::one(), 1); }\n",
    }
    tree = make_tree(tmp_path / "tree", files)
    with serve_crate(tmp_path / "crates", gateway_of(daemon, "bridge")) as registry:
        build = BuildOptions(ca_bundle=ca_bundle, cargo_registry=registry)
        engine = DockerEngine(DockerOptions(owner=OWNER, build=build))
        request = EnvironmentRequest(tree, run_id=run_id, scope=run_id)
        try:
            image = await build_environment(engine, request)
        except EnvironmentFailed as failed:
            if "not found" in failed.log:
                pytest.skip("no toolchain of Rust can be had here")
            raise
    async with engine.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run(Program(["cargo", "test"]))
    await engine.close()
    assert "test pads ... ok" in run.output


ASK = "import pad, importlib.metadata as m; print(m.version('pad'), pad.one(), pad.__file__)"
PURE = {"pad.py": "def one():\n    return 1\n"}
PROJECT = '\n[project]\nname = "pad"\ndescription = "One."\n'
SETUP = "from setuptools import setup\nsetup()\n"
CONFIG = "[metadata]\nname = pad\nversion = 1.2\n\n[options]\npy_modules = pad\n"
MODULE: str = TEXTS["MODULE"]
COMPILED = {"src/pad/__init__.py": "from pad._c import one\n", "src/pad/_c.c": MODULE}
MESON: str = TEXTS["MESON"]
CMAKE: str = TEXTS["CMAKE"]
CRATE: str = TEXTS["CRATE"]
WORKFLOW: str = TEXTS["WORKFLOW"]
VERSION_FILE: str = TEXTS["VERSION_FILE"]
VERSIONEER: str = TEXTS["VERSIONEER"]


def project(requires: str, backend: str, *, version: str = 'version = "1.2"\n') -> str:
    build = f'[build-system]\nrequires = ["{requires}"]\nbuild-backend = "{backend}"\n'
    return f"{build}{PROJECT}{version}"


MESONPY = {**COMPILED, "pyproject.toml": project("meson-python", "mesonpy"), "meson.build": MESON}
SCIKIT = {
    **COMPILED,
    "pyproject.toml": project("scikit-build-core", "scikit_build_core.build"),
    "CMakeLists.txt": CMAKE,
}
# As msgpack's: `make cython` comes before the build.
CYTHON = {
    "src/pad/__init__.py": "from pad._c import one\n",
    "src/pad/_c.pyx": "def one():\n    return 1\n",
    "setup.py": (
        "from setuptools import Extension, setup\n"
        "setup(name='pad', version='1.2', packages=['pad'], package_dir={'': 'src'},\n"
        "      ext_modules=[Extension('pad._c', sources=['src/pad/_c.c'])])\n"
    ),
}
MATURIN = {
    "pyproject.toml": project("maturin>=1", "maturin") + '\n[tool.maturin]\nbindings = "cffi"\n',
    "pad/__init__.py": "",
    "Cargo.toml": CRATE,
    "src/lib.rs": "",
}


@pytest.mark.parametrize(
    "files",
    [
        {
            **PURE,
            "setup.py": SETUP.replace("()", "(name='pad', version='1.2', py_modules=['pad'])"),
        },
        {**PURE, "setup.py": SETUP, "setup.cfg": CONFIG},
        {**PURE, "pyproject.toml": project("poetry-core>=2", "poetry.core.masonry.api")},
        {**PURE, "pyproject.toml": project("pdm-backend", "pdm.backend")},
        {**PURE, "pyproject.toml": project("hatchling", "hatchling.build")},
        {**PURE, "pyproject.toml": project("flit_core>=3.4", "flit_core.buildapi")},
    ],
    ids=["setup.py", "setup.cfg", "poetry", "pdm", "hatch", "flit"],
)
async def test_a_package_of_each_backend_is_installed_and_linked_to_the_checkout(
    engine: DockerEngine, tmp_path: Path, run_id: str, files: dict[str, str]
) -> None:
    request = EnvironmentRequest(make_tree(tmp_path, files), run_id=run_id)
    run = await run_in(engine, request, python_script(ASK))
    assert run.output == "1.2 1 /testbed/pad.py\n"


async def test_extensions_are_compiled_and_the_checkouts_own_modules_run(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    said: list[str] = []
    for name, files in {"meson": MESONPY, "scikit": SCIKIT, "cython": CYTHON}.items():
        # They share the compiler.
        request = EnvironmentRequest(make_tree(tmp_path / name, files), run_id=run_id)
        said.append((await run_in(engine, request, python_script(ASK))).output)
    assert said == ["1.2 1 /testbed/src/pad/__init__.py\n"] * 3


@pytest.mark.parametrize(
    ("files", "lacks"),
    [
        (MESONPY, "building it needs the program cc, which the sandbox lacks"),
        (SCIKIT, "building it needs a C compiler (build-essential), which the sandbox lacks"),
        (MATURIN, "building it needs Rust (cargo), which the sandbox lacks"),
    ],
    ids=["meson-python", "scikit-build-core", "maturin"],
)
async def test_without_debians_mirror_a_build_says_which_compiler_it_lacks(
    engine: DockerEngine,
    tmp_path: Path,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    lacks: str,
) -> None:
    def answer_nothing(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr(
        "sandbox.docker.build_image.EnvironmentBuild._build_packages", answer_nothing
    )
    # A package of its own: an earlier run may have left an image with the compiler.
    other = {**files, ".github/workflows/test.yml": WORKFLOW.replace("NAME", run_id)}
    with pytest.raises(EnvironmentFailed) as failed:
        await build_environment(
            engine, EnvironmentRequest(make_tree(tmp_path, other), run_id=run_id)
        )
    assert lacks in str(failed.value)


async def test_versioneer_tells_the_version_after_the_tag(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    script = "import setuptools, versioneer\nsetuptools.setup(version=versioneer.get_version())\n"
    requires = 'setuptools", "versioneer[toml]'
    dynamic = project(requires, "setuptools.build_meta", version='dynamic = ["version"]\n')
    files = {
        "setup.py": script,
        "pyproject.toml": dynamic + VERSIONEER,
        "src/pad/__init__.py": "def one():\n    return 1\n",
        "src/pad/_version.py": VERSION_FILE,
    }
    tree = make_tree(tmp_path, files)
    request = EnvironmentRequest(tree, run_id=run_id, described="1.2.3-5-gabc1")
    run = await run_in(engine, request, python_script(ASK))
    assert run.output == "1.2.4.dev5 1 /testbed/src/pad/__init__.py\n"
