"""Builds the models that the settings name.

The order in which they are wrapped is explained in `pipeline.models.wrappers`.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from bot.settings import (
    ModelSettings,
    SettingsError,
    find_trimmed_variables,
    find_unknown_variables,
    variable_name,
)
from pipeline.context.tokens import ESTIMATOR, TokenCounter, open_counter
from pipeline.data.options import Options
from pipeline.localisation.process_reward import (
    JudgeInWords,
    ProcessReward,
    UnusableProcessReward,
    VerdictOrWords,
    VerdictProcessReward,
)
from pipeline.models.base import Likelihood, Model, ModelMisconfigured, Reward, cache_lifetime
from pipeline.models.factory import (
    ModelOptions,
    build_likelihood,
    build_model,
    fetch_window,
    output_length,
)
from pipeline.models.metering import Meter
from pipeline.models.providers.provider_http import SDK_RETRIES
from pipeline.models.spec import (
    ModelSpec,
    PricesInvalid,
    PriceTable,
    destinations,
    look_up,
    parse_spec,
    parse_specs,
)
from pipeline.models.wrappers import (
    RETRY_WAITS,
    ConcurrencyWindow,
    FallbackModel,
    MeteredModel,
    ThrottledModel,
)
from pipeline.selection.ties import ImplicitReward, UnusableReward, VerdictReward
from pipeline.workflows.outcome import Models
from sandbox.frozen import replace

if TYPE_CHECKING:
    from pipeline.models.providers.anthropic import AnthropicModel
    from pipeline.models.providers.openai_chat import OpenAIChatModel


logger = logging.getLogger(__name__)


class ServedWindows:
    """The windows that the operator's own servers report, by model."""

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._windows: dict[ModelSpec, int] = {}

    async def fetch(self, specs: Iterable[ModelSpec], prices: PriceTable) -> None:
        """Ask the servers of `specs`. Models in the price list keep the window stated there."""
        for spec in set(specs):
            if look_up(spec, prices).price_source != "local":
                continue
            window = await fetch_window(spec, self._settings.find_key(spec).key)
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


def find_solvers(settings: ModelSettings, options: Options) -> dict[str, ModelSpec]:
    """The models that the generators of `options` name, by those names.

    A repository's file can name only models of the operator: an address in it would get the
    operator's key and the code.

    Raises:
        ModelMisconfigured: a name is not among them, or the operator's setting names no model.
    """
    texts = [name for one in settings.generators for name in one.named]
    known = [s for text in (settings.solver_model, *texts) for s in parse_solvers(text)]
    offered = {text: parse_spec(text) for text in texts}
    offered |= {spec.name: spec for spec in reversed(known)}
    named = [name for one in options.generators for name in one.named]
    for name in named:
        if name not in offered:
            names = ", ".join(sorted({spec.name for spec in known}))
            raise ModelMisconfigured(
                f"`generators` names the model {name!r}, which CAPUCHIN_SOLVER_MODEL and "
                f"CAPUCHIN_GENERATORS do not offer. They offer {names}."
            )
    return {name: offered[name] for name in named}


def parse_solvers(text: str) -> tuple[ModelSpec, ...]:
    """Raises `ModelMisconfigured` where `text` is not a list of models."""
    try:
        return tuple(parse_specs(text))
    except ValueError as error:
        raise ModelMisconfigured(str(error)) from None


@dataclass(frozen=True)
class ModelContext:
    """What the models of one run need to know about it."""

    meter: Meter
    options: Options


@dataclass(frozen=True)
class SelectionModels:
    solver: Model | None
    orm: Reward | None


def check_models(
    settings: ModelSettings, roles: Sequence[str] = ("solver_model", "scout_model")
) -> None:
    """Check the settings of these roles and of the generators, without a call to a model.

    Raises:
        SettingsError: a setting names no model, Anthropic's key is missing, or the file of prices
            is invalid.
    """
    try:
        settings.read_prices()
    except PricesInvalid as error:
        raise SettingsError(f"{variable_name('prices_file')}: {error}") from None
    for field_name in roles:
        text = str(getattr(settings, field_name))
        if text or field_name != "scout_model":
            _check_role(settings, variable_name(field_name), text, parse_specs)
    for name in (name for one in settings.generators for name in one.named):
        _check_role(settings, "CAPUCHIN_GENERATORS", name, lambda text: (parse_spec(text),))


