"""What the operator decides about a `DockerEngine`."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox.docker.address import DockerAddress
from sandbox.environment.options import BuildOptions
from sandbox.execution.probe import ConfiguredMode
from sandbox.limits import Limits


@dataclass(frozen=True)
class DockerOptions:
    """Where Docker is, and how executions run there."""

    owner: str = "capuchin"
    """The installation, where several share a daemon: each removes its own containers only."""
    address: DockerAddress = field(default_factory=DockerAddress)
    limits: Limits = field(default_factory=Limits)
    """Of one execution."""
    parallel: int = 2
    """How many executions, and how many builds, run at once."""
    mode: ConfiguredMode = "auto"
    """`warm`: containers that run one execution after another, each in new namespaces.
    `cold`: a container for each execution. `auto`: warm where the host supports it."""
    runtime: str = "auto"
    """What starts containers: the name of a runtime that the daemon knows, `default` for the
    daemon's own choice, or `auto` for gVisor where the daemon knows `runsc`."""
    base_image: str = ""
    """The image to build the base image on, if not the usual one; it may hold more Pythons."""
    build: BuildOptions = field(default_factory=BuildOptions)
    """What installations may use; executions see nothing of it."""
