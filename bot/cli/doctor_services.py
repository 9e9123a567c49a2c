"""What doctor checks of GitHub and of the models."""

from __future__ import annotations

import asyncio
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from bot.data.run import RepoRef, now
from bot.errors import BotError, GitHubError
from bot.git.mirrors import Remote
from bot.github.app import GitHubApp
from bot.github.credentials import build_manifest
from bot.settings import Settings, SettingsError, variable_name
from pipeline.codebase.git import GitFailed
from pipeline.models.base import (
    EmbeddingFailed,
    Message,
    ModelError,
    ModelRequest,
    ScoreUnavailable,
)
from pipeline.models.factory import build_embedder, build_likelihood, build_model, fetch_models
from pipeline.models.providers.provider_http import DOCTOR_CALL
from pipeline.models.spec import (
    ModelSpec,
    PricesInvalid,
    PriceTable,
    look_up,
    parse_spec,
    parse_specs,
    read_prices,
)
from sandbox.frozen import Frozen


class HealthCheck(Frozen):
    """One check and its result."""

    name: str
    works: bool
    found: str
    mend: str = ""
    """What to do; empty if the check passed."""


class CheckFailed(BotError):
    """What was found, and what to do."""

    def __init__(self, found: str, mend: str) -> None:
        super().__init__(found)
        self.found = found
        self.mend = mend


SET_APP: Final = "Set CAPUCHIN_GITHUB_APP_ID and CAPUCHIN_GITHUB_PRIVATE_KEY from the App's page."
DELIVERIES: Final = 20
"""Of the latest webhooks, whose answers are looked at."""
MAX_CLOCK_SECONDS: Final = 30
"""The App's key is dated back by a minute; half of that is left for what it takes."""
LEVELS: Final = ("none", "read", "write", "admin")


async def check_app(settings: Settings) -> str:
    """Whether GitHub knows the App, and where it is installed."""
    repo = await _find_repository(settings)
    if repo is None:
        return "known to GitHub, not installed on any repository"
    return f"installed on {repo.full_name}"


async def check_permissions(settings: Settings) -> str:
    """Whether the App still has the permissions and events of `app.yml`."""
    try:
        app = await _open_app(settings).load_registration()
    except (SettingsError, GitHubError) as error:
        raise CheckFailed(str(error), SET_APP) from None
    wanted = build_manifest(name="", public_url="", redirect_url="")
    lacking = [
        f"{name}: {level}"
        for name, level in wanted["default_permissions"].items()
        if LEVELS.index(app.permissions.get(name, "none")) < LEVELS.index(level)
    ]
    silent = not app.events and not settings.webhook_secret.get_secret_value()
    unheard = [] if silent else sorted(set(wanted["default_events"]) - set(app.events))
    if lacking or unheard:
        found = "; ".join(
            [*([f"permissions: {', '.join(lacking)}"] if lacking else [])]
            + ([f"events: {', '.join(unheard)}"] if unheard else [])
        )
        raise CheckFailed(f"missing {found}", "Grant them on the App's page under Permissions.")
    return f"as Capuchin needs them, for {app.slug}"


async def check_webhook_secret(settings: Settings) -> str:
    """Whether the secret is set; an App that is sent no events (`--no-webhook`) needs none."""
    if settings.webhook_secret.get_secret_value():
        return "set"
    try:
        silent = not (await _open_app(settings).load_registration()).events
    except (SettingsError, GitHubError):
        silent = False
    if silent:
        return "not needed: the App sends no webhooks, so start workers with --poll 30"
    raise CheckFailed("not set", "Set CAPUCHIN_WEBHOOK_SECRET to the App's webhook secret.")


async def check_deliveries(settings: Settings) -> str:
    """Whether the latest webhooks arrived."""
    try:
        latest = await _open_app(settings).list_deliveries(DELIVERIES)
    except (SettingsError, GitHubError) as error:
        raise CheckFailed(str(error), SET_APP) from None
    if not latest:
        return "none was sent yet"
    failed = [each for each in latest if not 200 <= each.status_code < 300]
    if latest[0] in failed:
        raise CheckFailed(
            f"{len(failed)} of the latest {len(latest)} failed; the last with {latest[0].status}"
            f" ({latest[0].status_code})",
            "Check that GitHub reaches CAPUCHIN_PUBLIC_URL/webhook, and the webhook secret.",
        )
    return f"{len(latest) - len(failed)} of the latest {len(latest)} arrived"


async def check_fetching(settings: Settings) -> str:
    """Whether git itself reaches GitHub: it does not use the same libraries as the API."""
    repo = await _find_repository(settings)
    if repo is None:
        return "no repository to try"
    async with _open_app(settings).open_repository(repo) as opened:
        remote = Remote.on_github(settings.github_url, repo.full_name, opened.get_token)
        try:
            await remote.git(None, "ls-remote", remote.url, "HEAD")
        except (BotError, GitHubError, GitFailed) as error:
            raise CheckFailed(
                f"git ls-remote: {error}", "Check the proxy and the certificates that git uses."
            ) from None
    return f"git ls-remote of {repo.full_name} works"


