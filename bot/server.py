"""The web process: verifies a webhook, records the run it asks for, and answers in milliseconds."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import redis.exceptions
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from bot import events
from bot.events import Ignored, IssueLabeled, Malformed, NotSigned
from bot.queue import Nudges
from bot.redis_client import open_redis
from bot.runs import Outcome, Runs
from bot.settings import Settings, SettingsError
from bot.triggers import asks_for_run

logger = logging.getLogger(__name__)

REDIS_SECONDS: Final = 2.0  # GitHub waits ten for an answer

REDIS_ERRORS: Final = (redis.exceptions.RedisError, OSError)


class TooLarge(Exception):
    """The body is larger than any that GitHub sends."""


class Intake:
    """What the routes share; its Redis client lives as long as the app's event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.secret = settings.webhook_secret.get_secret_value()
        if not self.secret:
            raise SettingsError(
                "CAPUCHIN_WEBHOOK_SECRET is not set. Set it to the secret of the App's webhook:"
                " without it anybody could ask for runs."
            )
        self._redis = open_redis(settings.redis_url, timeout=REDIS_SECONDS)
        self.runs = Runs(self._redis, settings.redis_prefix)
        self.nudges = Nudges(self._redis, self.runs.keys)

    async def accept(self, event: IssueLabeled) -> Response:
        """Record the run that the event asks for, and tell a worker."""
        try:
            asked = await self.runs.create(
                event.repo, event.issue, asked_by=event.actor, delivery=event.delivery
            )
        except REDIS_ERRORS as error:
            logger.warning("Delivery %s refused: Redis: %s", event.delivery, error)
            return _sentence(503, "The queue does not answer. Redeliver this webhook later.")
        if asked.outcome is Outcome.CREATED:
            await self._nudge(asked.run_id)
        status = 200 if asked.outcome is Outcome.REPEATED else 202
        return JSONResponse({"run": asked.run_id, "status": asked.outcome.value}, status)

    async def _nudge(self, run_id: str) -> None:
        try:
            await self.nudges.send(run_id, 0)
        except REDIS_ERRORS as error:  # the run is recorded: the workers' sweep finds it
            logger.warning("Run %s was recorded but not announced: Redis: %s", run_id, error)

    async def webhook(self, request: Request) -> Response:
        """One delivery of GitHub's."""
        try:
            body = await _body(request)
            signature = request.headers.get("x-hub-signature-256")
            events.check_signature(
                self.secret, body, None if signature is None else signature.encode("latin-1")
            )
            event = events.parse(
                request.headers.get("x-github-event", ""),
                request.headers.get("x-github-delivery", ""),
                body,
            )
        except TooLarge:
            return _sentence(413, "Larger than any payload that GitHub sends.")
        except NotSigned:
            return _sentence(401, "X-Hub-Signature-256 is missing or wrong.")
        except ClientDisconnect:
            return _sentence(400, "The body broke off.")
        except Malformed as error:
            return _sentence(400, str(error))
        wanted = asks_for_run(event, label=self.settings.label)
        return (
            Response(status_code=204) if isinstance(wanted, Ignored) else await self.accept(wanted)
        )

    async def ready(self) -> Response:
        """Whether a webhook could be accepted now."""
        try:
            await self._redis.ping()
        except REDIS_ERRORS as error:
            return JSONResponse({"ready": False, "reason": f"Redis: {error}"}, 503)
        return JSONResponse({"ready": True})

    async def close(self) -> None:
        await self._redis.aclose()


def create_app(settings: Settings) -> FastAPI:
    """The web application.

    Raises:
        SettingsError: there is no webhook secret, or Redis' address is none.
    """
    intake = Intake(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        yield
        await intake.close()

    async def health() -> dict[str, str]:
        return {"status": "ok"}

    app = FastAPI(title="Capuchin", lifespan=lifespan, openapi_url=None)
    app.add_api_route("/webhook", intake.webhook, methods=["POST"], response_model=None)
    app.add_api_route("/healthz", health)
    app.add_api_route("/readyz", intake.ready, response_model=None)
    return app


async def _body(request: Request) -> bytes:
    declared = request.headers.get("content-length", "0")
    if len(declared) > 12 or not declared.isdecimal() or int(declared) > events.LARGEST_BYTES:
        raise TooLarge
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > events.LARGEST_BYTES:
            raise TooLarge
    return bytes(body)


def _sentence(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)
