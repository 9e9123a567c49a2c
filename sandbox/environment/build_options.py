"""The operator's options for builds, and the variables of build steps."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sandbox.environment.dockerfile import DOCKER_HUB
from sandbox.environment.recipe import Recipe
from sandbox.guest.installer.plan import NO_VERSION, scm_versions
from sandbox.guest.network.destinations import Destinations
from sandbox.guest.spellings import SecretFinder
from sandbox.layout import PROGRAM_ENVIRONMENT

INCOMING: Final = "/opt/incoming"
"""The folder of a build's input files."""
TOOLS = "/opt/tools"
DEFAULT_INDEX = "https://pypi.org/simple"
SHORTEST_SECRET = 8
"""A shorter secret would match in unrelated files."""
PROXY_NAME = re.compile(r"(https?|all|pip|npm_config(_https)?|yarn_https?)_proxy", re.IGNORECASE)
"""Variables that name the operator's own proxy. Builds get ours in its place, which passes on."""
QUIET = {
    "PIP_NO_INPUT": "1",
    # Disappears with /tmp. PIP_NO_CACHE_DIR=1 makes pip 18 crash.
    "PIP_CACHE_DIR": "/tmp/cache/pip",  # noqa: S108
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_PROGRESS_BAR": "off",
    "UV_CACHE_DIR": "/tmp/cache/uv",  # noqa: S108
    "UV_NO_PROGRESS": "1",
    "UV_LINK_MODE": "hardlink",
    # An earlier step chooses the interpreter.
    "UV_PYTHON": "/opt/env/bin/python",
    "UV_PYTHON_DOWNLOADS": "manual",
    "UV_PROJECT_ENVIRONMENT": "/opt/env",
    "POETRY_NO_INTERACTION": "1",
    "POETRY_CACHE_DIR": f"{TOOLS}/cache/poetry",
    "PDM_CHECK_UPDATE": "0",
    "PDM_NON_INTERACTIVE": "1",
    "npm_config_cache": f"{TOOLS}/cache/npm",
    "npm_config_store_dir": f"{TOOLS}/cache/pnpm",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
    "YARN_CACHE_FOLDER": f"{TOOLS}/cache/yarn",
    "YARN_GLOBAL_FOLDER": f"{TOOLS}/cache/berry",
    "YARN_ENABLE_TELEMETRY": "0",
}
"""Package managers ask no questions, and cache downloads where the next layer finds them."""


