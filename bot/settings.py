"""Everything from the environment, read once; no other module reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from bot.errors import BotError


class SettingsError(BotError):
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
    """The label that asks for a fix; with `:auto` without asking back, with `:dry-run` a plan. With
    `:disabled` it keeps us away from an issue or from our pull request."""
    app_name: str = Field(default="capuchin", pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$")
    """The App's name (slug), by which comments command it: `/NAME fix` or `@NAME fix`."""
    assignee: str = Field(default="", pattern=r"^([A-Za-z0-9][A-Za-z0-9_-]{0,38})?$")
    """An account that issues are assigned to, to ask for a fix; empty: none. Apps cannot be."""
    quota_person: int = Field(default=20, ge=0)
    """Runs that one person may ask for in a day and an installation; 0: any number."""
    quota_repository: int = Field(default=50, ge=0)
    """Runs of one repository in a day; 0: any number."""
    quota_installation: int = Field(default=200, ge=0)
    """Runs of one installation, which is all repositories of one owner, in a day; 0: any number."""
    solver_model: str = "anthropic:claude-sonnet-4-6"
    """Ranks, tests, edits and selects: `anthropic:NAME` or `openai:NAME@http://host:port/v1`.
    Several, separated by commas: the next one answers while those before it are down."""
    scout_model: str = ""
    """Reads every file; cheap. Empty: files are shortlisted by words instead."""
    orm_model: str = ""
    """Scores edits that tests leave equal: `openai:NAME@http://host:port/v1` with `logprobs`, as
    vLLM's. Empty: none does."""
    orm_reference: str = ""
    """The model that `CAPUCHIN_ORM_MODEL` was trained from by DPO; the score is then its implicit
    reward, by `prompt_logprobs`. Empty: the score is that of a verdict, + against -."""
    embedding_model: str = ""
    """Joins its say with that of shared words: `openai:NAME@http://host:port/v1`. Empty: none."""
    embedding_files: int = Field(default=3_000, ge=1)
    """Files of a repository that are put before the embedding model, by words the first."""
    model_api_key: SecretStr = Field(default=SecretStr(""))
    """Key for OpenAI-compatible servers that ask for one."""
    anthropic_api_key: SecretStr = Field(default=SecretStr(""))
    """Key for Anthropic's service."""
    anthropic_base_url: str = "https://api.anthropic.com"
    """Address of Anthropic's service, or of one that speaks its protocol."""
    own_hosts: str = ""
    """Hosts that are yours, as `vllm,redis,.lan`, beside loopback and private addresses. When code
    was sent to no others, pull requests say so; `kubernetes` stands for the sandboxes' cluster."""
    model_concurrency: int = Field(default=8, ge=1)
    """Calls of the solver in flight per worker."""
    scout_concurrency: int = Field(default=64, ge=1, le=256)
    """Most calls of the scout in flight per worker; fewer while its server is overloaded."""
    prices_file: Path | None = None
    """JSON with prices and sizes of models, in place of those shipped; see `prices.json`."""
    budget_day: float = Field(default=0, ge=0)
    """US dollars for all runs of all repositories in one day (UTC); 0: no such ceiling."""
    budget_repository_day: float = Field(default=0, ge=0)
    """US dollars for all runs of any one repository in one day (UTC); 0: no such ceiling."""
    docker_url: str = ""
    """Docker's address: `unix://`, `tcp://` or `ssh://USER@HOST`; empty means the local socket."""
    docker_tls_dir: Path | None = None
    """Folder with `ca.pem`, `cert.pem` and `key.pem` for a `tcp://` address with TLS."""
    docker_ssh_config: Path | None = None
    """Configuration file of ssh for an `ssh://` address; empty: the user's own."""
    sandbox: Literal["docker", "kubernetes"] = "docker"
    """Where executions run: `docker`, or `kubernetes`, as pods; Docker then only builds images."""
    sandbox_base: str = ""
    """Image that the sandbox's own is built on, say one with more Pythons in `/usr/local/bin`; give
    a changed one another tag. Empty: `python:3.11-slim-bookworm`, or Debian without a registry."""
    sandbox_runtime: str = "auto"
    """Docker's runtime for sandboxes: `auto` takes gVisor (`runsc`) where Docker knows it."""
    sandbox_registry: str = ""
    """Where environment images are pushed for pods, as `registry.example.org/capuchin`."""
    kubeconfig: Path | None = None
    """How to reach the cluster; empty: as a pod of the cluster itself."""
    kubernetes_namespace: str = "capuchin-sandboxes"
    """The namespace of the sandboxes' pods."""
    kubernetes_runtime_class: str = ""
    """RuntimeClass of the sandboxes' pods, say `gvisor`; empty means the cluster's default."""
    kubernetes_pull_secret: str = ""
    """Name of the secret with which nodes pull from the registry."""
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
    build_npm_registry: str = ""
    """npm registry for installing repositories; empty means npm's own."""
    build_python_mirror: str = ""
    """Where uv fetches Pythons that the base image does not have; empty means GitHub."""
    build_secrets: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """JSON: variables for the steps of builds alone, such as `PIP_INDEX_URL`; repositories can read
    them."""
    build_disk_mb: int = Field(default=12_000, ge=1)
    """What installing a repository may write to Docker's disk; looked at every few seconds. A
    single file that gets larger is stopped at once, but in a Dockerfile."""
    build_network: str = "bridge"
    """Docker network of installations. Cloud metadata addresses cannot be reached from it."""
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
    queue_seconds: float = Field(default=30, ge=0.2)
    """How often runs that wait for a worker are told their place in the queue."""
    review_seconds: float = Field(default=60, ge=0)
    """After a review comment, how long more of them are waited for before all are followed."""
    reverify_seconds: float = Field(default=600, ge=0)
    """When the base branch moves, evidence is gathered anew at most this often a pull request."""
    tend_seconds: float = Field(default=3600, ge=0.2)
    """How often each open pull request of ours is looked after when nothing is heard of it."""
    status_seconds: float = Field(default=5, ge=0)
    """A status comment is edited at most this often: GitHub limits how much an App may write."""
    public_url: str = ""
    """Where `serve` is reached from outside; with it a status comment links to its run's page."""
    dashboard_token: SecretStr = Field(default=SecretStr(""))
    """Opens the list of runs and every run's page, as Bearer token or as password."""
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
            name: env[variable_name(name)]
            for name in cls.model_fields
            if env.get(variable_name(name), "") != ""
        }
        secrets = values.get("build_secrets")
        try:
            if secrets is not None:
                values["build_secrets"] = json.loads(secrets)
        except ValueError:
            raise SettingsError("CAPUCHIN_BUILD_SECRETS: it must be a JSON object.") from None
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = variable_name(str(first["loc"][0]))
            raise SettingsError(f"{name}: {first['msg']}.") from None

    def read_private_key(self) -> str:
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


def variable_name(field: str) -> str:
    """The environment variable of a field."""
    return field.upper() if field.startswith("anthropic_") else f"CAPUCHIN_{field.upper()}"


def github_host(settings: Settings) -> str:
    """GitHub's own name."""
    return urlsplit(settings.github_url).hostname or ""
