"""The models of the settings as the pipeline takes them: paused, metered, throttled, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.runner.pausable import PausableModel, PausableReward
from bot.settings import Settings, SettingsError, variable
from bot.storage.draining import Steps
from pipeline.context.search.embeddings import Meaning
from pipeline.context.server_tokens import counter_of
from pipeline.context.tokens import ESTIMATE, TokenCounter
from pipeline.models.base import Model, ModelMisconfigured
from pipeline.models.batches.model import BATCH_SECONDS, Batched, Batching
from pipeline.models.batches.service import BatchService
from pipeline.models.cache_lifetime import cache_life
from pipeline.models.destinations import destinations
from pipeline.models.factory import Wanted, build_embedder, build_likelihood, build_model
from pipeline.models.likelihood import Likelihood, Reward
from pipeline.models.profiles import PricesInvalid, PriceTable, price_table, read_prices
from pipeline.models.providers.http import SDK_RETRIES
from pipeline.models.spec import ModelSpec, parse_spec, parse_specs
from pipeline.models.wrappers.adaptive import Adaptive, Window
from pipeline.models.wrappers.fallback import Fallback
from pipeline.models.wrappers.metered import Meter, Metered
from pipeline.models.wrappers.throttled import WAITS, Throttled
from pipeline.options import Options
from pipeline.selection.reward import ImplicitReward, Unusable, VerdictReward
from pipeline.solve import Models
from pipeline.store import Store

if TYPE_CHECKING:
    from pipeline.models.providers.anthropic import AnthropicModel
    from pipeline.models.providers.openai_chat import OpenAIChatModel


@dataclass(frozen=True)
class Purpose:
    """The run that models are made for."""

    meter: Meter
    steps: Steps
    options: Options
    store: Store
    """Remembers batches that were sent."""


def check_models(
    settings: Settings, roles: Sequence[str] = ("solver_model", "scout_model")
) -> None:
    """Whether a run could ask the models of these roles at all; asks nobody.

    Raises:
        SettingsError: a role is set to what is no model, Anthropic's key is missing, or the file
            of prices is none.
    """
    if settings.prices_file is not None:
        try:
            read_prices(settings.prices_file)
        except PricesInvalid as error:
            raise SettingsError(f"{variable('prices_file')}: {error}") from None
    for field in roles:
        text = str(getattr(settings, field))
        if not text and field == "scout_model":
            continue
        try:
            specs = parse_specs(text)
        except ValueError as error:
            raise SettingsError(f"{variable(field)}: {error}") from None
        if _lacks_key(settings, specs):
            raise SettingsError(
                f"ANTHROPIC_API_KEY is not set, and {variable(field)} is {text}: every run would "
                "fail. Set the key, or another model."
            )


def solver_is_set(settings: Settings) -> bool:
    """Whether there is a solver to ask; what is set, but is no model, is told when it is asked."""
    try:
        return not _lacks_key(settings, parse_specs(settings.solver_model))
    except ValueError:
        return True


def _lacks_key(settings: Settings, specs: Sequence[ModelSpec]) -> bool:
    theirs = Settings.model_fields["anthropic_base_url"].default == settings.anthropic_base_url
    missing = not settings.anthropic_api_key.get_secret_value()
    return any(spec.provider == "anthropic" for spec in specs) and theirs and missing


class ModelMaker:
    """Makes the models of one run. Runs of one process share the slots of each role."""

    def __init__(self, settings: Settings, *, waits: Sequence[float] = WAITS) -> None:
        """`waits` as `Throttled` has them."""
        self._settings = settings
        self._waits = waits
        self._slots = asyncio.Semaphore(settings.model_concurrency)
        self._window = Window(settings.scout_concurrency)

    @asynccontextmanager
    async def opened(self, purpose: Purpose) -> AsyncGenerator[Models, None]:
        """The models, paid from the purpose's meter, their connections closed after the block.

        Their prompt cache lives as long as a run with its options needs it.

        Raises:
            ModelMisconfigured: a role is set to what is no model, or the prices are none.
        """
        settings = self._settings
        async with AsyncExitStack() as stack:
            prices = await self._prices()
            solver = self._solver(stack, _specs(settings.solver_model), purpose, prices)
            scout: Model | None = None
            if settings.scout_model:
                scout = self._scout(stack, _specs(settings.scout_model)[0], purpose, prices)
            first = _specs(settings.solver_model)[0]
            counter = await self._counter(stack, first, purpose.meter)
            yield Models(
                solver=solver,
                scout=scout,
                counter=counter,
                scout_counter=await self._scout_counter(stack, purpose.meter),
                meaning=meaning_of(stack, settings, purpose.meter),
                orm=self._rewarding(stack, purpose) if settings.orm_model else None,
            )

    async def _counter(self, stack: AsyncExitStack, spec: ModelSpec, meter: Meter) -> TokenCounter:
        if spec.provider == "openai" and spec.base_url is not None:
            await meter.sends(destinations(spec.base_url))  # it is put what it counts
        key = self._settings.model_api_key.get_secret_value()
        return await stack.enter_async_context(counter_of(spec, key))

    async def _scout_counter(self, stack: AsyncExitStack, meter: Meter) -> TokenCounter:
        settings = self._settings
        if not settings.scout_model:
            return ESTIMATE
        return await self._counter(stack, _specs(settings.scout_model)[0], meter)

    @asynccontextmanager
    async def choosing(
        self, purpose: Purpose
    ) -> AsyncGenerator[tuple[Model | None, Reward | None]]:
        """The solver, where one is set, and the reward model. Raises as `opened`."""
        async with AsyncExitStack() as stack:
            solver: Model | None = None
            if solver_is_set(self._settings):
                specs = _specs(self._settings.solver_model)
                solver = self._solver(stack, specs, purpose, await self._prices())
            yield solver, self._rewarding(stack, purpose) if self._settings.orm_model else None

    def _rewarding(self, stack: AsyncExitStack, purpose: Purpose) -> Reward:
        """The reward model; one that is set to what is none is said when it is asked."""
        settings, meter, steps = self._settings, purpose.meter, purpose.steps
        try:
            policy = self._scoring(stack, settings.orm_model)
            if not settings.orm_reference:
                return PausableReward(VerdictReward(policy, meter), steps)
            reference = self._scoring(stack, settings.orm_reference)
        except ModelMisconfigured as error:
            return Unusable(error)
        return PausableReward(ImplicitReward(policy, reference, meter), steps)

    def _scoring(self, stack: AsyncExitStack, text: str) -> Likelihood:
        key = self._settings.model_api_key.get_secret_value()
        try:
            client = build_likelihood(parse_spec(text), api_key=key)
        except ValueError as error:
            raise ModelMisconfigured(str(error)) from None
        stack.push_async_callback(client.aclose)
        return client

    def _solver(
        self,
        stack: AsyncExitStack,
        specs: Sequence[ModelSpec],
        purpose: Purpose,
        prices: PriceTable,
    ) -> Model:
        wanted = Wanted(
            cache_seconds=cache_life(purpose.options),
            thinking_tokens=purpose.options.thinking_tokens,
        )
        models: list[Model] = []
        for spec in specs:
            client = self._client(stack, spec, wanted, prices)
            model = Throttled(self._paid(client, purpose), self._slots, waits=self._waits)
            models.append(self._batched(stack, client, model, purpose))
        return Fallback(models) if len(models) > 1 else models[0]

    def _scout(
        self, stack: AsyncExitStack, spec: ModelSpec, purpose: Purpose, prices: PriceTable
    ) -> Model:
        wanted = Wanted(cache_seconds=cache_life(purpose.options))
        client = self._client(stack, spec, wanted, prices, sdk_retries=0)
        return Adaptive(self._paid(client, purpose), self._window, waits=self._waits)

    def _paid(self, client: Model, purpose: Purpose) -> Model:
        return Metered(PausableModel(client, purpose.steps), purpose.meter)

    def _batched(
        self,
        stack: AsyncExitStack,
        client: AnthropicModel | OpenAIChatModel,
        model: Model,
        purpose: Purpose,
    ) -> Model:
        """`model`, with its opening questions asked in batches where that is wished and cheaper."""
        if not (purpose.options.batch and isinstance(client, BatchService) and _cheaper(client)):
            return model
        batching = Batching(client, purpose.store, brief=purpose.steps.short)
        stack.push_async_callback(batching.aclose)
        return Batched(model, Metered(batching, purpose.meter, seconds=BATCH_SECONDS))

    def _client(
        self,
        stack: AsyncExitStack,
        spec: ModelSpec,
        wanted: Wanted,
        prices: PriceTable,
        *,
        sdk_retries: int = SDK_RETRIES,
    ) -> AnthropicModel | OpenAIChatModel:
        settings = self._settings
        ours = spec.provider == "anthropic"
        key = settings.anthropic_api_key if ours else settings.model_api_key
        client = build_model(
            spec,
            api_key=key.get_secret_value(),
            base_url=settings.anthropic_base_url if ours else None,
            wanted=wanted,
            prices=prices,
            sdk_retries=sdk_retries,
        )
        stack.push_async_callback(client.aclose)
        return client

    async def _prices(self) -> PriceTable:
        path = self._settings.prices_file
        if path is None:
            return price_table()
        try:
            return await asyncio.to_thread(read_prices, path)
        except PricesInvalid as error:
            raise ModelMisconfigured(f"CAPUCHIN_PRICES_FILE: {error}") from None


def _cheaper(client: BatchService) -> bool:
    return client.profile.price.batch < 1


def meaning_of(
    stack: AsyncExitStack, settings: Settings, meter: Meter | None = None
) -> Meaning | None:
    """The embedding model of the settings, closed with `stack`; None when there is none.

    Raises:
        ModelMisconfigured: it is set to what is no embedding model.
    """
    if not settings.embedding_model:
        return None
    try:
        embedder = build_embedder(
            parse_spec(settings.embedding_model),
            api_key=settings.model_api_key.get_secret_value(),
            meter=meter,
        )
    except ValueError as error:
        raise ModelMisconfigured(f"CAPUCHIN_EMBEDDING_MODEL: {error}") from None
    stack.push_async_callback(embedder.aclose)
    return Meaning(embedder, settings.embedding_files)


def _specs(text: str) -> tuple[ModelSpec, ...]:
    try:
        return tuple(parse_specs(text))
    except ValueError as error:
        raise ModelMisconfigured(str(error)) from None
