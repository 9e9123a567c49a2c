"""A repository that asks for another Python than the usual one."""

import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from pydantic import SecretStr

from bot.cli import local_run
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from pipeline.models.providers.provider_http import DOCTOR_CALL
from sandbox.docker.base_image import image_exists, obtain_root
from sandbox.docker.docker_client import DockerAddress
from sandbox.engine import EnvironmentRequest
from sandbox.errors import SandboxUnavailable
from sandbox.frozen import replace
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix
from tests.support.certificates import host_certificates
from tests.support.docker import build_environment, make_tree

NOWHERE = "http://127.0.0.1:9/mirror"


def asks_for(bound: str) -> dict[str, str]:
    project = f'[project]\nname = "shop"\nversion = "1"\nrequires-python = "{bound}"\n'
    return {**shop.FILES, "pyproject.toml": f"{project}\n{shop.FILES['pyproject.toml']}"}


async def test_a_repository_gets_the_interpreter_of_the_image_that_it_asks_for(
    local_fix: LocalFix, daemon: docker.APIClient
) -> None:
    root, minor = build_root_image(daemon)
    asserts = f"import sys\n\n\ndef test_python():\n    assert sys.version_info[1] == {minor}\n"
    local_fix.commit({**asks_for(f"==3.{minor}.*"), "tests/test_python.py": asserts})
    settings = replace(local_fix.settings, sandbox_base=root)
    report = (await local_fix.end(local_run.FIXED, "--json", settings=settings)).json
    # Both of its own tests, and so the one that looks at its interpreter.
    assert [report["suite"][side] for side in ("passed_before", "passed_after")] == [2, 2]


async def test_one_that_is_nowhere_is_reported_before_any_money_is_spent(
    local_fix: LocalFix,
) -> None:
    local_fix.commit(asks_for("<3.8"))
    settings = replace(
        local_fix.settings, build_secrets={"UV_PYTHON_INSTALL_MIRROR": SecretStr(NOWHERE)}
    )
    said = (await local_fix.end(local_run.FAILED, settings=settings)).err
    assert ("<3.8" in said, "3.7" in said) == (True, True)
    assert {asked.call for asked in local_fix.llm.requests} == {DOCTOR_CALL}


async def test_a_base_that_is_nowhere_is_reported(tmp_path: Path) -> None:
    engine = build_engine(
        Settings.model_validate(
            {"sandbox_base": "registry.invalid/none:1", "build_ca_bundle": host_certificates()}
        )
    )
    with pytest.raises(SandboxUnavailable, match=r"registry.invalid/none:1"):
        await build_environment(engine, EnvironmentRequest(make_tree(tmp_path, {"a.py": ""})))
    await engine.close()


MINORS = (10, 12, 9)
EXCLUDED = ("test", "site-packages", "config-3", "idlelib", "tkinter", "lib2to3")
DOCKERFILE = """\
FROM {root}
COPY python /usr/local
RUN ldconfig && python3.{minor} -c 'import ssl, venv, sqlite3'
"""


def other_interpreter() -> tuple[int, Path]:
    """The minor version and the prefix of one that this machine has beside its own.

    Skips the test where it has none.
    """
    for minor in MINORS:
        found = [shutil.which(f"python3.{minor}") or ""]
        versions = Path.home() / ".pyenv/versions"
        found += [str(p) for p in sorted(versions.glob(f"3.{minor}.*/bin/python3.{minor}"))]
        for program in filter(None, found):
            script = "import sys; print(sys.base_prefix, sys.version_info[1])"
            done = subprocess.run([program, "-c", script], capture_output=True, text=True)
            prefix, _, answered = done.stdout.strip().rpartition(" ")
            if answered == str(minor) != str(sys.version_info[1]) and prefix != "/usr":
                return minor, Path(prefix)
    pytest.skip("this machine has no second Python to put into an image")


def build_root_image(daemon: docker.APIClient) -> tuple[str, int]:
    """The image, made once and kept, and the minor version that it has beside its own 3.11."""
    minor, prefix = other_interpreter()
    image = f"capuchin-tests/root-with-python3.{minor}:2"
    if not image_exists(daemon, image):
        root = obtain_root(daemon, DockerAddress(), lambda _: None)
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as archive:
            for path in interpreter_files(prefix, minor):
                archive.add(path, f"python/{path.relative_to(prefix)}", filter=normalise_member)
            text = DOCKERFILE.format(root=root, minor=minor).encode()
            member = tarfile.TarInfo("Dockerfile")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        context.seek(0)
        log = list(
            daemon.build(
                fileobj=context, custom_context=True, tag=image, network_mode="none", rm=True,
                forcerm=True, decode=True,
            )
        )  # fmt: skip
        assert image_exists(daemon, image), log[-5:]
    return image, minor


def interpreter_files(prefix: Path, minor: int) -> Iterator[Path]:
    yield prefix / f"bin/python3.{minor}"
    yield prefix / f"lib/python3.{minor}"
    yield from (prefix / "lib").glob(f"libpython3.{minor}.so*")


def normalise_member(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """As root's, without what no environment needs."""
    name = member.name.rpartition("/")[2]
    if name.startswith(EXCLUDED) and member.isdir():
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
