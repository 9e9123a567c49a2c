"""The web process: verifies a webhook, records the run it asks for, and answers in milliseconds."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import redis.exceptions
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from bot import events
from bot.events import Ignored, Malformed, NotSigned
from bot.queue.inbox import Inbox
from bot.queue.nudges import Nudges
from bot.queue.start import ask
from bot.server.dashboard import Doors
from bot.settings import Settings, SettingsError
from bot.storage.client import open_redis
from bot.storage.pulls import Records
from bot.storage.runs import Outcome, Runs
from bot.triggers.decide import Names, also, decide
from bot.triggers.requests import Halt, Inspect, Order, Start, Tend, Wish
from bot.types import Stop, StopReason

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
        self.deliveries: Counter[int] = Counter()
        self.inbox = Inbox(self._redis, self.runs.keys)
        self._records = Records(self._redis, self.runs.keys)
        self._names = Names.of(settings)

    async def accept(self, wish: Wish) -> Response:
        """Record what the event asks for, and tell a worker."""
        try:
            if beside := also(wish):
                await self._tended(beside)
            match wish:
                case Start():
                    return await self._started(wish)
                case Halt():
                    return await self._halted(wish)
                case Order() | Inspect():
                    taken = await self.inbox.put(wish)
                    status = "taken" if taken else "repeated"
                    return JSONResponse({"order": wish.id, "status": status}, 202 if taken else 200)
                case Tend():
                    return await self._tended(wish)
        except REDIS_ERRORS as error:
            logger.warning("Delivery %s refused: Redis: %s", wish.delivery, error)
            return _sentence(503, "The queue does not answer. Redeliver this webhook later.")

    async def _started(self, wish: Start) -> Response:
        asked = await ask(wish, self.runs, self.inbox)
        if asked.outcome is Outcome.CREATED:
            await self._nudge(asked.run_id)
        status = 200 if asked.outcome is Outcome.REPEATED else 202
        return JSONResponse({"run": asked.run_id, "status": asked.outcome.value}, status)

    async def _halted(self, wish: Halt) -> Response:
        at = None if wish.why is StopReason.UNLABELED else wish.at  # nothing else ends with that
        label = wish.label if wish.why is StopReason.DISABLED else ""
        stop = Stop(by=wish.by, why=wish.why, at=at, label=label)
        run_id = await self.runs.ask_stop(wish.repo, wish.issue, stop)
        if run_id is None:
            return Response(status_code=204)
        return JSONResponse({"run": run_id, "status": "stopping"}, 202)

    async def _tended(self, wish: Tend) -> Response:
        """Only what is about a pull request of ours is kept for a worker."""
        if not await self._records.meant(wish):
            return Response(status_code=204)
        taken = await self.inbox.put(wish)
        status = "taken" if taken else "repeated"
        return JSONResponse({"order": wish.id, "status": status}, 202 if taken else 200)

    async def _nudge(self, run_id: str) -> None:
        try:
            await self.nudges.send(run_id, 0)
        except REDIS_ERRORS as error:  # the run is recorded: the workers' sweep finds it
            logger.warning("Run %s was recorded but not announced: Redis: %s", run_id, error)

    async def webhook(self, request: Request) -> Response:
        """One delivery of GitHub's."""
        answer = await self._answer(request)
        self.deliveries[answer.status_code] += 1
        return answer

    async def _answer(self, request: Request) -> Response:
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
            self._check_host(request.headers.get("x-github-enterprise-host", ""))
        except TooLarge:
            return _sentence(413, "Larger than any payload that GitHub sends.")
        except NotSigned:
            return _sentence(401, "X-Hub-Signature-256 is missing or wrong.")
        except ClientDisconnect:
            return _sentence(400, "The body broke off.")
        except Malformed as error:
            return _sentence(400, str(error))
        wanted = decide(event, self._names)
        return (
            Response(status_code=204) if isinstance(wanted, Ignored) else await self.accept(wanted)
        )

    def _check_host(self, host: str) -> None:
        """An Enterprise Server says its name; github.com says none."""
        ours = urlsplit(self.settings.github_url).hostname or ""
        if host and host.casefold() != ours.casefold():
            raise Malformed(
                "This webhook is of another GitHub than CAPUCHIN_GITHUB_URL names: of "
                f"{host[:100]!r}."
            )

    async def ready(self) -> Response:
        """Whether a webhook could be accepted now."""
        try:
            await self._redis.ping()
        except REDIS_ERRORS as error:
            logger.warning("Not ready: Redis: %s", error)
            return JSONResponse({"ready": False, "reason": "Redis does not answer."}, 503)
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
        try:
            yield
        finally:
            await intake.close()

    async def health() -> dict[str, str]:
        return {"status": "ok"}

    # A redirect to the path without its slash goes to whatever host the request names.
    app = FastAPI(title="Capuchin", lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.add_api_route("/webhook", intake.webhook, methods=["POST"], response_model=None)
    app.add_api_route("/healthz", health)
    app.add_api_route("/readyz", intake.ready, response_model=None)
    Doors(settings, intake.runs, intake.deliveries).add_to(app)
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
