"""The routes for machines beside the webhook: metrics, and the schema of the settings file."""

from __future__ import annotations

import logging
from collections import Counter

from fastapi import FastAPI
from starlette.responses import JSONResponse, PlainTextResponse, Response

from bot.repo_config.schema import SCHEMA_ROUTE, json_schema
from bot.server import metrics
from bot.storage.client import REDIS_ERRORS
from bot.storage.storage import Storage
from bot.storage.workers import Measurements

logger = logging.getLogger(__name__)


class DashboardRoutes:
    """What these routes share."""

    def __init__(self, storage: Storage, deliveries: Counter[int]) -> None:
        """`deliveries` counts the webhooks that were answered, by status."""
        self._storage = storage
        self._deliveries = deliveries

    def add_to(self, app: FastAPI) -> None:
        """Make `app` answer them."""
        for path, handler in (
            ("/metrics", self.show_metrics),
            (SCHEMA_ROUTE, self.show_schema),
        ):
            app.add_api_route(path, handler, response_model=None)

    async def show_metrics(self) -> Response:
        """For Prometheus; open to all, for it names nobody."""
        try:
            found = await self._storage.run_queries.load_totals()
            registry = self._storage.workers
            workers = await registry.list_living()
            measured = await registry.load_measurements(w.name for w in workers)
            room = metrics.Room(await registry.list_disk_use(), await registry.count_evictions())
        except REDIS_ERRORS as error:
            logger.warning("Metrics are incomplete: Redis: %s", error)
            found, workers, measured, room = None, [], Measurements([], {}), metrics.Room()
        text = metrics.render_metrics(found, workers, measured, self._deliveries, room)
        return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)

    async def show_schema(self) -> Response:
        """The JSON Schema of `.github/capuchin.yml`; editors of any site may load it."""
        return JSONResponse(
            json_schema(),
            media_type="application/schema+json",
            headers={"access-control-allow-origin": "*", "cache-control": "max-age=3600"},
        )
