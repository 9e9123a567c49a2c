"""Reads the context windows of self-hosted models from their servers."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bot.settings import Settings
from pipeline.models.factory import ModelOptions
from pipeline.models.profiles import PriceTable, look_up
from pipeline.models.served_window import fetch_window, output_length
from pipeline.models.spec import ModelSpec
from sandbox.frozen import replace

logger = logging.getLogger(__name__)


class ServedWindows:
    """The windows that the operator's own servers report, by model."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._windows: dict[ModelSpec, int] = {}

    async def fetch(self, specs: Iterable[ModelSpec], prices: PriceTable) -> None:
        """Ask the servers of `specs`. Models in the price list keep the window stated there."""
        key = self._settings.model_api_key.get_secret_value()
        for spec in set(specs):
            if look_up(spec, prices).price_source != "local":
                continue
            window = await fetch_window(spec, key)
            if window is not None:
                self._windows[spec] = window
            elif spec not in self._windows:
                logger.warning(
                    "The server of %s does not state the model's window: assuming %d tokens. "
                    "Set another in CAPUCHIN_PRICES_FILE.",
                    spec,
                    prices.local.window,
                )

    def apply(self, spec: ModelSpec, options: ModelOptions) -> ModelOptions:
        """Set the window of `spec` and its longest reply in `options`, if its server reported
        them."""
        window = self._windows.get(spec)
        if window is None:
            return options
        return replace(options, window=window, max_output=output_length(window))