async def check_clock(settings: Settings) -> str:
    """Whether this machine's clock agrees with GitHub's: keys and tokens hold for minutes."""
    url = settings.github_url
    try:
        theirs = await asyncio.to_thread(_fetch_date, url)
    except (ValueError, TypeError):
        return f"not compared: {url} answers without a date"
    except OSError as error:
        raise CheckFailed(
            f"{url}: {getattr(error, 'reason', error)}", "Check the way to GitHub."
        ) from None
    apart = (now() - theirs).total_seconds()
    if abs(apart) > MAX_CLOCK_SECONDS:
        side = "ahead of" if apart > 0 else "behind"
        raise CheckFailed(
            f"{abs(apart):.0f} s {side} GitHub's",
            "Set this machine's clock, for example by NTP: GitHub refuses the App's key otherwise.",
        )
    return "agrees with GitHub's"


def _fetch_date(url: str) -> datetime:
    """Raises OSError: no answer. ValueError, TypeError: no date in it."""
    context = ssl.create_default_context() if url.startswith("https:") else None
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:  # noqa: S310
            return parsedate_to_datetime(answer.headers["Date"])
    except urllib.error.HTTPError as refused:  # it says the time all the same
        with refused:
            return parsedate_to_datetime(refused.headers["Date"])


async def check_public_url(settings: Settings) -> str:
    """Whether `serve` answers at its public address, and whether others can reach that.

    This machine can only try its own way there; that webhooks arrive shows GitHub's.
    """
    if not settings.public_url:
        return "CAPUCHIN_PUBLIC_URL is not set: status comments link to no page"
    url = f"{settings.public_url.rstrip('/')}/healthz"
    mend = "Start `capuchin serve` there, or correct CAPUCHIN_PUBLIC_URL."
    try:
        body = await asyncio.to_thread(_fetch, url)
    except (OSError, ValueError) as error:
        raise CheckFailed(f"{url}: {getattr(error, 'reason', error)}", mend) from None
    if b'"ok"' not in body:
        raise CheckFailed(f"{url} is not answered by Capuchin", mend)
    addresses = await asyncio.to_thread(_resolve, settings.public_url)
    hub = await asyncio.to_thread(_resolve, settings.github_url)
    if any(each.is_loopback for each in addresses) and not any(each.is_loopback for each in hub):
        raise CheckFailed(
            f"{url} answers, but it is this machine's own loopback: nobody else reaches it",
            "Set CAPUCHIN_PUBLIC_URL to a name that GitHub and people can reach.",
        )
    if any(each.is_private for each in addresses):
        return f"{url} answers, at a private address: nobody outside your network reaches it"
    return f"{url} answers; `webhooks` above says whether GitHub reaches it"


