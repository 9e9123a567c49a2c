"""A root for the sandbox's base image that has a second interpreter, taken from this machine."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sandbox.docker.base_image import image_exists, obtain_root
from sandbox.docker.docker_client import DockerAddress

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
