"""Every environment variable, read once; no other module reads the environment."""

import difflib
import hashlib
import hmac
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from platformdirs import user_state_path
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from bot.data.removed_settings import REMOVED
from bot.data.run import RunId
from bot.errors import BotError
from pipeline.data.options import Generator, Strategy
from pipeline.models.spec import OPENAI_URL, ModelSpec, PriceTable, read_prices


class Timings(BaseModel):
    """Intervals in seconds. No variable sets them: each has one good value; tests need others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lease_seconds: float = Field(default=20, ge=1)
    """After this many seconds of silence, another worker takes over a worker's runs."""
    stop_seconds: float = Field(default=25, ge=0)
    """How long a stopping worker lets current steps finish before it hands its runs over."""
    patience_seconds: float = Field(default=6 * 3600, ge=0)
    """How long a run waits for an unavailable model, Docker or GitHub before it fails."""
    review_seconds: float = Field(default=60, ge=0)
    """How long to wait for more review comments before addressing them together."""
    sweep_seconds: float = Field(default=5, ge=0.2)
    """How often each worker looks for runs without a worker and for pull requests that are due. A
    run whose worker died waits at most this long after its lease has expired."""
    missed_seconds: float = Field(default=600, ge=0.2)
    """How often GitHub is asked for events whose webhook was lost: rarely enough to leave most of
    an installation's 5,000 calls an hour to the runs."""
    queue_seconds: float = Field(default=30, ge=0.2)
    """How often a waiting run's place in the queue is updated for people to see."""
    no_worker_seconds: float = Field(default=300, ge=0)
    """How long no worker may be heard from before waiting issues say so."""
    status_seconds: float = Field(default=20, ge=0)
    """The minimum time between two edits of a status comment; its last one does not wait."""
    reverify_seconds: float = Field(default=600, ge=0)
    """The minimum time between two verifications of a pull request whose base branch moves: a busy
    branch moves every few minutes, and each verification occupies a sandbox."""
    hourly_writes: int = Field(default=400, ge=2)
    """Maximum writes of one installation per hour; GitHub blocks it at 500."""
    minute_writes: int = Field(default=60, ge=2)
    """Maximum comments, checks and pull requests of one installation that are created per minute;
    GitHub blocks it at 80."""
    hourly_writes_seconds: float = Field(default=3600, ge=0.2)
    """How long an hour of `hourly_writes` is."""
    archive_seconds: float = Field(default=600, ge=0.2)
    """How often ended runs are moved to the archive."""
    archive_after_seconds: float = Field(default=86_400, ge=0)
    """How long a run's checkpoints stay in Redis after it ends, for people who read its page."""
    follow_up_seconds: float = Field(default=3600, ge=0.2)
    """How often an open pull request is checked without an event; webhooks are seldom lost."""


SENTINEL_FORM: Final = "redis[s]+sentinel://HOST:PORT,HOST:PORT/SERVICE[/DB]"


@dataclass(frozen=True)
class RedisUrl:
    """The address of Redis, or of the Sentinels that know where it is."""

    url: str = field(repr=False)
    """For redis-py: scheme, credentials, first host, database and options."""
    hosts: tuple[tuple[str, int], ...]
    """Names and ports; empty for a socket."""
    service: str = ""
    """What the Sentinels call the primary; empty without Sentinels."""


def parse_redis_url(url: str) -> RedisUrl:
    """Parse `CAPUCHIN_REDIS_URL`.

    Raises:
        ValueError: it is not the address of a Redis or of Sentinels.
    """
    found = re.fullmatch(
        r"(?P<scheme>rediss?|unix)(?P<sentinel>\+sentinel)?://(?P<login>[^/?#]*@)?"
        r"(?P<places>[^/?#]*)(?P<path>[^?#]*)(?P<query>.*)",
        url,
    )
    if found is None:
        raise ValueError(f"use redis[s]://, unix:// or {SENTINEL_FORM}.")
    default = 26379 if found["sentinel"] else 6379
    places = [urlsplit(f"//{place}") for place in found["places"].split(",") if place]
    hosts = tuple((place.hostname or "", place.port or default) for place in places)
    if not found["sentinel"]:
        return RedisUrl(url, hosts)
    service, _, database = found["path"].strip("/").partition("/")
    if not service or not hosts:
        raise ValueError(f"a host or the name of the service is missing; use {SENTINEL_FORM}.")
    plain = f"{found['scheme']}://{found['login'] or ''}{places[0].netloc}/{database or 0}"
    return RedisUrl(plain + found["query"], hosts, service)


