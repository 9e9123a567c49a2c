"""Builds the models that the settings name, in the order of their wrappers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.runner.model_wrappers import PausableModel, RewardBuilder, find_judges
from bot.settings import Settings, SettingsError, find_unknown_variables, variable_name
from bot.storage.workers import InFlightWork
from pipeline.context.retrieval.embeddings import EmbeddingRanker
from pipeline.context.tokens import ESTIMATOR, TokenCounter, open_counter
from pipeline.data.options import Options
from pipeline.models.base import Model, ModelMisconfigured, Reward, cache_lifetime
from pipeline.models.batches import BATCH_SECONDS, BatchedOpenings, BatchModel, BatchService
from pipeline.models.factory import (
    ModelOptions,
    build_embedder,
    build_model,
    fetch_window,
    output_length,
)
from pipeline.models.metering import Meter, MeteredModel
from pipeline.models.providers.provider_http import SDK_RETRIES
from pipeline.models.spec import (
    ModelSpec,
    PricesInvalid,
    PriceTable,
    destinations,
    look_up,
    parse_spec,
    parse_specs,
    read_prices,
)
from pipeline.models.wrappers import (
    RETRY_WAITS,
    AdaptiveModel,
    ConcurrencyWindow,
    FallbackModel,
    ThrottledModel,
)
from pipeline.store import Store
from pipeline.workflows.outcome import Models
from sandbox.frozen import replace

if TYPE_CHECKING:
    from pipeline.models.providers.anthropic import AnthropicModel
    from pipeline.models.providers.openai_chat import OpenAIChatModel


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


def check_generators(settings: Settings) -> None:
    """Raises `SettingsError` where a generator names no model, or its key is missing."""
    for text in (one.model for one in settings.generators if one.model):
        try:
            spec = parse_spec(text)
        except ValueError as error:
            raise SettingsError(f"CAPUCHIN_GENERATORS: {error}") from None
        if lacks_key(settings, [spec]):
            raise SettingsError(
                f"ANTHROPIC_API_KEY is not set, and CAPUCHIN_GENERATORS names {text}: every run "
                "would fail. Set the key, or another model."
            )


def find_solvers(settings: Settings, options: Options) -> dict[str, ModelSpec]:
    """The models that the generators of `options` name, by those names.

    A repository's file can name only models of the operator: an address in it would get the
    operator's key and the code.

    Raises:
        ModelMisconfigured: a name is not among them, or the operator's setting names no model.
    """
    texts = [one.model for one in settings.generators if one.model]
    known = [s for text in (settings.solver_model, *texts) for s in parse_solvers(text)]
    offered = {text: parse_spec(text) for text in texts}
    offered |= {spec.name: spec for spec in reversed(known)}
    named = [one.model for one in options.generators if one.model]
    for name in named:
        if name not in offered:
            names = ", ".join(sorted({spec.name for spec in known}))
            raise ModelMisconfigured(
                f"`generators` names the model {name!r}, which CAPUCHIN_SOLVER_MODEL and "
                f"CAPUCHIN_GENERATORS do not offer. They offer {names}."
            )
    return {name: offered[name] for name in named}


def lacks_key(settings: Settings, specs: Sequence[ModelSpec]) -> bool:
    """Whether one of `specs` is Anthropic's own, and its key is not set."""
    theirs = Settings.model_fields["anthropic_base_url"].default == settings.anthropic_base_url
    missing = not settings.anthropic_api_key.get_secret_value()
    return any(spec.provider == "anthropic" for spec in specs) and theirs and missing


def parse_solvers(text: str) -> tuple[ModelSpec, ...]:
    """Raises `ModelMisconfigured` where `text` is no list of models."""
    try:
        return tuple(parse_specs(text))
    except ValueError as error:
        raise ModelMisconfigured(str(error)) from None


@dataclass(frozen=True)
class ModelContext:
    """What the models of one run need to know about it."""

    meter: Meter
    in_flight: InFlightWork
    options: Options
    store: Store
    """Keeps the batches that were sent."""


