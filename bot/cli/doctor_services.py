"""The checks of `capuchin doctor` on GitHub and on the models."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx

from bot.data.run import RepoRef, now
from bot.errors import BotError, GitHubError
from bot.git.mirrors import Remote
from bot.github.app import GitHubApp
from bot.github.credentials import describe_missing
from bot.settings import Settings, SettingsError, variable_name
from pipeline.codebase.git import GitFailed
from pipeline.models.base import (
    ContextTooLong,
    Message,
    ModelError,
    ModelMisconfigured,
    ModelOverloaded,
    ModelRequest,
    ModelRetired,
    NoCredit,
    ScoreUnavailable,
    WindowTooSmall,
    WrongAddress,
    WrongKey,
    with_words,
)
from pipeline.models.factory import build_likelihood, build_model, fetch_models, fetch_window
from pipeline.models.providers.provider_http import DOCTOR_CALL
from pipeline.models.spec import (
    ModelSpec,
    PricesInvalid,
    PriceTable,
    look_up,
    parse_spec,
    parse_specs,
)
from sandbox.connection_errors import connection_cause, is_nobody_there
from sandbox.frozen import Frozen


class HealthCheck(Frozen):
    name: str
    works: bool
    found: str
    mend: str = ""
    skipped: bool = False
    """Whether it says nothing, because another one that it needs has failed."""


class CheckFailed(BotError):
    """Something does not work: what was found, and what to do."""

    def __init__(self, found: str, mend: str) -> None:
        super().__init__(found)
        self.found = found
        self.mend = mend


@contextmanager
def _name_failure(mend: str, *errors: type[Exception], name: str = "") -> Generator[None]:
    """Raise CheckFailed with `mend` for one of `errors`."""
    try:
        yield
    except errors as error:
        raise CheckFailed(f"{name}: {error}" if name else str(error), mend) from error


def _github_failures() -> AbstractContextManager[None]:
    """Raise CheckFailed if the App's settings are wrong or GitHub rejects the App."""
    mend = "Set CAPUCHIN_GITHUB_APP_ID and CAPUCHIN_GITHUB_PRIVATE_KEY from the App's page."
    return _name_failure(mend, SettingsError, GitHubError)


async def check_app(settings: Settings) -> str:
    repo = await _find_repository(settings)
    if repo is None:
        return "known to GitHub, not installed on any repository"
    return f"installed on {repo.full_name}"


async def check_permissions(settings: Settings) -> str:
    github = GitHubApp(settings)
    with _github_failures():
        app = await github.load_registration()
        incomplete = await github.find_incomplete()
    silent = not app.events and not settings.webhook_secret.get_secret_value()
    if missing := describe_missing(app, silent=silent):
        raise CheckFailed(
            f"missing {missing}",
            "Grant them on the App's page under Permissions; then each owner accepts them.",
        )
    if incomplete:
        raise CheckFailed("; ".join(incomplete), "Ask the owners to accept what the App asks for.")
    return f"as Capuchin needs them, for {app.slug} and every installation"


async def check_webhook_secret(settings: Settings) -> str:
    """Whether the secret is set; an App without events (`setup --no-webhook`) needs none."""
    if settings.webhook_secret.get_secret_value():
        return "set"
    try:
        silent = not (await GitHubApp(settings).load_registration()).events
    except (SettingsError, GitHubError):
        silent = False
    if silent:
        return "not needed: the App sends no webhooks, so start workers with --poll 30"
    raise CheckFailed("not set", "Set CAPUCHIN_WEBHOOK_SECRET to the App's webhook secret.")


async def check_deliveries(settings: Settings) -> str:
    with _github_failures():
        latest = await GitHubApp(settings).list_deliveries(20)
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
    """Whether git reaches GitHub: it uses other libraries than the API's client."""
    repo = await _find_repository(settings)
    if repo is None:
        return "no repository to try"
    async with GitHubApp(settings).open_repository(repo) as opened:
        remote = Remote.on_github(settings.github_url, repo.full_name, opened.get_token)
        mend = "Check the proxy and the certificates that git uses."
        with _name_failure(mend, BotError, GitFailed, name="git ls-remote"):
            await remote.git(None, "ls-remote", remote.url, "HEAD")
    return f"git ls-remote of {repo.full_name} works"


async def check_clock(settings: Settings) -> str:
    """Whether this machine's clock agrees with GitHub's: tokens are valid for minutes."""
    url = settings.github_url
    with _name_failure(
        "Check the connection to GitHub.", httpx.HTTPError, httpx.InvalidURL, name=url
    ):
        answer = await _fetch(url)
    try:
        theirs = parsedate_to_datetime(answer.headers.get("Date", ""))
    except ValueError:
        return f"not compared: {url} sent no date"
    apart = (now() - theirs).total_seconds()
    if abs(apart) > 30:  # JWTs are backdated by a minute; half of it is left for the call
        side = "ahead of" if apart > 0 else "behind"
        raise CheckFailed(
            f"{abs(apart):.0f} s {side} GitHub's",
            "Set this machine's clock, for example by NTP: GitHub refuses the App's key otherwise.",
        )
    return "agrees with GitHub's"


