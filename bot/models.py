"""The models of the settings as the pipeline takes them: paused, metered and throttled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

from bot.settings import Settings
from bot.steps import PausableModel, Steps
from pipeline.models.base import Model, ModelMisconfigured
from pipeline.models.build import build_model
from pipeline.models.cache_life import cache_life
from pipeline.models.metered import Meter, Metered
from pipeline.models.spec import parse_spec
from pipeline.models.throttled import Throttled
from pipeline.options import Options
from pipeline.solve import Models


class ModelMaker:
    """Makes the models of one run. Runs of one process share the slots of each role."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._slots = {
            role: asyncio.Semaphore(settings.model_concurrency) for role in ("solver", "scout")
        }

    @asynccontextmanager
    async def opened(
        self, meter: Meter, steps: Steps, options: Options
    ) -> AsyncGenerator[Models, None]:
        """The models, paid from `meter`, their connections closed at the end of the block.

        Their prompt cache lives as long as a run with `options` needs it.

        Raises:
            ModelMisconfigured: a role is set to what is no model.
        """
        settings = self._settings
        made_for = (meter, steps, cache_life(options))
        async with AsyncExitStack() as stack:
            solver = await self._made(stack, "solver", settings.solver_model, made_for)
            scout = None
            if settings.scout_model:
                scout = await self._made(stack, "scout", settings.scout_model, made_for)
            yield Models(solver=solver, scout=scout)

    async def _made(
        self,
        stack: AsyncExitStack,
        role: str,
        text: str,
        made_for: tuple[Meter, Steps, Literal[300, 3600]],
    ) -> Model:
        meter, steps, cache_seconds = made_for
        settings = self._settings
        try:
            spec = parse_spec(text)
        except ValueError as error:
            raise ModelMisconfigured(str(error)) from None
        ours = spec.provider == "anthropic"
        key = settings.anthropic_api_key if ours else settings.model_api_key
        client = build_model(
            spec,
            api_key=key.get_secret_value(),
            base_url=settings.anthropic_base_url if ours else None,
            cache_seconds=cache_seconds,
        )
        stack.push_async_callback(client.aclose)
        return Throttled(Metered(PausableModel(client, steps), meter), self._slots[role])