def list_redis_hosts(url: str) -> list[str]:
    """The names of all machines in the address; empty for a socket or an invalid address."""
    try:
        return [host for host, _ in parse_redis_url(url).hosts if host]
    except ValueError:
        return []


def list_redis_passwords(url: str) -> list[str]:
    """The passwords in the address, both percent-encoded and decoded."""
    found = re.findall(r"://[^/?#:]*:([^/?#]*)@|password=([^&#]*)", url)
    quoted = [password for pair in found for password in pair if password]
    return [*quoted, *map(unquote, quoted)]


OTHERS: Final = (
    "CAPUCHIN_IMAGE",
    "CAPUCHIN_MODELS",
    "CAPUCHIN_SCOUT_NAME",
    "CAPUCHIN_VLLM_GPUS",
    "CAPUCHIN_VLLM_RANK",
    "CAPUCHIN_VLLM_WINDOW",
)
"""What `deploy/compose.yaml` reads itself."""

MIXTURE: Final = (Generator(machine="explore"), Generator(machine="fixed"))
"""Two of each in a first wave of four: they fail in different ways, so that their agreement says
more than the agreement of copies."""


class SettingsError(BotError):
    """Capuchin cannot start in this environment; `str(error)` says what to set."""


class _Section(BaseModel):
    # Secrets come from files and from `kubectl create secret`, which end them with a line break.
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, str_strip_whitespace=True
    )


class GitHubSettings(_Section):
    """The App, and the GitHub that it is installed on."""

    github_url: str = "https://github.com"
    """The address of GitHub, of an Enterprise Server, or `https://NAME.ghe.com`."""
    github_app_id: str = ""
    """The App's ID or client ID."""
    github_private_key: SecretStr = Field(default=SecretStr(""))
    """The App's private key (PEM), or the path of a file that holds it."""
    github_token: SecretStr = Field(default=SecretStr(""))
    """A token that reads public repositories, for `learn collect --github`: without one, GitHub
    answers 60 requests an hour."""
    signing_key: str = Field(default="", pattern=r"^([^\s@<>:]+@[^\s@<>:]+:/[^\r\n]*)?$")
    """`ADDRESS:/PATH` of an SSH private key that signs commits which GitHub does not make itself,
    with a verified address of the account that has it as a signing key: their committer. Empty:
    those are unsigned."""

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


class RedisSettings(_Section):
    """Where the records are."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    """Redis stores the runs and their checkpoints; turn on persistence (`appendonly yes`). Use
    `rediss://` for TLS and `redis+sentinel://` for Sentinels (docs/operating.md)."""
    redis_prefix: str = "capuchin:"
    """Prefix of every Redis key, so that several bots can share one Redis."""


class DiskSettings(_Section):
    """What a worker keeps on its machine, and the archive of ended runs."""

    data_dir: Path = Field(default_factory=lambda: user_state_path("capuchin"))
    """Folder for mirrors of repositories; everything in it can be rebuilt. By default, `capuchin`
    in your user's state folder (`~/.local/state`): never in a clone, which could bring one."""
    mirrors_mb: int = Field(default=20_000, ge=0)
    """Disk for mirrors on this machine; the least recently used are removed first. Those of active
    runs and of the last hour stay."""
    archive: str = Field(
        default="", pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#]*)?)?$"
    )
    """`s3://BUCKET/PREFIX`: keep the bundles of ended runs there; their checkpoints leave Redis a
    day after the end. The `AWS_` variables give address and keys. Empty: off."""


DEFAULT_NAME: Final = "capuchin"
"""Heard in `/capuchin` under every name: only one App on GitHub can have this one."""