async def check_public_url(settings: Settings) -> str:
    """Whether `serve` answers at its public address, and whether others can reach that.

    This machine can only try its own connection; arriving webhooks show GitHub's.
    """
    if not settings.public_url:
        return "CAPUCHIN_PUBLIC_URL is not set: status comments do not link to pages"
    url = f"{settings.public_url.rstrip('/')}/healthz"
    mend = "Start `capuchin serve` there, or correct CAPUCHIN_PUBLIC_URL."
    why = "a proxy says so"
    with _name_failure(mend, httpx.HTTPError, httpx.InvalidURL, name=url):
        try:
            answer = await _fetch(url)
        except httpx.ConnectError as error:
            if not is_nobody_there(error):
                raise
            answer, why = httpx.Response(503), connection_cause(error)
    if answer.status_code in (502, 503, 504):  # before the first start, as in `doctor && serve`
        return f"nothing answers at {url} yet ({why}): {mend[0].lower()}{mend[1:-1]}"
    if not answer.is_success or '"ok"' not in answer.text:
        raise CheckFailed(f"another program answers at {url}", mend)
    addresses = await asyncio.to_thread(_resolve, settings.public_url)
    hub = await asyncio.to_thread(_resolve, settings.github_url)
    if any(each.is_loopback for each in addresses) and not any(each.is_loopback for each in hub):
        raise CheckFailed(
            f"{url} answers, but is a loopback address: nobody else can reach it",
            "Set CAPUCHIN_PUBLIC_URL to a name that GitHub and people can reach.",
        )
    if any(each.is_private for each in addresses):
        return f"{url} answers, but is a private address: nobody outside your network can reach it"
    return f"{url} answers; `webhooks` above says whether GitHub reaches it"


def _resolve(url: str) -> list[IPv4Address | IPv6Address]:
    """The addresses of the URL's host; empty if its name is unknown."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]


async def _fetch(url: str) -> httpx.Response:
    """Raises httpx.HTTPError, httpx.InvalidURL."""
    async with httpx.AsyncClient(timeout=5, follow_redirects=True) as client:
        return await client.get(url)


async def _find_repository(settings: Settings) -> RepoRef | None:
    with _github_failures():
        if not settings.github_app_id:
            raise SettingsError("CAPUCHIN_GITHUB_APP_ID is not set.")
        settings.read_private_key()
        async for repo in GitHubApp(settings).list_repositories():
            return repo
    return None


QUESTION: Final = "Reply with the word: ok"
LONG_QUESTION: Final = "word " * 9000 + QUESTION
"""Longer than a window that cannot hold a file; Ollama's is 4,096 tokens if nobody sets it."""
T = TypeVar("T")


async def check_prices(settings: Settings) -> str:
    """The price list, and whether every model has a price."""
    table = await asyncio.to_thread(load_prices, settings)
    specs = [
        *_parse(settings, "solver_model", parse_specs),
        *(_parse(settings, "scout_model", parse_specs) if settings.scout_model else ()),
    ]
    with _name_failure("Set CAPUCHIN_GENERATORS.", ValueError):
        specs += [parse_spec(name) for one in settings.generators for name in one.named]
    priced = [look_up(spec, table) for spec in specs]
    unknown = [found.note for found in priced if found.price_source == "unknown"]
    if unknown:
        raise CheckFailed(
            " ".join(dict.fromkeys(unknown)), "Write its price into CAPUCHIN_PRICES_FILE."
        )
    return f"{len(table.models)} models, list of {table.own_date or table.date}"


def load_prices(settings: Settings) -> PriceTable:
    """The prices in force. Raises CheckFailed: the operator's file is invalid."""
    with _name_failure("Correct the file, or unset CAPUCHIN_PRICES_FILE.", PricesInvalid):
        return settings.read_prices()


async def check_chat(settings: Settings, field: str) -> str:
    """Ask each chat model of a setting for one token.

    A server of one's own that does not tell its window is asked a long question.
    """
    found: list[str] = []
    prices = await asyncio.to_thread(load_prices, settings)
    for spec in _parse(settings, field, parse_specs):
        window = await _describe_window(spec, settings)
        is_local = look_up(spec, prices).price_source == "local"
        async with _model_failures(spec, settings):
            await ask_chat(spec, settings, LONG_QUESTION if is_local and not window else QUESTION)
        found.append(f"{spec}{window}")
    return ", then ".join(found)


