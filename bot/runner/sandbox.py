"""Builds the sandbox engine of the settings."""

import ssl
from pathlib import Path
from typing import Final

from bot.settings import SandboxSettings, Settings, SettingsError
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import Engine
from sandbox.environment.build_options import BuildOptions
from sandbox.kubernetes.cluster import Cluster
from sandbox.kubernetes.kubernetes_engine import KubernetesEngine
from sandbox.kubernetes.pod import PodOptions
from sandbox.program import Limits

FIX_OWNER, SELECT_OWNER, GRADE_OWNER = "capuchin fix", "capuchin select", "capuchin evaluate"
"""Owners of the containers of commands on a local repository. Workers do not know these runs, and
so must not reap their containers."""
NAMESPACE: Final = "capuchin-sandboxes"
"""The pods' namespace, to which `deploy/kubernetes` attaches rights, quota and network policy."""
AUTO: Final = "auto"
"""The value of `sandbox_runtime` that leaves the choice to the engine."""
OWN_INDEXES: Final = (
    "PIP_INDEX_URL", "npm_config_registry", "CARGO_REGISTRY_INDEX", "MAVEN_MIRROR_URL",
    "UV_PYTHON_INSTALL_MIRROR"
)  # fmt: skip
"""Of `build_secrets`, the addresses that are options of a build, for all its tools."""
_DEBIAN_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def system_ca_bundle() -> Path | None:
    """The CA bundle that this machine trusts; None when it is not one file."""
    ours = ssl.get_default_verify_paths().cafile
    return next((p for p in (Path(ours or _DEBIAN_BUNDLE), _DEBIAN_BUNDLE) if p.is_file()), None)


def build_engine(settings: Settings, *, owner: str = "") -> Engine:
    """The sandbox engine of the settings; connects to nothing yet.

    `owner` marks its containers. Without one they belong to the workers, which reap the containers
    of runs that are not active.

    Raises:
        SettingsError: a build setting is one that repositories must not see, or Kubernetes has no
            registry.
    """
    owner = owner or f"{settings.github_url} {settings.github_app_id}"
    builder = build_docker_engine(settings, owner)
    if settings.sandbox == "docker":
        return builder
    if not settings.sandbox_registry:
        raise SettingsError(
            "CAPUCHIN_SANDBOX_REGISTRY is not set: with CAPUCHIN_SANDBOX=kubernetes, environment "
            "images must be pushed where the cluster's nodes can pull them."
        )
    return KubernetesEngine(
        builder,
        Cluster(NAMESPACE),
        registry=settings.sandbox_registry,
        options=pod_options(settings),
        parallel=settings.sandbox_parallel,
        owner=owner,
    )


def pod_options(settings: SandboxSettings) -> PodOptions:
    """The options of pods; the runtime `auto` is the cluster's default RuntimeClass."""
    chosen = settings.sandbox_runtime
    return PodOptions(runtime_class="" if chosen == AUTO else chosen)


def _split(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def build_options(settings: SandboxSettings) -> BuildOptions:
    """What the settings say about builds.

    Raises:
        SettingsError: a build setting is one that repositories must not see.
    """
    secrets = {name: value.get_secret_value() for name, value in settings.build_secrets.items()}
    # With a login in it, an address is a secret like the others.
    own = {name: secrets.pop(name) for name in OWN_INDEXES if "@" not in secrets.get(name, "@")}
    try:
        return BuildOptions(
            ca_bundle=settings.build_ca_bundle or system_ca_bundle(),
            index_url=own.get("PIP_INDEX_URL"),
            npm_registry=own.get("npm_config_registry"),
            cargo_registry=own.get("CARGO_REGISTRY_INDEX"),
            maven_mirror=own.get("MAVEN_MIRROR_URL"),
            python_mirror=own.get("UV_PYTHON_INSTALL_MIRROR"),
            secrets=secrets,
            registries=_split(settings.build_registries),
            private_hosts=_split(settings.build_private_hosts),
        )
    except ValueError as error:
        name, _, why = str(error).partition(" ")
        name = name.rstrip(":").removeprefix("build_").upper()
        raise SettingsError(f"CAPUCHIN_BUILD_{name}: {why}") from None


def build_docker_engine(settings: SandboxSettings, owner: str) -> DockerEngine:
    """The Docker engine, which also builds the images for Kubernetes.

    Raises:
        SettingsError: see `build_options`.
    """
    return DockerEngine(
        DockerOptions(
            owner=owner,
            limits=Limits(memory_mb=settings.sandbox_memory_mb),
            parallel=settings.sandbox_parallel,
            runtime=settings.sandbox_runtime if settings.sandbox == "docker" else AUTO,
            base_image=settings.sandbox_base,
            build=build_options(settings),
        )
    )