def check_models(
    settings: Settings, roles: Sequence[str] = ("solver_model", "scout_model")
) -> None:
    """Check the settings of these roles, without a call to a model.

    Raises:
        SettingsError: a role's setting is no model, Anthropic's key is missing, or the file of
            prices is invalid.
    """
    try:
        read_prices(settings.prices_file)
    except PricesInvalid as error:
        raise SettingsError(f"{variable_name('prices_file')}: {error}") from None
    for field in roles:
        text = str(getattr(settings, field))
        if not text and field == "scout_model":
            continue
        try:
            specs = parse_specs(text)
        except ValueError as error:
            raise SettingsError(f"{variable_name(field)}: {error}") from None
        if lacks_key(settings, specs):
            raise SettingsError(
                f"ANTHROPIC_API_KEY is not set, and {variable_name(field)} is {text}: every run "
                "would fail. Set the key, or another model."
            )
    check_generators(settings)


def warn_of_settings(settings: Settings) -> None:
    """Log variables that have no effect, and models that are counted at a price we assume."""
    for sentence in find_unknown_variables():
        logger.warning("%s", sentence)
    table = read_prices(settings.prices_file)
    for text in filter(None, (settings.solver_model, settings.scout_model)):
        for spec in parse_specs(text):
            found = look_up(spec, table)
            if found.price_source == "unknown":
                logger.warning("%s Write its price into CAPUCHIN_PRICES_FILE.", found.note)


def is_solver_set(settings: Settings) -> bool:
    """Whether a solver is set. A setting that is no model counts; its first call reports it."""
    try:
        return not lacks_key(settings, parse_specs(settings.solver_model))
    except ValueError:
        return True