async def ask_first(settings: Settings, field: str) -> None:
    """Ask the chat models of a setting for one token, until one can be asked: a wrong key, name or
    address, or an empty account, is known before anything is installed.

    Raises:
        ModelMisconfigured, ModelUnreachable: none can be used.
    """
    failure: ModelError | None = None
    for spec in _parse(settings, field, parse_specs):
        try:
            await ask_chat(spec, settings)
        except ModelError as error:
            if isinstance(error, ModelMisconfigured) or is_nobody_there(error):
                failure = error
                continue
        return  # it can be asked, or is busy or slow: a run waits for it
    if failure is not None:
        raise failure


async def ask_chat(spec: ModelSpec, settings: Settings, question: str = QUESTION) -> None:
    """Ask a chat model for one token. Raises ModelError, CheckFailed."""
    variable, key = settings.find_key(spec)
    if settings.lacks_key(spec):
        raise CheckFailed(f"{spec}: {variable} is not set", f"Set {variable}.")
    client = build_model(
        spec,
        api_key=key,
        base_url=settings.anthropic_base_url,
        prices=await asyncio.to_thread(load_prices, settings),
        sdk_retries=0,
    )
    try:
        messages = (Message(role="user", text=question),)
        await client.complete(
            ModelRequest(system="", messages=messages, call=DOCTOR_CALL, max_tokens=1)
        )
    finally:
        await client.aclose()


async def check_reward(settings: Settings, field: str) -> str:
    """Ask a reward model what a run asks: a verdict or, with the model that it was trained from,
    an answer's likelihood of both."""
    specs = _parse(settings, field, parse_specs)
    return "; ".join([await _ask_reward(settings, one, len(specs) > 1) for one in specs])


async def _ask_reward(settings: Settings, spec: ModelSpec, of_two: bool) -> str:
    async with _model_failures(spec, settings):
        client = build_likelihood(spec, api_key=settings.find_key(spec).key)
        try:
            if of_two:
                await client.answer(QUESTION, "ok", call=DOCTOR_CALL)
            else:
                await client.first_token("Reply with + or -.", QUESTION, call=DOCTOR_CALL)
        except ScoreUnavailable as error:
            raise CheckFailed(
                f"{spec}: {error}", "Serve it with log-probabilities (`logprobs`), as vLLM does."
            ) from None
        finally:
            await client.aclose()
    return f"{spec}{await _describe_window(spec, settings)}, with log-probabilities"


async def check_process_reward(settings: Settings) -> str:
    """Ask the process reward model for a verdict; without log-probabilities, ask it to chat."""
    if _parse(settings, "prm_model", parse_spec).provider == "openai":
        try:
            return await check_reward(settings, "prm_model")
        except CheckFailed as failed:
            if not isinstance(failed.__context__, ScoreUnavailable):
                raise
    return f"{await check_chat(settings, 'prm_model')}, which writes its scores in words"


def _parse(settings: Settings, field: str, parse: Callable[[str], T]) -> T:
    with _name_failure(f"Set {variable_name(field)}.", ValueError):
        return parse(str(getattr(settings, field)))


async def _describe_window(spec: ModelSpec, settings: Settings) -> str:
    window = await fetch_window(spec, settings.find_key(spec).key)
    return f", window {window:,} tokens" if window else ""


@asynccontextmanager
async def _model_failures(spec: ModelSpec, settings: Settings) -> AsyncGenerator[None]:
    try:
        yield
    except ModelError as error:
        name, key = settings.find_key(spec)
        mend = f"Check that the service is running, its address, the model's name and {name}."
        mend = next((advice for kind, advice in _MENDS.items() if isinstance(error, kind)), mend)
        served = [*await fetch_models(spec, key)]
        if served and spec.name not in served:
            mend = (
                f"The server has {', '.join(served[:20])}: set one of them, or serve an "
                f"adapter by that name (vLLM: --enable-lora --lora-modules {spec.name}=FOLDER)."
            )
        raise CheckFailed(f"{spec}: {with_words(error)}", mend.replace("{key}", name)) from None


_SMALL_WINDOW: Final = (
    "Serve it with a window of at least 32,768 tokens: Ollama by OLLAMA_CONTEXT_LENGTH or num_ctx, "
    "llama.cpp by --ctx-size."
)
_MENDS: Final[dict[type[Exception], str]] = {
    NoCredit: "Pay into the account of this key, or set another model.",
    WrongKey: "Set {key} to a key that may use this model.",
    ModelRetired: "Check the model's name, and the address.",
    WrongAddress: "Correct the address, or the proxy between.",
    WindowTooSmall: _SMALL_WINDOW,
    ContextTooLong: _SMALL_WINDOW,
    ModelOverloaded: "Wait, or name a second model after a comma.",
}
"""What to do about errors that say what is wrong, the most special first."""
