"""The checks of `capuchin doctor`: does everything that Capuchin needs exist and work?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from bot.cli.doctor import github, machine, models
from bot.cli.doctor.types import CheckFailed, HealthCheck
from bot.settings import Settings
from pipeline.concurrency import gather_all
from sandbox.errors import SandboxUnavailable

TIMEOUT_SECONDS: Final = 20
MODEL_SECONDS: Final = 60
"""A model that is loaded on its first question takes its time."""

Check = Callable[[Settings], Awaitable[str]]
"""What it found. Raises CheckFailed."""


async def run_checks(settings: Settings, *, serving: bool = True) -> list[HealthCheck]:
    """Run all checks; a failing check does not stop the others.

    Each model that is set is asked for one token, which costs less than a cent. Without `serving`
    the public address is not tried: nothing answers there yet.
    """

    async def one(name: str, look: Check, seconds: float) -> HealthCheck:
        try:
            async with asyncio.timeout(seconds):
                return HealthCheck(name=name, works=True, found=await look(settings))
        except CheckFailed as error:
            return HealthCheck(name=name, works=False, found=error.found, mend=error.mend)
        except TimeoutError:
            return HealthCheck(
                name=name,
                works=False,
                found=f"no answer in {seconds:.0f} s",
                mend="Check that it is reachable.",
            )

    checks: dict[str, Check] = {
        "Python": machine.check_python,
        "git": machine.check_git,
        "environment": machine.check_environment,
        "disk": machine.check_disk,
        "Redis": machine.check_redis,
        "workers": machine.check_workers,
        "Docker": _check_docker,
        "base image": _check_base_image,
        "webhook secret": github.check_webhook_secret,
        "GitHub App": github.check_app,
        "permissions": github.check_permissions,
        "webhooks": github.check_deliveries,
        "fetching": github.check_fetching,
        "clock": github.check_clock,
    }
    if serving:
        checks["public address"] = github.check_public_url
    if settings.archive:
        checks["archive"] = machine.check_archive
    asked = {
        "model": partial(models.check_chat, field="solver_model"),
        "prices": models.check_prices,
        **_optional_models(settings),
    }
    # One after the other: loading a model's SDK would hold up the others beyond their time.
    found = await gather_all(one(name, look, TIMEOUT_SECONDS) for name, look in checks.items())
    return [
        *found,
        *await gather_all(one(name, look, MODEL_SECONDS) for name, look in asked.items()),
    ]


def _optional_models(settings: Settings) -> dict[str, Check]:
    """The checks of the models that need not be set."""
    checks: dict[str, Check] = {
        "scout_model": partial(models.check_chat, field="scout_model"),
        "embedding_model": models.check_embedder,
        "orm_model": partial(models.check_reward, field="orm_model"),
        "orm_reference": partial(models.check_reward, field="orm_reference"),
        "prm_model": models.check_process_reward,
    }
    names = {
        "scout_model": "scout",
        "embedding_model": "embedding model",
        "orm_model": "reward model",
        "orm_reference": "reference model",
        "prm_model": "process reward model",
    }
    return {names[field]: check for field, check in checks.items() if getattr(settings, field)}


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
