"""The engine that benchmarks execute on."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox.docker.engine import DockerEngine
from sandbox.docker.options import DockerOptions
from sandbox.environment.options import BuildOptions
from sandbox.execution.probe import ConfiguredMode

PARALLEL = 2


def engine(mode: ConfiguredMode) -> DockerEngine:
    """`BASE` names the image that environments are built on; with more Pythons, more can be."""
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    found = bundle if bundle.is_file() else None
    return DockerEngine(
        DockerOptions(
            parallel=PARALLEL,
            owner="bench",
            mode=mode,
            base_image=os.environ.get("BASE", ""),  # noqa: TID251 - how make passes it on
            build=BuildOptions(ca_bundle=found),
        )
    )