class BotSettings(_Section):
    """How people ask for a run."""

    label: str = "capuchin"
    """The label that requests a fix. `LABEL:auto` opens the pull request ready for review,
    `LABEL:dry-run` only posts a plan, `LABEL:disabled` excludes the issue."""
    app_name: str = Field(default=DEFAULT_NAME, pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$")
    """The name that people type in commands. Beside it, `/capuchin fix` works, and `/SLUG fix` and
    `@SLUG fix` by the App's name on GitHub."""


class QuotaSettings(_Section):
    """Limits on runs and on spending."""

    quota_person: int = Field(default=20, ge=0)
    """Runs that one person may request per day and installation; 0: unlimited."""
    budget_day: float = Field(default=0, ge=0)
    """US dollars per day (UTC) for all runs; 0: unlimited."""


class ModelKey(NamedTuple):
    """An API key, empty where none is set, and the variable that sets it."""

    variable: str
    key: str


class ModelSettings(_Section):
    """The models, and how edits are made with them."""

    solver_model: str = "anthropic:claude-sonnet-4-6"
    """The model that writes and selects edits: `anthropic:NAME`, `openai:NAME` of
    OpenAI, or `openai:NAME@http://host:port/v1`. Comma-separated models are tried in order."""
    generators: tuple[Generator, ...] = Field(default=MIXTURE, min_length=1, max_length=10)
    """Ways to write edits, mixed by their shares, where a repository names none: a JSON list of
    `machine` (`fixed` or `explore`), `model` (as in `CAPUCHIN_SOLVER_MODEL`; empty: that one) and
    `share` (1). Repositories may name these models as well. `[{}]`: `fixed` alone, as in the
    paper."""
    scout_model: str = ""
    """A cheap model that reads every file. Empty: files are shortlisted by shared words."""
    orm_model: str = ""
    """A reward model that ranks edits which tests cannot tell apart:
    `openai:NAME@http://host:port/v1` with `logprobs`, such as vLLM. A model that DPO trained is
    followed by a comma and the base model that it was trained from: the score is then the implicit
    reward, else the probability of the verdict +. Empty: off."""
    orm_weight: float = Field(default=1, ge=0, le=100)
    """How much of the reward counts, in log-odds, between edits that are nearly equal;
    `capuchin learn judge` prints the weight that was best."""
    strategy: Strategy = "samples"
    """How edits are found, where a repository does not say: `samples`, or `search` first for the
    files and lines to change (SWE-Reasoner). `codemonkeys` and `swe_reasoner`: a paper's method as
    published, with all its options: a control for experiments."""
    prm_model: str = ""
    """A process reward model that guides a `search`: `openai:NAME@http://host:port/v1` that answers
    + or - with `logprobs`, such as vLLM; any other model writes a score. Empty: not guided."""
    model_api_key: SecretStr = Field(default=SecretStr(""))
    """API key for OpenAI-compatible servers that require one."""
    openai_api_key: SecretStr = Field(default=SecretStr(""))
    """API key for OpenAI; no other server gets it."""
    anthropic_api_key: SecretStr = Field(default=SecretStr(""))
    """API key for Anthropic."""
    anthropic_base_url: str = "https://api.anthropic.com"
    """Address of Anthropic's API or of a compatible one."""
    own_hosts: str = ""
    """Your own hosts, such as `vllm,redis,.lan`, in addition to loopback and private addresses.
    Models there are free. A pull request whose code reached no other host says so. `kubernetes` is
    the sandbox cluster."""
    prices_file: Path | None = None
    """JSON file with prices and sizes of models that replaces the shipped `prices.json`."""

    def read_prices(self) -> PriceTable:
        """The prices in force. Raises PricesInvalid."""
        return read_prices(self.prices_file, self.own_hosts.split(","))

    def find_key(self, spec: ModelSpec) -> ModelKey:
        """The API key that the service of `spec` gets."""
        if spec.provider == "anthropic":
            return ModelKey("ANTHROPIC_API_KEY", self.anthropic_api_key.get_secret_value())
        key = self.model_api_key.get_secret_value()
        if spec.base_url == OPENAI_URL:
            return ModelKey("OPENAI_API_KEY", self.openai_api_key.get_secret_value() or key)
        return ModelKey("CAPUCHIN_MODEL_API_KEY", key)

    def lacks_key(self, spec: ModelSpec) -> bool:
        """Whether the service of `spec` takes nobody without a key, and has none here."""
        asks = spec.provider == "anthropic" or spec.base_url == OPENAI_URL
        return asks and not self.find_key(spec).key


class SandboxSettings(_Section):
    """Where code runs, and what a build may use."""

    sandbox: Literal["docker", "kubernetes"] = "docker"
    """Where code runs: `docker`, or `kubernetes` (pods; Docker then only builds images)."""
    sandbox_base: str = ""
    """Base image of the sandbox, for example one with more Pythons in `/usr/local/bin`; give each
    version its own tag. Empty: `python:3.11-slim-bookworm`, or Debian without a registry."""
    sandbox_runtime: str = "auto"
    """Docker runtime of sandboxes, or RuntimeClass of pods. `auto`: gVisor (`runsc`) if Docker has
    it, or the cluster's default."""
    sandbox_registry: str = ""
    """Registry for the images of pods, such as `registry.example.org/capuchin`."""
    sandbox_parallel: int = Field(default=2, ge=1)
    """Concurrent executions per worker."""
    sandbox_memory_mb: int = Field(default=2048, ge=64)
    """Memory of one execution."""
    sandbox_images_mb: int = Field(default=20_000, ge=0)
    """Disk for the images of repositories; the least recently used are removed first."""
    build_ca_bundle: Path | None = None
    """CA certificates for builds. Empty: those that this machine trusts."""
    build_secrets: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """JSON object of environment variables for build steps. Code of the repository can read them.
    `PIP_INDEX_URL`, `npm_config_registry`, `CARGO_REGISTRY_INDEX` (a sparse index),
    `MAVEN_MIRROR_URL` and `UV_PYTHON_INSTALL_MIRROR` name your own index, registries, and mirrors
    of Java's packages and of Pythons."""
    build_registries: str = "docker.io,ghcr.io,mcr.microsoft.com,public.ecr.aws,quay.io"
    """Registries from which Dockerfiles of repositories may take images. Each is asked without a
    login, from the worker."""
    build_private_hosts: str = ""
    """Private hosts and networks that builds may reach, such as
    `pypi.lan:3141,.corp.example,10.1.0.0/16`. Index, registry and mirror need no entry."""


class WorkerSettings(_Section):
    """How a worker takes up runs."""

    worker_runs: int = Field(default=2, ge=1)
    """Concurrent runs on issues per worker. One more works on the bot's own pull requests, so that
    reviewers do not wait for issues."""
    timings: Timings = Timings()
    """Intervals that no variable sets."""
    one_shot: bool = False
    """It works on one issue, and Redis ends with it: nobody hears what people write afterwards. No
    variable sets it."""


class ServerSettings(_Section):
    """What `serve` answers, and to whom."""

    webhook_secret: SecretStr = Field(default=SecretStr(""))
    """The secret of the App's webhook; `OLD,NEW` while it changes. `serve` does not start without
    it."""
    public_url: str = ""
    """Public address of `serve`; status comments then link to the run's page."""
    dashboard_token: SecretStr = Field(default=SecretStr(""))
    """Bearer token or password for the list of runs and every run's page."""

    def list_webhook_secrets(self) -> list[str]:
        """The newest last."""
        return [one for one in self.webhook_secret.get_secret_value().split(",") if one]

    def page_key(self, run_id: RunId) -> str:
        """The key to one run's page, 128 bits; empty without a webhook secret to derive it from."""
        secret = next(reversed(self.list_webhook_secrets()), "")
        if not secret:
            return ""
        message = f"capuchin run page {run_id}".encode()
        return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()[:32]

    def page_url(self, run_id: RunId) -> str:
        """The address of a run's page, which anybody who has it can open; empty without a public
        address."""
        key = self.page_key(run_id)
        if not self.public_url or not key:
            return ""
        return f"{self.public_url.rstrip('/')}/runs/{run_id}?key={key}"


class LogSettings(_Section):
    """Logs and traces."""

    log_format: Literal["text", "json"] = "text"
    """Log format of `serve` and `worker`: `text` lines, or one `json` object per line."""
    log_level: Literal["debug", "info", "warning"] = "info"
    """The lowest level that is logged. `debug` adds every call to a model, GitHub and the sandbox,
    without its content, and webhooks that request nothing."""
    otlp_endpoint: str = Field(default="", pattern=r"^(https?://.+)?$")
    """Base address of an OTLP/HTTP receiver, to which workers send traces. Empty: off. Other
    standard variables, such as `OTEL_EXPORTER_OTLP_HEADERS`, are read too."""


class Settings(
    LogSettings,
    ServerSettings,
    WorkerSettings,
    SandboxSettings,
    ModelSettings,
    QuotaSettings,
    BotSettings,
    DiskSettings,
    RedisSettings,
    GitHubSettings,
):  # pydantic lists the fields of the last base first
    """Every setting. A room of the house names the sections that it reads.

    Each field is `CAPUCHIN_<NAME>`, except Anthropic's, OpenAI's, OpenTelemetry's and those that
    no variable sets.
    """

    @property
    def offered_name(self) -> str:
        """What comments offer commands under; empty where nobody would hear one."""
        return "" if self.one_shot else self.app_name

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read the process environment (or `environ`).

        Raises:
            SettingsError: a variable is invalid or no longer exists; the text names it.
        """
        env: Mapping[str, str] = os.environ if environ is None else environ  # noqa: TID251
        for name in sorted(env):
            prefix, _, rest = name.partition("CAPUCHIN_")
            if not prefix and (why := REMOVED["variables"].get(rest)) and env[name]:
                raise SettingsError(f"{name} no longer exists: {why}. Unset it.")
        values: dict[str, Any] = {
            name: env[variable_name(name)]
            for name in variable_fields()
            if env.get(variable_name(name), "") != ""
        }
        for name, kind in (("build_secrets", "object"), ("generators", "list")):
            try:
                if name in values:
                    values[name] = json.loads(values[name])
            except ValueError:
                message = f"{variable_name(name)}: it must be a JSON {kind}."
                raise SettingsError(message) from None
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = variable_name(str(first["loc"][0]))
            said = _PLAIN.get(first["type"], first["msg"]).replace("Input should", "it must", 1)
            raise SettingsError(f"{name}: {said}.") from None


_PLAIN: Final = {
    "int_parsing": "it must be a whole number",
    "float_parsing": "it must be a number",
    "bool_parsing": "it must be true or false",
}
"""What pydantic finds, in words."""


def find_unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """A sentence for each unknown `CAPUCHIN_` variable of the process (or of `environ`)."""
    env: Mapping[str, str] = os.environ if environ is None else environ  # noqa: TID251
    known = [variable_name(field) for field in variable_fields()]
    found: list[str] = []
    for name in sorted(env):
        if name.startswith("CAPUCHIN_") and name not in (*known, *OTHERS):
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            found.append(f"{name} is unknown{f': did you mean {close[0]}?' if close else '.'}")
    return found


def find_trimmed_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """A sentence for each variable of the process (or of `environ`) with blanks at its ends."""
    env: Mapping[str, str] = os.environ if environ is None else environ  # noqa: TID251
    names = {variable_name(field) for field in variable_fields()} & env.keys()
    names.discard(variable_name("github_private_key"))  # the last line of a PEM ends as all do
    return [
        f"{name} begins or ends with blanks or a line break, which are not part of it."
        for name in sorted(names)
        if env[name].strip() != env[name]
    ]


def name_socks_proxies() -> None:
    """Write `socks://` in this process's proxies, as GNOME sets it, as clients know it."""
    for name, value in os.environ.items():  # noqa: TID251
        if name.lower().endswith("_proxy") and value.lower().startswith("socks://"):
            os.environ[name] = f"socks5://{value[8:]}"  # noqa: TID251


def find_missing_certificates() -> list[str]:
    """A sentence for each variable that names certificates which are not there."""
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    values = ((name, os.environ.get(name, "")) for name in names)  # noqa: TID251
    return [
        f"{name} names {value}, which is not there."
        for name, value in values
        if value and not Path(value).exists()
    ]


def git_environment() -> dict[str, str]:
    """The variables by which git, whose environment is its own, finds a proxy and private CAs."""
    # curl, which git uses, ignores HTTP_PROXY, which a web request could set.
    proxies = "HTTPS_PROXY https_proxy http_proxy ALL_PROXY all_proxy NO_PROXY no_proxy"
    named = {name: name for name in proxies.split()}
    named |= {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}
    values = {theirs: os.environ.get(ours, "") for ours, theirs in named.items()}  # noqa: TID251
    return {name: value for name, value in values.items() if value}


def variable_fields() -> list[str]:
    """The fields of `Settings` that a variable sets."""
    return [name for name in Settings.model_fields if name not in ("timings", "one_shot")]


def variable_name(field: str) -> str:
    """The environment variable of a field."""
    if field == "otlp_endpoint":
        return "OTEL_EXPORTER_OTLP_ENDPOINT"
    theirs = field.startswith(("anthropic_", "openai_"))
    return field.upper() if theirs else f"CAPUCHIN_{field.upper()}"
