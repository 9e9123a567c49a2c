"""Verifies a webhook, records the run it asks for; metrics and schema for machines."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from structlog.contextvars import bound_contextvars

from bot.data.request import (
    AccessChange,
    AnyRequest,
    CommandRequest,
    ConfigCheckRequest,
    IssueRemark,
    PullUpdate,
    QueuedKind,
    RunRequest,
    SetUpRequest,
    StartOutcome,
    StopRequest,
)
from bot.data.run import Stop, StopReason, now
from bot.queue.jobs import RunQueue, request_run
from bot.repo_config.model import SCHEMA_ROUTE, json_schema
from bot.server import metrics
from bot.server.connections import BodyReader, BodyRefused, RefusalLog
from bot.server.run_routes import RunRoutes
from bot.settings import Settings, SettingsError
from bot.storage.client import (
    REDIS_ERRORS,
    UNREACHABLE,
    Outage,
    describe_redis_error,
    explain_outage,
)
from bot.storage.storage import Storage
from bot.webhooks.decide import companion_update, read_request
from bot.webhooks.labels import BotNames
from bot.webhooks.payload import (
    MAX_BODY_BYTES,
    Delivery,
    InvalidSignature,
    MalformedPayload,
    SignatureCheck,
    check_form,
)

if TYPE_CHECKING:
    from bot.queue.position import QueueAnnouncer


logger = logging.getLogger(__name__)


async def show_schema() -> Response:
    """The JSON Schema of `.github/capuchin.yml`; editors of any site may load it."""
    return JSONResponse(
        json_schema(),
        media_type="application/schema+json",
        headers={"access-control-allow-origin": "*", "cache-control": "max-age=3600"},
    )


class NoWorkerWatch:
    """Announces that no worker lives; without the App's key it only logs it.

    Logs once that Redis is away or takes no writes, at the start too.
    """

    def __init__(self, settings: Settings, queue: RunQueue, outage: Outage) -> None:
        self._settings = settings
        self._storage = queue.storage
        self._queue = queue
        self._since = now()
        """Replaces the last heartbeat where Redis has none."""
        self._logged = False
        self._outage = outage
        self._announcer: QueueAnnouncer | None = None

    async def run(self) -> None:
        """Look every half minute, until cancelled."""
        while True:
            try:
                await self._storage.check_writes()
                self._outage.end()
                await self.look()
            except UNREACHABLE as error:
                await self._outage.wait(error)
                continue
            except Exception:  # the server goes on without this
                logger.exception("Could not say that no worker lives")
            await asyncio.sleep(min(30.0, self._settings.timings.no_worker_seconds or 0.2))

    async def look(self) -> None:
        """Announce it once on each waiting run if no worker was heard from for too long.

        Raises redis-py's errors.
        """
        last = await self._storage.workers.get_last_heartbeat()
        silent = now() - max(last or self._since, self._since)
        patience = timedelta(seconds=self._settings.timings.no_worker_seconds)
        if silent < patience or await self._storage.workers.list_living():
            self._logged = False
            return
        if not self._logged:
            self._logged = True
            logger.error(
                "No worker heartbeat for %d minutes; runs are waiting. Start `capuchin worker`.",
                silent.total_seconds() // 60,
            )
        if not await self._storage.runs.list_active():
            return
        if self._announcer is None:
            self._announcer = self._build_announcer()
        if self._announcer is not None:
            await self._announcer.announce_no_worker()

    def _build_announcer(self) -> "QueueAnnouncer | None":
        if not (self._settings.github_app_id and self._settings.github_private_key):
            return None
        # Imported late: most servers only receive webhooks.
        from bot.github.app import GitHubApp
        from bot.queue.position import QueueAnnouncer
        from bot.runs.status_comment import build_announcer

        announce = build_announcer(GitHubApp(self._settings), self._settings)
        return QueueAnnouncer(self._queue, announce)


NAMES_SECONDS: Final = 60.0
"""How long a name that GitHub has changed may be unheard."""
REDIS_SECONDS: Final = 2.0  # GitHub waits ten seconds for an answer


class WebhookHandler:
    """The routes for GitHub and for machines; its Redis client lives as long as the event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.secrets = settings.list_webhook_secrets()
        if not self.secrets:
            raise SettingsError(
                "CAPUCHIN_WEBHOOK_SECRET is not set. Set it to the secret of the App's webhook:"
                " without it, anybody could start runs."
            )
        self.storage = Storage.open(
            settings.redis_url, settings.redis_prefix, timeout=REDIS_SECONDS
        )
        self.queue = RunQueue(self.storage)
        self.outage = Outage()
        self.deliveries: Counter[int] = Counter()
        self._names = BotNames.of(settings)
        self._names_until = 0.0
        self._bodies = BodyReader(MAX_BODY_BYTES)
        self._refusals = RefusalLog()

    async def _load_names(self) -> BotNames:
        """What the bot is called: the settings, and what a worker has learnt of GitHub."""
        if time.monotonic() > self._names_until:
            self._names_until = time.monotonic() + NAMES_SECONDS
            with suppress(*REDIS_ERRORS):  # without it, by the last name that was known
                self._names = self._names.with_slug(await self.storage.get_app_slug())
        return self._names

    async def accept(self, request: AnyRequest) -> Response:
        """Record the request of the event and tell a worker. Raises `REDIS_ERRORS`."""
        if beside := companion_update(request):
            await self._queue_update(beside)
        match request:
            case RunRequest():
                asked = await request_run(request, self.queue)
                status = 200 if asked.outcome is StartOutcome.REPEATED else 202
                return JSONResponse({"run": asked.run_id, "status": asked.outcome.value}, status)
            case StopRequest():
                return await self._stop_run(request)
            case IssueRemark():
                if await self.storage.runs.get_current(request.repo, request.issue) is None:
                    return Response(status_code=204)
                return await self._queue(request)
            case CommandRequest() | ConfigCheckRequest():
                return await self._queue(request)
            case PullUpdate():
                return await self._queue_update(request)
            case AccessChange():
                return await self._change_access(request)

    async def _stop_run(self, request: StopRequest) -> Response:
        at = None if request.why is StopReason.UNLABELED else request.at
        label = request.label if request.why is StopReason.DISABLED else ""
        stop = Stop(by=request.by, why=request.why, at=at, label=label)
        run_id = await self.storage.runs.request_stop(request.repo, request.issue, stop)
        if run_id is None:
            return Response(status_code=204)
        return JSONResponse({"run": run_id, "status": "stopping"}, 202)

    async def _change_access(self, change: AccessChange) -> Response:
        """Remember where repositories are, set up new ones, stop runs where access was taken."""
        if change.kind == "accepted":
            logger.info("@%s accepted permissions for %d", change.by, change.installation)
        if change.kind != "taken" and change.repos:
            await self.storage.locations.save(*change.repos)
        if change.kind in ("given", "accepted") and change.repos:
            first, *others = change.repos
            again = change.delivery if change.kind == "accepted" else ""
            await self._queue(
                SetUpRequest(
                    repo=first,
                    others=tuple(others),
                    part="all",
                    again=again,
                    delivery=change.delivery,
                )
            )
        if change.kind == "taken":
            stop = Stop(by=change.by, why=StopReason.NO_ACCESS)
            for run in await self.storage.run_queries.list_active():
                if change.concerns(run.repo):
                    await self.storage.runs.request_stop(run.repo, run.issue, stop)
            for repo in change.repos:  # what is gone is forgotten
                delivery = f"{change.delivery}-{repo.id}"
                await self._queue_update(PullUpdate(repo=repo, target="base", delivery=delivery))
        return JSONResponse({"access": change.kind}, 202)

    async def _queue_update(self, update: PullUpdate) -> Response:
        """Keep an update for a worker only if it concerns one of our pull requests."""
        if not await self.storage.pulls.find_concerned(update):
            return Response(status_code=204)
        return await self._queue(update)

    async def _queue(self, request: QueuedKind) -> Response:
        taken = await self.queue.put(request)
        status = "taken" if taken else "repeated"
        return JSONResponse({"order": request.id, "status": status}, 202 if taken else 200)

    async def webhook(self, request: Request) -> Response:
        answer = await self._process(request)
        event = request.headers.get("x-github-event", "")[:40]
        if answer.status_code < 400:  # what is refused is counted: strangers could fill the log
            level = logging.DEBUG if answer.status_code == 204 else logging.INFO
            delivery = request.headers.get("x-github-delivery", "")[:40]
            logger.log(level, "Delivery %s of %r: %d", delivery, event, answer.status_code)
        self.deliveries[answer.status_code] += 1
        if answer.status_code >= 400:
            self._refusals.add(answer.status_code)
        return answer

    async def _process(self, request: Request) -> Response:
        try:
            signature = request.headers.get("x-hub-signature-256", "").encode("latin-1")
            check_form(signature)
            declared = request.headers.get("content-length", "0")
            check = SignatureCheck(self.secrets)
            body = await self._bodies.read(declared, request.stream(), check.add)
            check.finish(signature)
            event = request.headers.get("x-github-event", "")
            names = await self._load_names()
            delivery = Delivery(request.headers.get("x-github-delivery", ""), names)
            wanted = read_request(event, delivery, bytes(body))
            self._check_host(request.headers.get("x-github-enterprise-host", ""))
        except BodyRefused as refusal:
            return _error_response(refusal.status, str(refusal))
        except InvalidSignature:
            return _error_response(401, "X-Hub-Signature-256 is missing or wrong.")
        except ClientDisconnect:
            return _error_response(400, "The body was incomplete.")
        except MalformedPayload as error:
            return _error_response(400, str(error))
        if wanted is None:
            return Response(status_code=204)
        named = wanted.repos if isinstance(wanted, AccessChange) else (wanted.repo,)
        where = ", ".join(repo.full_name for repo in named[:5])
        with bound_contextvars(delivery=wanted.delivery, repository=where):
            try:
                first = await self.storage.requests.find_first_delivery(bytes(body), delivery.id)
                if first != delivery.id:
                    wanted = read_request(event, Delivery(first, names), bytes(body)) or wanted
                return await self.accept(wanted)
            except REDIS_ERRORS as error:
                why = describe_redis_error(error)
                logger.warning("Delivery %s refused: Redis: %s", wanted.delivery[:40], why)
                return _error_response(
                    503, "The queue does not answer. Redeliver this webhook later."
                )

    def _check_host(self, host: str) -> None:
        """Check the name that an Enterprise Server sends; github.com sends none."""
        ours = urlsplit(self.settings.github_url).hostname or ""
        if host and host.casefold() != ours.casefold():
            raise MalformedPayload(
                f"This webhook comes from {host[:100]!r}, not from the GitHub that "
                "CAPUCHIN_GITHUB_URL names."
            )

    async def check_ready(self, workers: bool = False) -> Response:
        """Whether a webhook could be accepted now; with `workers`, also whether a worker lives."""
        try:
            await self.storage.check_writes()
            living = await self.storage.workers.list_living() if workers else None
        except REDIS_ERRORS as error:
            self.outage.begin(error)
            return JSONResponse({"ready": False, "reason": f"{explain_outage(error)}."}, 503)
        self.outage.end()
        if living == []:
            return JSONResponse({"ready": False, "reason": "No worker is running."}, 503)
        return JSONResponse({"ready": True})

    async def show_metrics(self) -> Response:
        """Metrics in the text format of Prometheus: public, because they contain no names."""
        try:
            found = await self.storage.run_queries.load_totals()
            workers = await self.storage.workers.list_living()
        except REDIS_ERRORS as error:
            logger.warning("Metrics are incomplete: Redis: %s", describe_redis_error(error))
            found, workers = None, []
        text = metrics.render_metrics(found, workers, self.deliveries)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def create_app(settings: Settings) -> FastAPI:
    """The web application.

    Raises:
        SettingsError: the webhook secret is missing, or the address of Redis is invalid.
    """
    intake = WebhookHandler(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        watch = asyncio.create_task(NoWorkerWatch(settings, intake.queue, intake.outage).run())
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.wait([watch])
            await intake.storage.close()

    async def health() -> dict[str, str]:
        return {"status": "ok"}

    # A redirect from a path with a slash would go to the host that the request names.
    app = FastAPI(title="Capuchin", lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.add_route("/webhook", intake.webhook, methods=["POST"])  # FastAPI's routes take longer
    app.add_api_route("/healthz", health)
    app.add_api_route("/readyz", intake.check_ready, response_model=None)
    app.add_api_route("/metrics", intake.show_metrics, response_model=None)
    app.add_api_route(SCHEMA_ROUTE, show_schema, response_model=None)
    RunRoutes(settings, intake.storage).add_to(app)
    return app


def _error_response(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)
