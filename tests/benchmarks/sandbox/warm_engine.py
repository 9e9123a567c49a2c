"""The engine that benchmarks execute on."""

import os
from pathlib import Path

from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.environment.build_options import BuildOptions
from sandbox.execution.warm_pool import ConfiguredMode

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