@dataclass(frozen=True)
class BuildOptions:
    """The operator's options for builds."""

    ca_bundle: Path | None = None
    index_url: str | None = None
    npm_registry: str | None = None
    cargo_registry: str | None = None
    """The address of a sparse index that stands for crates.io's."""
    maven_mirror: str | None = None
    """The address of a repository that stands for all others, for Maven and Gradle."""
    python_mirror: str | None = None
    """The address from which uv fetches interpreters instead of GitHub."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables for the steps of builds only, such as the login of a private index.
    They travel over standard input, so that no image and no container's settings hold them. The
    code that is being installed can read them."""
    private_hosts: Sequence[str] = ()
    """Private hosts and networks that builds may reach, as `Destinations` takes them."""
    registries: Sequence[str] = (DOCKER_HUB,)
    """From which Dockerfiles may take images, `host` or `host:port`."""
    scope: str = ""
    """Only trees of one scope share images. The engine sets it for each build."""
    cpus: float = 1
    """The number of the daemon's processors. The engine sets it."""
    disk_mb: int = 1024
    """The disk of an execution: the checkout must fit twice, so that a program can write."""
    written_mb: int = 12_000
    """How much a build may write to its host's disk."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for options that would leak a secret."""
        for name, url in self._addresses().items():
            if url and "@" in urlsplit(url).netloc:
                raise ValueError(
                    f"{name} must not carry credentials: repositories could read them."
                )
        try:
            Destinations(self.private_hosts)
        except ValueError as error:
            raise ValueError(f"private_hosts: {error}") from None
        for name, value in self.secrets.items():
            check_secret(name, value)

    def key(self) -> str:
        """A key that changes with every option that affects the images of a repository."""
        return repr((self.key_of_tools(), self.scope))

    def key_of_tools(self) -> str:
        """A key that changes with every option that affects the images shared by all
        repositories."""
        return repr(tuple(self._addresses().values()))

    def _addresses(self) -> dict[str, str | None]:
        names = ("index_url", "npm_registry", "cargo_registry", "maven_mirror", "python_mirror")
        return {name: getattr(self, name) for name in names}

    def parent_proxy(self) -> str:
        """The operator's own proxy, by its address, perhaps with a login; empty for none."""
        return next((v for n, v in self.secrets.items() if PROXY_NAME.fullmatch(n)), "")

    def list_permitted(self) -> list[str]:
        """The private hosts that builds may reach: those named, and those of every address that
        the operator gave, each on its port."""
        given = (*self._addresses().values(), *self.secrets.values())
        found = list(self.private_hosts)
        for url in " ".join(filter(None, given)).split():
            with contextlib.suppress(ValueError):
                parts = urlsplit(url)
                port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
                if parts.hostname and port:
                    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
                    found.append(f"{host}:{port}")
        return found

    def environment(self, recipe: Recipe, index_url: str | None) -> dict[str, str]:
        """All environment variables that the steps of a build see.

        `index_url` is the address of the package index; None is the default one.
        """
        version = recipe.version or NO_VERSION
        found = {**PROGRAM_ENVIRONMENT, **QUIET, **scm_versions(version, recipe.name)}
        found["CAPUCHIN_VERSION"] = recipe.version
        found["CAPUCHIN_VERSION_SOURCE"] = recipe.version_source
        if index_url:
            found |= dict.fromkeys(("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), index_url)
            found["PDM_PYPI_URL"] = index_url
        if self.npm_registry:
            names = ("npm_config_registry", "YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER")
            found |= dict.fromkeys(names, self.npm_registry)
        if self.cargo_registry:
            found["CAPUCHIN_CARGO_REGISTRY"] = self.cargo_registry
        if self.maven_mirror:
            names = ("CAPUCHIN_MAVEN_MIRROR", "MVNW_REPOURL")
            found |= dict.fromkeys(names, self.maven_mirror)
        if self.python_mirror:
            found["UV_PYTHON_INSTALL_MIRROR"] = self.python_mirror
        if self.ca_bundle:
            names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
            # Node's own variable does not affect yarn 1's downloads; Debian's git and cargo use a
            # library for TLS that reads none of these.
            names += ("npm_config_cafile", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO")
            found |= dict.fromkeys(names, f"{INCOMING}/ca.pem")
            found["JAVA_TOOL_OPTIONS"] = f"-Djavax.net.ssl.trustStore={INCOMING}/ca.jks"
        if self.secrets:
            found |= {**self.secrets, "CAPUCHIN_SECRET_NAMES": ",".join(self.secrets)}
        return found

    def redact(self, text: str) -> str:
        """`text` without the secrets, for reports that other people read."""
        found: list[str] = []
        for value in self.secrets.values():
            login = urlsplit(value).netloc.rpartition("@")[0] if "://" in value else ""
            found += [value, login, login.partition(":")[2]]
        return SecretFinder(filter(None, found)).redact(text)


def check_secret(name: str, value: str) -> None:
    """Raise `ValueError` for a secret that a build cannot be given."""
    reserved = ("PATH", "HOME", "VIRTUAL_ENV", "CAPUCHIN_SECRET_NAMES")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in reserved:
        raise ValueError(f'secrets: "{name}" is not a variable that can be set.')
    if PROXY_NAME.fullmatch(name) and not value.startswith("http://"):
        raise ValueError(f'secrets: "{name}" must be an http:// address.')
    if len(value) < SHORTEST_SECRET:
        raise ValueError(
            f'secrets: the value of "{name}" has fewer than {SHORTEST_SECRET} characters.'
        )
