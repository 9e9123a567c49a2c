"""The routes beside the webhook: metrics, the runs' pages, the schema of the settings file."""

from __future__ import annotations

import functools
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from bot.repo_config.schema import SCHEMA_ROUTE, json_schema
from bot.server import metrics
from bot.server.auth import may_see_all, may_see_run
from bot.settings import Settings
from bot.storage.client import REDIS_ERRORS
from bot.storage.storage import Storage

if TYPE_CHECKING:
    from bot.server.pages import Pages

logger = logging.getLogger(__name__)

_RUN_ID: Final = re.compile(r"[0-9a-f]{32}")


class DashboardRoutes:
    """What these routes share."""

    def __init__(self, settings: Settings, storage: Storage, deliveries: Counter[int]) -> None:
        """`deliveries` counts the webhooks that were answered, by status."""
        self._settings = settings
        self._storage = storage
        self._deliveries = deliveries

    def add_to(self, app: FastAPI) -> None:
        """Make `app` answer them."""
        for path, handler in (
            ("/metrics", self.show_metrics),
            ("/runs", self.show_runs),
            ("/runs/{run_id}", self.show_run),
            (SCHEMA_ROUTE, self.show_schema),
        ):
            app.add_api_route(path, handler, response_model=None)

    async def show_metrics(self) -> Response:
        """For Prometheus; open to all, for it names nobody."""
        try:
            found = await self._storage.run_queries.load_totals()
        except REDIS_ERRORS as error:
            logger.warning("Metrics without Redis: %s", error)
            found = None
        text = metrics.render_metrics(found, self._deliveries)
        return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)

    async def show_runs(self, request: Request) -> Response:
        """All runs, for the operator."""
        if not may_see_all(self._settings, request):
            return self._denial()
        try:
            found = await self._storage.run_queries.list_recent()
        except REDIS_ERRORS as error:
            return _unavailable(error)
        return HTMLResponse(self._pages.render_runs(found), headers=self._pages.headers)

    async def show_run(self, request: Request, run_id: str) -> Response:
        """One run, for everyone who has its address from the issue, and for the operator."""
        if not may_see_run(self._settings, request, run_id):
            return self._denial()
        missing = PlainTextResponse("There is no such run (any more).", 404)
        if not _RUN_ID.fullmatch(run_id):
            return missing
        try:
            run = await self._storage.runs.get(run_id)
            progress = await self._storage.progress.load(run_id)
        except REDIS_ERRORS as error:
            return _unavailable(error)
        except ValidationError:  # a newer Capuchin's
            return missing
        if run is None:
            return missing
        return HTMLResponse(self._pages.render_run(run, progress), headers=self._pages.headers)

    async def show_schema(self) -> Response:
        """The JSON Schema of `.github/capuchin.yml`; editors of any site may load it."""
        return JSONResponse(
            json_schema(),
            media_type="application/schema+json",
            headers={"access-control-allow-origin": "*", "cache-control": "max-age=3600"},
        )

    @functools.cached_property
    def _pages(self) -> Pages:
        # Imported when the first page is asked for: most servers only ever hear webhooks.
        from bot.server.pages import Pages

        return Pages(self._settings)

    def _denial(self) -> Response:
        if not self._settings.dashboard_token.get_secret_value():
            reason = "Closed. Set CAPUCHIN_DASHBOARD_TOKEN, or follow the link of a status comment."
            return PlainTextResponse(reason, 403)
        reason = "The operator's token is wanted, as Bearer token or as password."
        return PlainTextResponse(reason, 401, {"www-authenticate": 'Basic realm="Capuchin"'})


def _unavailable(error: Exception) -> Response:
    logger.warning("A page without Redis: %s", error)
    return PlainTextResponse("Redis does not answer. Try again later.", 503)