def _resolve(url: str) -> list[IPv4Address | IPv6Address]:
    """The addresses of the URL's host; empty where its name is not known."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]


def _fetch(url: str) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise ValueError("no address of the web")
    context = ssl.create_default_context() if url.startswith("https:") else None
    with urllib.request.urlopen(url, timeout=5, context=context) as answer:  # noqa: S310
        return bytes(answer.read(1000))


async def _find_repository(settings: Settings) -> RepoRef | None:
    if not settings.github_app_id:
        raise CheckFailed("CAPUCHIN_GITHUB_APP_ID is not set.", SET_APP)
    try:
        settings.read_private_key()
        async for repo in _open_app(settings).list_repositories():
            return repo
    except (SettingsError, GitHubError) as error:
        raise CheckFailed(str(error), SET_APP) from None
    return None


def _open_app(settings: Settings) -> GitHubApp:
    return GitHubApp(settings)


QUESTION: Final = "Reply with the word: ok"
REWARD_SYSTEM: Final = "Reply with + or -."
TOKENS: Final = 1
_MOST_NAMES: Final = 20


async def check_prices(settings: Settings) -> str:
    """The price list, and whether every model has a price."""
    table = await asyncio.to_thread(load_prices, settings)
    specs = [
        *_parse_all(settings, "solver_model"),
        *(_parse_all(settings, "scout_model") if settings.scout_model else ()),
        *_parse_generators(settings),
    ]
    priced = [look_up(spec, table) for spec in specs]
    unknown = [found.note for found in priced if found.price_source == "unknown"]
    if unknown:
        raise CheckFailed(
            " ".join(dict.fromkeys(unknown)), "Write its price into CAPUCHIN_PRICES_FILE."
        )
    return f"{len(table.models)} models, list of {table.own_date or table.date}"


def _parse_generators(settings: Settings) -> list[ModelSpec]:
    try:
        return [parse_spec(one.model) for one in settings.generators if one.model]
    except ValueError as error:
        raise CheckFailed(str(error), "Set CAPUCHIN_GENERATORS.") from None


def load_prices(settings: Settings) -> PriceTable:
    """The prices that count.

    Raises:
        CheckFailed: the operator's file is invalid.
    """
    try:
        return read_prices(settings.prices_file)
    except PricesInvalid as error:
        raise CheckFailed(str(error), "Correct the file, or unset CAPUCHIN_PRICES_FILE.") from None


async def check_chat(settings: Settings, field: str) -> str:
    """Ask each chat model of a setting for one token."""
    specs = _parse_all(settings, field)
    found: list[str] = []
    for spec in specs:
        async with _name_failure(spec, settings):
            await _ask(spec, settings)
        found.append(f"{spec}{await _describe_window(spec, settings)}")
    return ", then ".join(found)


async def _ask(spec: ModelSpec, settings: Settings) -> None:
    ours = spec.provider == "anthropic"
    key = settings.anthropic_api_key if ours else settings.model_api_key
    if ours and not key.get_secret_value():
        raise CheckFailed(f"{spec}: ANTHROPIC_API_KEY is not set", "Set ANTHROPIC_API_KEY.")
    client = build_model(
        spec,
        api_key=key.get_secret_value(),
        base_url=settings.anthropic_base_url if ours else None,
        prices=await asyncio.to_thread(load_prices, settings),
        sdk_retries=0,
    )
    try:
        messages = (Message(role="user", text=QUESTION),)
        await client.complete(
            ModelRequest(system="", messages=messages, call=DOCTOR_CALL, max_tokens=TOKENS)
        )
    finally:
        await client.aclose()


async def check_embedder(settings: Settings) -> str:
    """Ask the embedding model for one vector."""
    spec = _parse(settings, "embedding_model")
    async with _name_failure(spec, settings):
        embedder = build_embedder(spec, api_key=settings.model_api_key.get_secret_value())
        try:
            await embedder.embed([QUESTION])
        finally:
            await embedder.aclose()
    return str(spec)


async def check_reward(settings: Settings, field: str) -> str:
    """Ask a reward model for a verdict with its probability, or for that of an answer.

    The latter is what a run asks of an outcome reward model and its reference.
    """
    spec = _parse(settings, field)
    async with _name_failure(spec, settings):
        client = build_likelihood(spec, api_key=settings.model_api_key.get_secret_value())
        try:
            if settings.orm_reference and field != "prm_model":
                await client.answer(QUESTION, "ok", call=DOCTOR_CALL)
            else:
                await client.first_token(REWARD_SYSTEM, QUESTION, call=DOCTOR_CALL)
        except ScoreUnavailable as error:
            raise CheckFailed(
                f"{spec}: {error}", "Serve it with log-probabilities (`logprobs`), as vLLM does."
            ) from None
        finally:
            await client.aclose()
    return f"{spec}{await _describe_window(spec, settings)}, with log-probabilities"


async def check_process_reward(settings: Settings) -> str:
    """Ask the process reward model for a verdict; without log-probabilities it has to chat."""
    if _parse(settings, "prm_model").provider == "openai":
        try:
            return await check_reward(settings, "prm_model")
        except CheckFailed as failed:
            if not isinstance(failed.__context__, ScoreUnavailable):
                raise
    return f"{await check_chat(settings, 'prm_model')}, which writes its scores in words"


def _parse_all(settings: Settings, field: str) -> Sequence[ModelSpec]:
    try:
        return parse_specs(str(getattr(settings, field)))
    except ValueError as error:
        raise CheckFailed(str(error), f"Set {variable_name(field)}.") from None


def _parse(settings: Settings, field: str) -> ModelSpec:
    try:
        return parse_spec(str(getattr(settings, field)))
    except ValueError as error:
        raise CheckFailed(str(error), f"Set {variable_name(field)}.") from None


async def _list_models(spec: ModelSpec, settings: Settings) -> dict[str, int | None]:
    return await fetch_models(spec, settings.model_api_key.get_secret_value())


async def _describe_window(spec: ModelSpec, settings: Settings) -> str:
    window = (await _list_models(spec, settings)).get(spec.name)
    return f", window {window:,} tokens" if window else ""


@asynccontextmanager
async def _name_failure(spec: ModelSpec, settings: Settings) -> AsyncGenerator[None]:
    try:
        yield
    except (ModelError, EmbeddingFailed) as error:
        name = "ANTHROPIC_API_KEY" if spec.provider == "anthropic" else "CAPUCHIN_MODEL_API_KEY"
        mend = f"Check that the service is running, its address, the model's name and {name}."
        served = [*await _list_models(spec, settings)]
        if served and spec.name not in served:
            mend = (
                f"The server has {', '.join(served[:_MOST_NAMES])}: set one of them, or serve an "
                f"adapter by that name (vLLM: --enable-lora --lora-modules {spec.name}=FOLDER)."
            )
        raise CheckFailed(f"{spec}: {error}", mend) from None
