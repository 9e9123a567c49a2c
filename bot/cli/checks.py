"""The checks of `capuchin doctor`: does everything that Capuchin needs exist and work?"""

from __future__ import annotations

import asyncio
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Final

from bot.errors import BotError
from bot.settings import Settings, SettingsError
from bot.storage.client import UNREACHABLE
from bot.storage.storage import Storage
from bot.types import Frozen
from pipeline.concurrency import gather_all
from pipeline.models.profiles import PricesInvalid, read_prices
from pipeline.models.spec import ModelSpec, parse_specs
from sandbox.errors import SandboxUnavailable

TIMEOUT_SECONDS: Final = 10
MIN_PYTHON: Final = (3, 11)


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


async def run_checks(settings: Settings) -> list[HealthCheck]:
    """Run all checks; a failing check does not stop the others, and no check costs money."""

    async def one(name: str, look: Callable[[Settings], Awaitable[str]]) -> HealthCheck:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return HealthCheck(name=name, works=True, found=await look(settings))
        except CheckFailed as error:
            return HealthCheck(name=name, works=False, found=error.found, mend=error.mend)
        except TimeoutError:
            return HealthCheck(
                name=name,
                works=False,
                found=f"no answer in {TIMEOUT_SECONDS} s",
                mend="Check that it is reachable.",
            )

    checks = {
        "Python": _check_python,
        "git": _check_git,
        "Redis": _check_redis,
        "Docker": _check_docker,
        "base image": _check_base_image,
        "webhook secret": _check_webhook_secret,
        "GitHub App": _check_github_app,
        "model": _check_model,
    }
    return await gather_all(one(name, look) for name, look in checks.items())


async def _check_python(_settings: Settings) -> str:
    if sys.version_info < MIN_PYTHON:
        raise CheckFailed(sys.version.split()[0], "Install Python 3.11 or newer.")
    return sys.version.split()[0]


async def _check_git(_settings: Settings) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            "git", "--version", stdout=asyncio.subprocess.PIPE
        )
    except OSError:
        raise CheckFailed("not found", "Install git.") from None
    output, _ = await process.communicate()
    return output.decode().strip().removeprefix("git version ")


async def _check_redis(settings: Settings) -> str:
    try:
        async with Storage.open(
            settings.redis_url, settings.redis_prefix, timeout=TIMEOUT_SECONDS / 2
        ) as storage:
            return await storage.get_version()
    except (*UNREACHABLE, SettingsError) as error:
        raise CheckFailed(str(error), "Start Redis, or set CAPUCHIN_REDIS_URL.") from None


async def _check_docker(settings: Settings) -> str:
    from bot.runner.sandbox import build_engine

    engine = build_engine(settings)
    try:
        return await engine.check()
    except SandboxUnavailable as error:
        raise CheckFailed(str(error), "Start Docker, or set CAPUCHIN_DOCKER_URL.") from None
    finally:
        await engine.close()


async def _check_base_image(settings: Settings) -> str:
    from bot.runner.sandbox import docker_address
    from sandbox.docker.base_image import base_reference, image_exists

    reference = base_reference(settings.sandbox_base)

    def look() -> bool:
        address = docker_address(settings)
        try:
            client = address.connect(timeout=TIMEOUT_SECONDS / 2)
            try:
                return image_exists(client, reference)
            finally:
                client.close()
        finally:
            address.close()

    try:
        there = await asyncio.to_thread(look)
    except SandboxUnavailable:
        raise CheckFailed("unknown without Docker", "Correct Docker first.") from None
    if not there:
        given = f" --root {settings.sandbox_base}" if settings.sandbox_base else ""
        mend = f"The first run builds it; or run: python -m sandbox.docker.base_image{given}"
        raise CheckFailed("not built yet", mend)
    return reference


async def _check_webhook_secret(settings: Settings) -> str:
    if not settings.webhook_secret.get_secret_value():
        raise CheckFailed("not set", "Set CAPUCHIN_WEBHOOK_SECRET to the App's webhook secret.")
    return "set"


async def _check_github_app(settings: Settings) -> str:
    from bot.github.app import GitHubApp
    from bot.github.errors import GitHubError

    mend = "Set CAPUCHIN_GITHUB_APP_ID and CAPUCHIN_GITHUB_PRIVATE_KEY from the App's page."
    if not settings.github_app_id:
        raise CheckFailed("CAPUCHIN_GITHUB_APP_ID is not set.", mend)
    try:
        settings.read_private_key()
        async for repo in GitHubApp(settings).list_repositories():
            return f"installed on {repo.full_name}"
    except (SettingsError, GitHubError) as error:
        raise CheckFailed(str(error), mend) from None
    return "known to GitHub, not installed on any repository"


async def _check_model(settings: Settings) -> str:
    try:
        specs = parse_specs(settings.solver_model)
    except ValueError as error:
        raise CheckFailed(str(error), "Set CAPUCHIN_SOLVER_MODEL.") from None
    if settings.prices_file is not None:
        try:
            await asyncio.to_thread(read_prices, settings.prices_file)
        except PricesInvalid as error:
            raise CheckFailed(
                str(error), "Correct the file, or unset CAPUCHIN_PRICES_FILE."
            ) from None
    for spec in specs:
        status = await asyncio.to_thread(_list_models, spec, settings)
        if status in (401, 403):
            name = "ANTHROPIC" if spec.provider == "anthropic" else "CAPUCHIN_MODEL"
            raise CheckFailed(f"{spec}: the service rejects the key", f"Set {name}_API_KEY.")
    return ", then ".join(map(str, specs))


def _list_models(spec: ModelSpec, settings: Settings) -> int:
    """The HTTP status of listing the service's models, which is free at every service."""
    if spec.provider == "anthropic":
        url = f"{(spec.base_url or settings.anthropic_base_url).rstrip('/')}/v1/models"
        key = settings.anthropic_api_key.get_secret_value()
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    else:
        url = f"{spec.base_url}/models"
        headers = {"Authorization": f"Bearer {settings.model_api_key.get_secret_value()}"}
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the operator's address
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS / 2) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CheckFailed(
            f"{spec}: {reason}", "Check that the service is running and its address is correct."
        ) from None
