"""Who may see a run's page; what each route answers, also live."""

import asyncio
import base64
import binascii
import functools
import hmac
import json
import logging
import re
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from bot.data.run import Run, RunId
from bot.server.connections import STREAM_SUFFIX
from bot.settings import Settings
from bot.storage.client import REDIS_ERRORS, describe_redis_error
from bot.storage.storage import Storage
from pipeline.run_errors import UnreadableRecord

if TYPE_CHECKING:
    from bot.archive import ObjectStore
    from bot.server.pages import Pages


def may_see_all(settings: Settings, request: Request) -> bool:
    """Whether the token came as `Authorization: Bearer`, or as the password of `Basic`; False if
    none is set."""
    wanted = settings.dashboard_token.get_secret_value()
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        given = _parse_password(given)
    elif scheme.lower() != "bearer":
        return False
    return bool(wanted) and _is_same(given.strip(), wanted)


def may_see_run(settings: Settings, request: Request, run_id: RunId) -> bool:
    """As `may_see_all`, or the address has the run's key, which its issue shows."""
    wanted = settings.page_key(run_id)
    given = request.query_params.get("key", "")
    return (bool(wanted) and _is_same(given, wanted)) or may_see_all(settings, request)


def _parse_password(credentials: str) -> str:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]


def _is_same(given: str, wanted: str) -> bool:
    """In constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())


def _format(name: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.splitlines()) or "data:\n"
    return f"event: {name}\n{lines}\n"


logger = logging.getLogger(__name__)

_BUSY: Final = {"retry-after": "10"}
_MOST_KEPT: Final = 20_000_000
"""Characters of all pages that are kept."""


class RunRoutes:
    def __init__(self, settings: Settings, storage: Storage) -> None:
        self._settings = settings
        self._storage = storage
        self._packing = asyncio.Lock()
        self._rendering = asyncio.Semaphore(2)
        self._kept: dict[tuple[str, bool], str] = {}
        """Pages of ended runs, by their records; the latest asked for."""
        self._streams = 0

    def add_to(self, app: FastAPI) -> None:
        for path, handler in (
            ("/", self.show_start),
            ("/runs", self.show_runs),
            ("/api/runs", self.send_runs),
            ("/schema/runs.json", self.send_schema),
            ("/runs/live.js", self.show_script),
            ("/runs/{run_id}", self.show_run),
            ("/runs/{run_id}" + STREAM_SUFFIX, self.stream_run),
            ("/runs/{run_id}/run.tar.zst", self.download_bundle),
        ):
            app.add_api_route(path, handler, response_model=None)

    async def show_start(self) -> Response:
        # Relative: the host that the request names is not trusted.
        return RedirectResponse("runs")

    async def show_runs(self, request: Request) -> Response:
        if not may_see_all(self._settings, request):
            return self._denial()
        try:
            page = await self._pages.render_runs(self._storage, request.query_params)
        except REDIS_ERRORS as error:
            return _unavailable(error)
        return HTMLResponse(page, headers=self._pages.list_headers)

    async def send_runs(self, request: Request) -> Response:
        from bot.server.run_api import to_rows
        from bot.server.run_list import RunFilter, list_runs
        from bot.storage.history import MAX_LISTED

        if not may_see_all(self._settings, request):
            return self._denial()
        wanted = RunFilter.parse(request.query_params)
        try:
            runs = await self._storage.run_queries.list_recent()
        except REDIS_ERRORS as error:
            return _unavailable(error)
        rows = to_rows(list_runs(runs, wanted, most=MAX_LISTED), wanted.page)
        headers = {"cache-control": "no-store"}
        return Response(rows.model_dump_json(), media_type="application/json", headers=headers)

    async def send_schema(self) -> Response:
        from bot.server.run_api import RunRows

        text = json.dumps(RunRows.model_json_schema(mode="serialization"))
        return Response(text, media_type="application/schema+json")

    async def show_run(self, request: Request, run_id: RunId) -> Response:
        found = await self._find_run(request, run_id)
        if isinstance(found, Response):
            return found
        is_operator = may_see_all(self._settings, request)
        kept = (found.model_dump_json(), is_operator)
        page = self._kept.pop(kept, "")
        if not page:
            if self._rendering.locked():  # leave room for webhooks
                return PlainTextResponse("Other pages are being made. Try again.", 503, _BUSY)
            key = request.query_params.get("key", "")
            try:
                async with self._rendering:
                    page = await self._pages.render_run(
                        self._storage, found, key, is_operator=is_operator
                    )
            except REDIS_ERRORS as error:
                return _unavailable(error)
        if found.status.final:
            self._keep(kept, page)
        return HTMLResponse(page, headers=self._pages.run_headers)

    def _keep(self, kept: tuple[str, bool], page: str) -> None:
        self._kept[kept] = page
        while sum(map(len, self._kept.values())) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    async def stream_run(self, request: Request, run_id: RunId) -> Response:
        """What changes on the page of a run that works, as server-sent events."""
        found = await self._find_run(request, run_id)
        if isinstance(found, Response):
            return found
        if self._streams >= 64:  # leave room for webhooks
            return PlainTextResponse("Too many pages are open. Reload this one.", 503, _BUSY)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        events = self._stream(request, run_id)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _stream(self, request: Request, run_id: RunId) -> AsyncGenerator[str]:
        """Send `update` when the live part of the page changes, and `end` when the run ends."""
        shown, sent_at = "", time.monotonic()
        ends_at = sent_at + 600  # then the browser opens the next stream by itself
        self._streams += 1
        try:
            while time.monotonic() < ends_at and not await request.is_disconnected():
                event = ""
                try:
                    run = await self._storage.runs.get(run_id)
                    if run is None or run.status.final:
                        yield _format("end", "")
                        return
                    text = await self._pages.render_live(self._storage, run)
                    if text != shown:
                        event, shown = _format("update", text), text
                except (*REDIS_ERRORS, UnreadableRecord):  # try again in the next round
                    pass
                if not event and time.monotonic() - sent_at >= 15:
                    event = ": still here\n\n"  # proxies close a silent stream
                if event:
                    sent_at = time.monotonic()
                    yield event
                await asyncio.sleep(2)
        finally:
            self._streams -= 1

    async def download_bundle(self, request: Request, run_id: RunId) -> Response:
        from bot.archive import NAME, ArchiveUnavailable, BundleTooLarge, load_bundle

        found = await self._find_run(request, run_id)
        if isinstance(found, Response):
            return found
        if not found.status.final:
            return PlainTextResponse(
                "The run is still active; its bundle follows when it ends.", 404
            )
        if self._packing.locked():
            return PlainTextResponse("Another bundle is being packed. Try again later.", 503, _BUSY)
        try:
            async with self._packing:
                data = await load_bundle(self._storage, self._archive, found)
        except ArchiveUnavailable as error:
            logger.warning("A bundle could not be read: %s", error)
            return PlainTextResponse("The archive does not answer. Try again later.", 503, _BUSY)
        except BundleTooLarge:
            return PlainTextResponse("The documents of this run are too large to download.", 413)
        except (*REDIS_ERRORS, TimeoutError) as error:
            return _unavailable(error)
        if data is None:
            return PlainTextResponse("The documents of this run have expired.", 404)
        headers = {
            "content-disposition": f'attachment; filename="capuchin-{run_id[:8]}.{NAME}"',
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }
        return Response(data, media_type="application/zstd", headers=headers)

    async def show_script(self) -> Response:
        """The script that keeps a page up to date; it is the same for all."""
        from bot.server.pages import TEMPLATES

        text = await asyncio.to_thread((TEMPLATES / "live.js").read_text, "utf-8")
        headers = {"x-content-type-options": "nosniff", "cache-control": "max-age=300"}
        return Response(text, media_type="text/javascript", headers=headers)

    async def _find_run(self, request: Request, run_id: RunId) -> Run | Response:
        """The run, or the response that says why it cannot be shown."""
        if not may_see_run(self._settings, request, run_id):
            return self._denial()
        missing = PlainTextResponse("This run does not exist or has expired.", 404)
        if not re.fullmatch(r"[0-9a-f]{32}", run_id):
            return missing
        try:
            return await self._storage.runs.get(run_id) or missing
        except REDIS_ERRORS as error:
            return _unavailable(error)
        except UnreadableRecord:  # the sweep logs and ends it
            return missing

    # Imported late: most servers only receive webhooks.

    @functools.cached_property
    def _pages(self) -> "Pages":
        from bot.server.pages import Pages

        return Pages(self._settings)

    @functools.cached_property
    def _archive(self) -> "ObjectStore | None":
        from bot.archive import ObjectStore

        return ObjectStore(self._settings.archive) if self._settings.archive else None

    def _denial(self) -> Response:
        if not self._settings.dashboard_token.get_secret_value():
            reason = "Closed. Set CAPUCHIN_DASHBOARD_TOKEN, or follow the link of a status comment."
            return PlainTextResponse(reason, 403)
        reason = "Send the operator's token as a Bearer token or as the password."
        return PlainTextResponse(reason, 401, {"www-authenticate": 'Basic realm="Capuchin"'})


def _unavailable(error: Exception) -> Response:
    logger.warning("A page could not be shown: Redis: %s", describe_redis_error(error))
    return PlainTextResponse("Redis does not answer. Try again later.", 503)
