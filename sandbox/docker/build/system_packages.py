"""An image with Debian packages, made by the daemon before any repository's code is there."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import docker

from sandbox.docker.build.network import BuildNetwork
from sandbox.docker.client import translate_docker_errors
from sandbox.errors import SandboxUnavailable
from sandbox.guest.image.install_packages import NO_MIRROR
from sandbox.layout import SYSTEM_PYTHON

PROGRAM: Final = "/opt/capuchin/install_packages.py"
SECONDS: Final = 900
MEMORY: Final = 1024 * 1024 * 1024


def build_package_image(
    client: docker.APIClient,
    base: str,
    image: str,
    packages: Sequence[str],
    *,
    network: BuildNetwork,
    labels: Mapping[str, str],
) -> bool:
    """Build `image`: `base` with `packages`, whose names have been checked.

    False if the mirror did not answer, so that there is no image.

    Only Debian's and our own programs run, as root, from the mirror that the base image names.

    Raises:
        SandboxUnavailable: Docker failed.
    """
    command = json.dumps([SYSTEM_PYTHON, "-I", PROGRAM, *packages])
    text = f"FROM {base}\nUSER root\nRUN {command}\n"
    with translate_docker_errors("Docker could not install system packages"):
        lines = client.build(
            fileobj=pack_context(text),
            custom_context=True,
            tag=image,
            network_mode=network.mode,
            buildargs=network.build_arguments(),
            labels=dict(labels),
            container_limits={"memory": MEMORY, "memswap": MEMORY},
            rm=True,
            forcerm=True,
            decode=True,
            timeout=SECONDS,
        )
        error = ""
        for line in cast(Iterator[dict[str, Any]], lines):
            error = error or str(line.get("error", ""))
    if f"non-zero code: {NO_MIRROR}" in error:
        return False
    if error:
        raise SandboxUnavailable(f"System packages were not installed: {error}")
    return True


def pack_context(dockerfile: str) -> io.BytesIO:
    """A build context that holds nothing else."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(dockerfile)
        archive.addfile(member, io.BytesIO(dockerfile.encode()))
    context.seek(0)
    return context