def import_clients(settings: ModelSettings) -> None:
    """Import the clients of the models now: it takes seconds, on a busy machine tens of them, in
    which a worker that has begun to work would renew no lease."""
    generated = [name for one in settings.generators for name in one.named]
    texts = (settings.solver_model, settings.scout_model, *generated)
    found = {spec.provider for text in texts if text for spec in parse_specs(text)}
    modules = {"anthropic": "anthropic", "openai": "openai_chat"}
    names = [modules[provider] for provider in found]
    names += ["openai_scores"] * bool(settings.orm_model or settings.prm_model)
    for name in names:
        import_module(f"pipeline.models.providers.{name}")


def _check_role(
    settings: ModelSettings, variable: str, text: str, parse: Callable[[str], Sequence[ModelSpec]]
) -> None:
    try:
        specs = parse(text)
    except ValueError as error:
        raise SettingsError(f"{variable}: {error}") from None
    for spec in filter(settings.lacks_key, specs):
        raise SettingsError(
            f"{settings.find_key(spec).variable} is not set, and {variable} names {text}: every "
            "run would fail. Set the key, or another model."
        )


def warn_of_settings(settings: ModelSettings) -> None:
    """Log variables that have no effect, and models that are counted at a price we assume."""
    for sentence in (*find_unknown_variables(), *find_trimmed_variables()):
        logger.warning("%s", sentence)
    table = settings.read_prices()
    for text in filter(None, (settings.solver_model, settings.scout_model)):
        for spec in parse_specs(text):
            found = look_up(spec, table)
            if found.price_source == "unknown":
                logger.warning("%s Write its price into CAPUCHIN_PRICES_FILE.", found.note)


def is_solver_set(settings: ModelSettings) -> bool:
    """Whether a solver is set. A setting that names no model counts; its first call reports it."""
    try:
        return not any(map(settings.lacks_key, parse_specs(settings.solver_model)))
    except ValueError:
        return True


def solver_sees(settings: ModelSettings) -> bool:
    """Whether the solver reads pictures, as the list of prices says."""
    try:
        specs = parse_specs(settings.solver_model)
        return look_up(specs[0], settings.read_prices()).profile.vision
    except (ValueError, PricesInvalid):  # its first call reports it
        return False


SOLVER_CALLS: Final = 8
SCOUT_CALLS: Final = 64
"""Concurrent calls of a worker to one server; fewer while it is overloaded."""


class ModelFactory:
    def __init__(self, settings: ModelSettings, *, waits: Sequence[float] = RETRY_WAITS) -> None:
        """`waits`: seconds before each further attempt at a call that failed."""
        self._settings = settings
        self._waits = waits
        self._windows = defaultdict[str | None, ConcurrencyWindow](
            lambda: ConcurrencyWindow(SOLVER_CALLS)
        )
        self._scout_window = ConcurrencyWindow(SCOUT_CALLS)
        self._served = ServedWindows(settings)

    @asynccontextmanager
    async def open(self, context: ModelContext) -> AsyncGenerator[Models]:
        """The models of a run, which its meter pays for; the block's end closes their connections.

        Their prompt cache lives as long as a run with these options needs it.

        Raises:
            ModelMisconfigured: a role's setting names no model, or the file of prices is invalid.
        """
        settings = self._settings
        specs = parse_solvers(settings.solver_model)
        scout = parse_solvers(settings.scout_model)[0] if settings.scout_model else None
        more = find_solvers(settings, context.options)
        judge = _find_judge(settings)
        asked = [one for one in (*specs, *more.values(), scout, judge) if one is not None]
        async with self._open_builder(context, asked) as builder:
            yield Models(
                solver=builder.build_solver(specs),
                scout=builder.build_scout(scout) if scout else None,
                solvers={name: builder.build_solver([spec]) for name, spec in more.items()},
                counter=await builder.open_counter(specs[0]),
                scout_counter=await builder.open_counter(scout) if scout else ESTIMATOR,
                orm=builder.build_outcome_reward(),
                prm=builder.build_process_reward(),
            )

    @asynccontextmanager
    async def open_for_selection(self, context: ModelContext) -> AsyncGenerator[SelectionModels]:
        """The solver and the reward model, if they are set.

        Raises:
            ModelMisconfigured: a role's setting names no model, or the file of prices is invalid.
        """
        specs: Sequence[ModelSpec] = ()
        if is_solver_set(self._settings):
            specs = parse_solvers(self._settings.solver_model)
        async with self._open_builder(context, specs) as builder:
            solver = builder.build_solver(specs) if specs else None
            yield SelectionModels(solver, builder.build_outcome_reward())

    @asynccontextmanager
    async def _open_builder(
        self, context: ModelContext, specs: Iterable[ModelSpec]
    ) -> "AsyncGenerator[_ModelBuilder]":
        try:
            prices = await asyncio.to_thread(self._settings.read_prices)
        except PricesInvalid as error:
            raise ModelMisconfigured(f"CAPUCHIN_PRICES_FILE: {error}") from None
        await self._served.fetch(specs, prices)
        async with AsyncExitStack() as stack:
            yield _ModelBuilder(
                self._settings,
                context,
                prices,
                stack,
                self._served,
                self._windows,
                self._scout_window,
                self._waits,
            )


