"""The engine that benchmarks execute on."""

from __future__ import annotations

from pathlib import Path

from sandbox.docker.engine import DockerEngine
from sandbox.execution.probe import ConfiguredMode

PARALLEL = 2


def engine(mode: ConfiguredMode) -> DockerEngine:
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    found = bundle if bundle.is_file() else None
    return DockerEngine(parallel=PARALLEL, ca_bundle=found, owner="bench", mode=mode)
