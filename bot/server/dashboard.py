"""The routes beside the webhook: metrics, the runs' pages, the schema of the settings file."""

from __future__ import annotations

import functools
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import redis.exceptions
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from bot.repo_config.schema import SCHEMA_ROUTE, schema
from bot.server import metrics
from bot.server.auth import may_see_all, may_see_run
from bot.settings import Settings
from bot.storage import run_queries
from bot.storage.runs import Runs

if TYPE_CHECKING:
    from bot.server.pages import Pages

logger = logging.getLogger(__name__)

REDIS_ERRORS: Final = (redis.exceptions.RedisError, OSError)
_RUN_ID: Final = re.compile(r"[0-9a-f]{32}")


class Doors:
    """What these routes share."""

    def __init__(self, settings: Settings, runs: Runs, deliveries: Counter[int]) -> None:
        """`deliveries` counts the webhooks that were answered, by status."""
        self._settings = settings
        self._runs = runs
        self._deliveries = deliveries

    def add_to(self, app: FastAPI) -> None:
        """Make `app` answer them."""
        for path, door in (
            ("/metrics", self.metrics),
            ("/runs", self.list),
            ("/runs/{run_id}", self.run),
            (SCHEMA_ROUTE, self.schema),
        ):
            app.add_api_route(path, door, response_model=None)

    async def metrics(self) -> Response:
        """For Prometheus; open to all, for it names nobody."""
        try:
            found = await run_queries.totals(self._runs)
        except REDIS_ERRORS as error:
            logger.warning("Metrics without Redis: %s", error)
            found = None
        text = metrics.exposed(found, self._deliveries)
        return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)

    async def list(self, request: Request) -> Response:
        """All runs, for the operator."""
        if not may_see_all(self._settings, request):
            return self._locked()
        try:
            found = await run_queries.recent(self._runs)
        except REDIS_ERRORS as error:
            return _away(error)
        return HTMLResponse(self._pages.runs(found), headers=self._pages.headers)

    async def run(self, request: Request, run_id: str) -> Response:
        """One run, for whoever has its address from the issue, and for the operator."""
        if not may_see_run(self._settings, request, run_id):
            return self._locked()
        missing = PlainTextResponse("There is no such run (any more).", 404)
        if not _RUN_ID.fullmatch(run_id):
            return missing
        try:
            run = await self._runs.get(run_id)
            progress = await run_queries.told(self._runs, run_id)
        except REDIS_ERRORS as error:
            return _away(error)
        except ValidationError:  # a newer Capuchin's
            return missing
        if run is None:
            return missing
        return HTMLResponse(self._pages.run(run, progress), headers=self._pages.headers)

    async def schema(self) -> Response:
        """The JSON Schema of `.github/capuchin.yml`; editors of any site may load it."""
        return JSONResponse(
            schema(),
            media_type="application/schema+json",
            headers={"access-control-allow-origin": "*", "cache-control": "max-age=3600"},
        )

    @functools.cached_property
    def _pages(self) -> Pages:
        # Imported when the first page is asked for: most servers only ever hear webhooks.
        from bot.server.pages import Pages

        return Pages(self._settings)

    def _locked(self) -> Response:
        if not self._settings.dashboard_token.get_secret_value():
            said = "Closed. Set CAPUCHIN_DASHBOARD_TOKEN, or follow the link of a status comment."
            return PlainTextResponse(said, 403)
        said = "The operator's token is wanted, as Bearer token or as password."
        return PlainTextResponse(said, 401, {"www-authenticate": 'Basic realm="Capuchin"'})


def _away(error: Exception) -> Response:
    logger.warning("A page without Redis: %s", error)
    return PlainTextResponse("Redis does not answer. Try again later.", 503)
