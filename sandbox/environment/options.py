"""What the operator decides about builds, and the environment of their steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from sandbox.environment.manifests import scm_versions
from sandbox.environment.python import INCOMING
from sandbox.environment.recipe import Recipe
from sandbox.layout import PROGRAM_ENVIRONMENT

TOOLS = "/opt/tools"
REDACTED = "***"
SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SHORTEST_SECRET = 8
"""A shorter one would be found in unrelated files."""
RESERVED_NAMES = frozenset({"PATH", "HOME", "VIRTUAL_ENV", "CAPUCHIN_SECRET_NAMES"})
QUIET = {
    "PIP_NO_INPUT": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_PROGRESS_BAR": "off",
    "UV_NO_CACHE": "1",
    "UV_NO_PROGRESS": "1",
    "UV_LINK_MODE": "copy",
    # The interpreter is chosen before.
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
    """What the operator decides about builds."""

    ca_bundle: Path | None = None
    index_url: str | None = None
    npm_registry: str | None = None
    python_mirror: str | None = None
    """Where uv finds interpreters instead of GitHub."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables for the steps of builds only, such as the login of a private index.
    They travel over standard input, so that no image and no container's settings hold them. The
    code that is being installed can read them."""
    network: str = "bridge"
    scope: str = ""
    """Images are shared only between trees of one scope. The engine sets it for each build."""
    cpus: float = 1
    """How many processors the daemon has. The engine sets it."""
    disk_mb: int = 1024
    """The disk of an execution: the checkout must fit twice, so that a program can write."""
    written_mb: int = 12_000
    """How much a build may write to its host's disk."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for what would leak a secret, and for the host's network."""
        for name in ("index_url", "npm_registry", "python_mirror"):
            url = getattr(self, name)
            if url and "@" in urlsplit(url).netloc:
                raise ValueError(
                    f"{name} must not carry credentials: repositories could read them."
                )
        if self.network == "host":
            raise ValueError("build_network must not be the host's: builds would reach its ports.")
        for name, value in self.secrets.items():
            if not SECRET_NAME.fullmatch(name) or name in RESERVED_NAMES:
                raise ValueError(f'secrets: "{name}" is not a variable that can be set.')
            if len(value) < SHORTEST_SECRET:
                raise ValueError(
                    f'secrets: the value of "{name}" has fewer than {SHORTEST_SECRET} characters.'
                )

    def key(self) -> str:
        """Changes with every option that changes the images of a repository."""
        return repr((self.key_of_tools(), self.scope))

    def key_of_tools(self) -> str:
        """Changes with every option that changes the images that all repositories share."""
        return repr((self.index_url, self.npm_registry, self.python_mirror))

    def environment(self, recipe: Recipe) -> dict[str, str]:
        """All environment variables that the steps of a build see."""
        found = {**PROGRAM_ENVIRONMENT, **QUIET, **scm_versions(recipe.version, recipe.name)}
        if self.index_url:
            found |= dict.fromkeys(("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), self.index_url)
            found["PDM_PYPI_URL"] = self.index_url
        if self.npm_registry:
            names = ("npm_config_registry", "YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER")
            found |= dict.fromkeys(names, self.npm_registry)
        if self.python_mirror:
            found["UV_PYTHON_INSTALL_MIRROR"] = self.python_mirror
        if self.ca_bundle:
            names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
            found |= dict.fromkeys(names, f"{INCOMING}/ca.pem")
            # Node's own variable does not reach yarn 1's downloads.
            found |= dict.fromkeys(("npm_config_cafile",), f"{INCOMING}/ca.pem")
        if self.secrets:
            found |= {**self.secrets, "CAPUCHIN_SECRET_NAMES": ",".join(self.secrets)}
        return found

    def redact(self, text: str) -> str:
        """`text` without the secrets, for reports that other people read."""
        for value in self.secrets.values():
            login = urlsplit(value).netloc.rpartition("@")[0] if "://" in value else ""
            for part in (value, login, login.partition(":")[2]):
                for spelling in {part, quote(part, safe="")} - {""}:
                    text = text.replace(spelling, REDACTED)
        return text
