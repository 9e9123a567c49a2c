"""Everything from the environment, read once; no other module reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError


class SettingsError(Exception):
    """The environment is not one that Capuchin can start in; `str(error)` says what to set."""


class Settings(BaseModel):
    """Each field is `CAPUCHIN_<NAME>`, except the two that are Anthropic's own."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    webhook_secret: SecretStr = Field(default=SecretStr(""))
    """The secret set for the App's webhook. `serve` does not start without it."""
    github_url: str = "https://github.com"
    """Where GitHub is; an Enterprise Server's address for one."""
    github_app_id: str = ""
    """The App's id or client id."""
    github_private_key: SecretStr = Field(default=SecretStr(""))
    """The App's private key in PEM form, or the path of a file that holds it."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    """Redis keeps the runs and their checkpoints; give it a disk (`appendonly yes`)."""
    redis_prefix: str = "capuchin:"
    """Put before every key, so that several Capuchins can share a Redis."""
    data_dir: Path = Path(".capuchin")
    """Mirrors of repositories; everything in it can be rebuilt."""
    label: str = "capuchin"
    """The label that asks for a fix."""
    solver_model: str = "anthropic:claude-sonnet-4-6"
    """Ranks, tests, edits and selects: `anthropic:NAME` or `openai:NAME@http://host:port/v1`."""
    scout_model: str = ""
    """Reads every file; cheap. Empty: files are shortlisted by words instead."""
    model_api_key: SecretStr = Field(default=SecretStr(""))
    """Key for OpenAI-compatible servers that ask for one."""
    anthropic_api_key: SecretStr = Field(default=SecretStr(""))
    """Key for Anthropic's service."""
    anthropic_base_url: str = "https://api.anthropic.com"
    """Address of Anthropic's service, or of one that speaks its protocol."""
    model_concurrency: int = Field(default=8, ge=1)
    """Model calls in flight per worker and role."""
    docker_url: str = ""
    """Docker's address; empty means the local socket."""
    sandbox_parallel: int = Field(default=2, ge=1)
    """Executions at a time per worker."""
    sandbox_memory_mb: int = Field(default=2048, ge=64)
    """Memory of one execution."""
    sandbox_images_mb: int = Field(default=20_000, ge=0)
    """Disk for the images of installed repositories; the least recently used go first."""
    build_ca_bundle: Path | None = None
    """CA certificates for installing repositories; empty: those that this machine trusts."""
    build_index_url: str = ""
    """Package index for installing repositories; empty means PyPI."""
    worker_runs: int = Field(default=2, ge=1)
    """Runs at a time per worker."""
    lease_seconds: float = Field(default=20, ge=1)
    """A worker silent for this long has lost its run to another."""
    sweep_seconds: float = Field(default=5, ge=0.2)
    """How often workers look for runs that nobody works on."""
    stop_seconds: float = Field(default=25, ge=0)
    """How long a worker told to stop lets steps under way end; then it hands its runs over."""
    patience_seconds: float = Field(default=6 * 3600, ge=0)
    """How long a run waits for a model, Docker or GitHub that does not answer, before it fails."""
    missed_seconds: float = Field(default=600, ge=0.2)
    """How often GitHub is asked for labelled issues whose webhook never came."""
    host: str = "127.0.0.1"
    """Address that `serve` listens on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port that `serve` listens on."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the process environment (or `environ`).

        Raises:
            SettingsError: a value is of the wrong kind; names the variable.
        """
        env: Mapping[str, str] = os.environ if environ is None else environ  # noqa: TID251
        values: dict[str, Any] = {
            name: env[variable(name)]
            for name in cls.model_fields
            if env.get(variable(name), "") != ""
        }
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = variable(str(first["loc"][0]))
            raise SettingsError(f"{name}: {first['msg']}.") from None

    def private_key(self) -> str:
        """The App's private key itself, read from its file when a path was given.

        Raises:
            SettingsError: not set, or the file cannot be read.
        """
        value = self.github_private_key.get_secret_value()
        if not value:
            raise SettingsError("CAPUCHIN_GITHUB_PRIVATE_KEY is not set.")
        if value.lstrip().startswith("-----BEGIN"):
            return value.replace("\\n", "\n")
        try:
            return Path(value).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            raise SettingsError(
                "CAPUCHIN_GITHUB_PRIVATE_KEY is neither a PEM key nor a file that can be read."
            ) from None


def variable(field: str) -> str:
    """The environment variable of a field."""
    return field.upper() if field.startswith("anthropic_") else f"CAPUCHIN_{field.upper()}"
