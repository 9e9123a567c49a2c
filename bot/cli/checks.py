"""Is everything here that Capuchin needs, and does it work? One check a line, with the mend."""

from __future__ import annotations

import asyncio
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Final

from bot.settings import Settings, SettingsError
from bot.storage.client import UNREACHABLE, open_redis
from bot.types import Frozen
from pipeline.concurrency import together
from pipeline.models.profiles import PricesInvalid, read_prices
from pipeline.models.spec import ModelSpec, parse_specs
from sandbox.base import SandboxUnavailable

SECONDS: Final = 10
OLDEST_PYTHON: Final = (3, 11)


class Check(Frozen):
    """What was looked at, and what was found."""

    name: str
    works: bool
    found: str
    mend: str = ""
    """What to do; empty where it works."""


class NotWorking(Exception):
    """What was found, and the mend."""

    def __init__(self, found: str, mend: str) -> None:
        super().__init__(found)
        self.found = found
        self.mend = mend


async def examine(settings: Settings) -> list[Check]:
    """Every check; none stops the others, and none costs money."""

    async def one(name: str, look: Callable[[Settings], Awaitable[str]]) -> Check:
        try:
            async with asyncio.timeout(SECONDS):
                return Check(name=name, works=True, found=await look(settings))
        except NotWorking as error:
            return Check(name=name, works=False, found=error.found, mend=error.mend)
        except TimeoutError:
            return Check(
                name=name, works=False, found=f"no answer in {SECONDS} s", mend="Is it reachable?"
            )

    checks = {
        "Python": _python,
        "git": _git,
        "Redis": _redis,
        "Docker": _docker,
        "base image": _base_image,
        "webhook secret": _webhook_secret,
        "GitHub App": _github_app,
        "model": _model,
    }
    return await together(one(name, look) for name, look in checks.items())


async def _python(_settings: Settings) -> str:
    if sys.version_info < OLDEST_PYTHON:
        raise NotWorking(sys.version.split()[0], "Install Python 3.11 or newer.")
    return sys.version.split()[0]


async def _git(_settings: Settings) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            "git", "--version", stdout=asyncio.subprocess.PIPE
        )
    except OSError:
        raise NotWorking("not found", "Install git.") from None
    output, _ = await process.communicate()
    return output.decode().strip().removeprefix("git version ")


async def _redis(settings: Settings) -> str:
    try:
        async with open_redis(settings.redis_url, timeout=SECONDS / 2) as redis:
            facts = await redis.info("server")
            return f"{facts['redis_version']}"
    except (*UNREACHABLE, SettingsError) as error:
        raise NotWorking(str(error), "Start Redis, or set CAPUCHIN_REDIS_URL.") from None


async def _docker(settings: Settings) -> str:
    from bot.runner.sandbox import engine_of

    engine = engine_of(settings)
    try:
        return await engine.check()
    except SandboxUnavailable as error:
        raise NotWorking(str(error), "Start Docker, or set CAPUCHIN_DOCKER_URL.") from None
    finally:
        await engine.close()


async def _base_image(settings: Settings) -> str:
    from bot.runner.sandbox import address_of
    from sandbox.docker.base_image import base_reference, image_exists

    reference = base_reference(settings.sandbox_base)

    def look() -> bool:
        address = address_of(settings)
        try:
            client = address.connect(timeout=SECONDS / 2)
            try:
                return image_exists(client, reference)
            finally:
                client.close()
        finally:
            address.close()

    try:
        there = await asyncio.to_thread(look)
    except SandboxUnavailable:
        raise NotWorking("unknown without Docker", "See Docker.") from None
    if not there:
        given = f" --root {settings.sandbox_base}" if settings.sandbox_base else ""
        mend = f"The first run makes it; or run: python -m sandbox.docker.base_image{given}"
        raise NotWorking("not made yet", mend)
    return reference


async def _webhook_secret(settings: Settings) -> str:
    if not settings.webhook_secret.get_secret_value():
        raise NotWorking("not set", "Set CAPUCHIN_WEBHOOK_SECRET to the App's webhook secret.")
    return "set"


async def _github_app(settings: Settings) -> str:
    from bot.github.app import GitHubApp
    from bot.github.errors import GitHubError

    mend = "Set CAPUCHIN_GITHUB_APP_ID and CAPUCHIN_GITHUB_PRIVATE_KEY from the App's page."
    if not settings.github_app_id:
        raise NotWorking("CAPUCHIN_GITHUB_APP_ID is not set.", mend)
    try:
        settings.private_key()
        async for repo in GitHubApp(settings).repositories():
            return f"installed on {repo.full_name}"
    except (SettingsError, GitHubError) as error:
        raise NotWorking(str(error), mend) from None
    return "known to GitHub, installed nowhere"


async def _model(settings: Settings) -> str:
    try:
        specs = parse_specs(settings.solver_model)
    except ValueError as error:
        raise NotWorking(str(error), "Set CAPUCHIN_SOLVER_MODEL.") from None
    if settings.prices_file is not None:
        try:
            await asyncio.to_thread(read_prices, settings.prices_file)
        except PricesInvalid as error:
            raise NotWorking(str(error), "Mend the file, or unset CAPUCHIN_PRICES_FILE.") from None
    for spec in specs:
        status = await asyncio.to_thread(_models_listed, spec, settings)
        if status in (401, 403):
            name = "ANTHROPIC" if spec.provider == "anthropic" else "CAPUCHIN_MODEL"
            raise NotWorking(f"{spec}: the key is refused", f"Set {name}_API_KEY.")
    return ", then ".join(map(str, specs))


def _models_listed(spec: ModelSpec, settings: Settings) -> int:
    """The HTTP status of listing the service's models, which every service offers for nothing."""
    if spec.provider == "anthropic":
        url = f"{(spec.base_url or settings.anthropic_base_url).rstrip('/')}/v1/models"
        key = settings.anthropic_api_key.get_secret_value()
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    else:
        url = f"{spec.base_url}/models"
        headers = {"Authorization": f"Bearer {settings.model_api_key.get_secret_value()}"}
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the operator's address
        with urllib.request.urlopen(request, timeout=SECONDS / 2) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NotWorking(f"{spec}: {reason}", "Is the service up, and its address right?") from None