class ModelFactory:
    """Builds the models of runs. The runs of one process share the slots of each role."""

    def __init__(self, settings: Settings, *, waits: Sequence[float] = RETRY_WAITS) -> None:
        """`waits`: seconds before each further attempt at a call that failed."""
        self._settings = settings
        self._waits = waits
        self._slots = asyncio.Semaphore(settings.model_concurrency)
        self._window = ConcurrencyWindow(settings.scout_concurrency)
        self._served = ServedWindows(settings)

    @asynccontextmanager
    async def open(self, context: ModelContext) -> AsyncGenerator[Models, None]:
        """The models of a run, which its meter pays for; the block's end closes their connections.

        Their prompt cache lives as long as a run with these options needs it.

        Raises:
            ModelMisconfigured: a role's setting is no model, or the file of prices is invalid.
        """
        settings = self._settings
        async with AsyncExitStack() as stack:
            prices = await self._load_prices()
            specs = parse_solvers(settings.solver_model)
            scouts = parse_solvers(settings.scout_model)[:1] if settings.scout_model else ()
            more = find_solvers(settings, context.options)
            judges = find_judges(settings)
            await self._served.fetch((*specs, *more.values(), *scouts, *judges), prices)
            solver = self._build_solver(stack, specs, context, prices)
            scout: Model | None = None
            if scouts:
                scout = self._build_scout(stack, scouts[0], context, prices)
            counter = await self._open_counter(stack, specs[0], context.meter)
            rewards = RewardBuilder(settings, stack, context.meter, context.in_flight)
            yield Models(
                solver=solver,
                scout=scout,
                solvers={
                    name: self._build_solver(stack, [spec], context, prices)
                    for name, spec in more.items()
                },
                counter=counter,
                scout_counter=await self._open_scout_counter(stack, context.meter),
                embedding_ranker=build_ranker(stack, settings, context.meter),
                orm=rewards.build_outcome_reward(),
                prm=rewards.build_process_reward(
                    lambda spec: self._build_judge(stack, spec, context, prices)
                ),
            )

    async def _open_counter(
        self, stack: AsyncExitStack, spec: ModelSpec, meter: Meter
    ) -> TokenCounter:
        if spec.provider == "openai" and spec.base_url is not None:
            await meter.record_destinations(destinations(spec.base_url))  # it gets the text
        key = self._settings.model_api_key.get_secret_value()
        return await stack.enter_async_context(open_counter(spec, key))

    async def _open_scout_counter(self, stack: AsyncExitStack, meter: Meter) -> TokenCounter:
        settings = self._settings
        if not settings.scout_model:
            return ESTIMATOR
        return await self._open_counter(stack, parse_solvers(settings.scout_model)[0], meter)

    @asynccontextmanager
    async def open_for_selection(
        self, context: ModelContext
    ) -> AsyncGenerator[tuple[Model | None, Reward | None]]:
        """The solver and the reward model, as far as they are set.

        Raises:
            ModelMisconfigured: a role's setting is no model, or the file of prices is invalid.
        """
        async with AsyncExitStack() as stack:
            solver: Model | None = None
            if is_solver_set(self._settings):
                specs = parse_solvers(self._settings.solver_model)
                prices = await self._load_prices()
                await self._served.fetch(specs, prices)
                solver = self._build_solver(stack, specs, context, prices)
            rewards = RewardBuilder(self._settings, stack, context.meter, context.in_flight)
            yield solver, rewards.build_outcome_reward()

    def _build_judge(
        self, stack: AsyncExitStack, spec: ModelSpec, context: ModelContext, prices: PriceTable
    ) -> Model:
        client = self._build_client(stack, spec, ModelOptions(), prices)
        return ThrottledModel(self._with_meter(client, context), self._slots, waits=self._waits)

    def _build_solver(
        self,
        stack: AsyncExitStack,
        specs: Sequence[ModelSpec],
        context: ModelContext,
        prices: PriceTable,
    ) -> Model:
        model_options = ModelOptions(
            cache_seconds=cache_lifetime(context.options),
            thinking_tokens=context.options.thinking_tokens,
        )
        models: list[Model] = []
        for spec in specs:
            client = self._build_client(stack, spec, model_options, prices)
            model = ThrottledModel(
                self._with_meter(client, context), self._slots, waits=self._waits
            )
            models.append(self._with_batches(stack, client, model, context))
        return FallbackModel(models) if len(models) > 1 else models[0]

    def _build_scout(
        self, stack: AsyncExitStack, spec: ModelSpec, context: ModelContext, prices: PriceTable
    ) -> Model:
        model_options = ModelOptions(cache_seconds=cache_lifetime(context.options))
        client = self._build_client(stack, spec, model_options, prices, sdk_retries=0)
        return AdaptiveModel(self._with_meter(client, context), self._window, waits=self._waits)

    def _with_meter(self, client: Model, context: ModelContext) -> Model:
        return MeteredModel(PausableModel(client, context.in_flight), context.meter)

    def _with_batches(
        self,
        stack: AsyncExitStack,
        client: AnthropicModel | OpenAIChatModel,
        model: Model,
        context: ModelContext,
    ) -> Model:
        """`model`, with its opening calls in batches if the options ask for it and it saves."""
        if not (
            context.options.batch
            and isinstance(client, BatchService)
            and _is_cheaper_in_batches(client)
        ):
            return model
        batching = BatchModel(client, context.store, uncancellable=context.in_flight.uncancellable)
        stack.push_async_callback(batching.aclose)
        return BatchedOpenings(model, MeteredModel(batching, context.meter, seconds=BATCH_SECONDS))

    def _build_client(
        self,
        stack: AsyncExitStack,
        spec: ModelSpec,
        model_options: ModelOptions,
        prices: PriceTable,
        *,
        sdk_retries: int = SDK_RETRIES,
    ) -> AnthropicModel | OpenAIChatModel:
        settings = self._settings
        model_options = self._served.apply(spec, model_options)
        ours = spec.provider == "anthropic"
        key = settings.anthropic_api_key if ours else settings.model_api_key
        client = build_model(
            spec,
            api_key=key.get_secret_value(),
            base_url=settings.anthropic_base_url if ours else None,
            options=model_options,
            prices=prices,
            sdk_retries=sdk_retries,
        )
        stack.push_async_callback(client.aclose)
        return client

    async def _load_prices(self) -> PriceTable:
        try:
            return await asyncio.to_thread(read_prices, self._settings.prices_file)
        except PricesInvalid as error:
            raise ModelMisconfigured(f"CAPUCHIN_PRICES_FILE: {error}") from None


def _is_cheaper_in_batches(client: BatchService) -> bool:
    return client.profile.price.batch < 1


def build_ranker(
    stack: AsyncExitStack, settings: Settings, meter: Meter | None = None
) -> EmbeddingRanker | None:
    """The embedding model of the settings, closed with `stack`; None when none is set.

    Raises:
        ModelMisconfigured: the setting is no embedding model.
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
    return EmbeddingRanker(embedder)