@dataclass(frozen=True)
class _ModelBuilder:
    """Builds the models of one run; `stack` closes them."""

    settings: ModelSettings
    context: ModelContext
    prices: PriceTable
    stack: AsyncExitStack
    served: ServedWindows
    windows: Mapping[str | None, ConcurrencyWindow]
    """The windows by the address of a server; None: Anthropic's own."""
    scout_window: ConcurrencyWindow
    waits: Sequence[float]

    def build_solver(self, specs: Sequence[ModelSpec]) -> Model:
        options = self.context.options
        model_options = ModelOptions(
            cache_seconds=cache_lifetime(options), thinking_tokens=options.thinking_tokens
        )
        models: list[Model] = []
        for spec in specs:
            client = self._build_client(spec, model_options)
            models.append(self._throttle(client, self.windows[spec.base_url]))
        return FallbackModel(models) if len(models) > 1 else models[0]

    def build_scout(self, spec: ModelSpec) -> Model:
        model_options = ModelOptions(cache_seconds=cache_lifetime(self.context.options))
        client = self._build_client(spec, model_options, sdk_retries=0)
        return self._throttle(client, self.scout_window)

    async def open_counter(self, spec: ModelSpec) -> TokenCounter:
        if spec.provider == "openai" and spec.base_url is not None:
            # It gets the text.
            await self.context.meter.record_destinations(destinations(spec.base_url))
        key = self.settings.find_key(spec).key
        return await self.stack.enter_async_context(open_counter(spec, key))

    def build_outcome_reward(self) -> Reward | None:
        """The model that scores edits; None if none is set."""
        settings, meter = self.settings, self.context.meter
        if not settings.orm_model:
            return None
        try:
            trained, *base = parse_solvers(settings.orm_model)
            policy = self._build_likelihood(trained)
            if not base:
                return VerdictReward(policy, meter)
            reference = self._build_likelihood(base[0])
        except ModelMisconfigured as error:
            return UnusableReward(error)
        return ImplicitReward(policy, reference, meter)

    def build_process_reward(self) -> ProcessReward | None:
        """The model that scores the answers of a search; None if none is set.

        It judges in words if its service has no log-probabilities.
        """
        text = self.settings.prm_model
        if not text:
            return None
        try:
            spec = _parse(text)
            client = self._build_client(spec, ModelOptions())
            words = JudgeInWords(self._throttle(client, self.windows[spec.base_url]))
            if spec.provider != "openai":
                return words
            verdict = VerdictProcessReward(self._build_likelihood(spec), self.context.meter)
            return VerdictOrWords(verdict, words)
        except ModelMisconfigured as error:
            return UnusableProcessReward(error)

    def _throttle(self, client: Model, window: ConcurrencyWindow) -> Model:
        return ThrottledModel(MeteredModel(client, self.context.meter), window, waits=self.waits)

    def _build_client(
        self, spec: ModelSpec, model_options: ModelOptions, *, sdk_retries: int = SDK_RETRIES
    ) -> "AnthropicModel | OpenAIChatModel":
        settings = self.settings
        client = build_model(
            spec,
            api_key=settings.find_key(spec).key,
            base_url=settings.anthropic_base_url,
            options=self.served.apply(spec, model_options),
            prices=self.prices,
            sdk_retries=sdk_retries,
        )
        self.stack.push_async_callback(client.aclose)
        return client

    def _build_likelihood(self, spec: ModelSpec) -> Likelihood:
        client = build_likelihood(spec, api_key=self.settings.find_key(spec).key)
        self.stack.push_async_callback(client.aclose)
        return client


def _find_judge(settings: ModelSettings) -> ModelSpec | None:
    """The process reward model, which may judge in words; None if its setting names no model."""
    try:
        return parse_spec(settings.prm_model) if settings.prm_model else None
    except ValueError:
        return None


def _parse(text: str) -> ModelSpec:
    try:
        return parse_spec(text)
    except ValueError as error:
        raise ModelMisconfigured(str(error)) from None
