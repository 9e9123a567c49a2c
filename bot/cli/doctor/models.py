"""Asks each model that the settings name one short question, as a run would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from bot.cli.doctor.types import CheckFailed
from bot.settings import Settings, variable_name
from pipeline.models.base import Message, ModelError, ModelRequest
from pipeline.models.embedding import EmbeddingFailed
from pipeline.models.factory import build_embedder, build_likelihood, build_model
from pipeline.models.likelihood import ScoreUnavailable
from pipeline.models.profiles import (
    PricesInvalid,
    PriceTable,
    look_up,
    read_prices,
)
from pipeline.models.providers.http import DOCTOR_CALL
from pipeline.models.served_window import fetch_models
from pipeline.models.spec import ModelSpec, parse_spec, parse_specs

QUESTION: Final = "Reply with the word: ok"
REWARD_SYSTEM: Final = "Reply with + or -."
TOKENS: Final = 1
_MOST_NAMES: Final = 20


async def check_prices(settings: Settings) -> str:
    """The price list, and whether every model has a price."""
    table = await asyncio.to_thread(load_prices, settings)
    specs = [
        *_parse_all(settings, "solver_model"),
        *(_parse_all(settings, "scout_model") if settings.scout_model else ()),
        *_parse_generators(settings),
    ]
    priced = [look_up(spec, table) for spec in specs]
    unknown = [found.note for found in priced if found.price_source == "unknown"]
    if unknown:
        raise CheckFailed(
            " ".join(dict.fromkeys(unknown)), "Write its price into CAPUCHIN_PRICES_FILE."
        )
    return f"{len(table.models)} models, list of {table.own_date or table.date}"


def _parse_generators(settings: Settings) -> list[ModelSpec]:
    try:
        return [parse_spec(one.model) for one in settings.generators if one.model]
    except ValueError as error:
        raise CheckFailed(str(error), "Set CAPUCHIN_GENERATORS.") from None


def load_prices(settings: Settings) -> PriceTable:
    """The prices that count.

    Raises:
        CheckFailed: the operator's file is invalid.
    """
    try:
        return read_prices(settings.prices_file)
    except PricesInvalid as error:
        raise CheckFailed(str(error), "Correct the file, or unset CAPUCHIN_PRICES_FILE.") from None


async def check_chat(settings: Settings, field: str) -> str:
    """Ask each chat model of a setting for one token."""
    specs = _parse_all(settings, field)
    found: list[str] = []
    for spec in specs:
        async with _name_failure(spec, settings):
            await _ask(spec, settings)
        found.append(f"{spec}{await _describe_window(spec, settings)}")
    return ", then ".join(found)


async def _ask(spec: ModelSpec, settings: Settings) -> None:
    ours = spec.provider == "anthropic"
    key = settings.anthropic_api_key if ours else settings.model_api_key
    if ours and not key.get_secret_value():
        raise CheckFailed(f"{spec}: ANTHROPIC_API_KEY is not set", "Set ANTHROPIC_API_KEY.")
    client = build_model(
        spec,
        api_key=key.get_secret_value(),
        base_url=settings.anthropic_base_url if ours else None,
        prices=await asyncio.to_thread(load_prices, settings),
        sdk_retries=0,
    )
    try:
        messages = (Message(role="user", text=QUESTION),)
        await client.complete(
            ModelRequest(system="", messages=messages, call=DOCTOR_CALL, max_tokens=TOKENS)
        )
    finally:
        await client.aclose()


async def check_embedder(settings: Settings) -> str:
    """Ask the embedding model for one vector."""
    spec = _parse(settings, "embedding_model")
    async with _name_failure(spec, settings):
        embedder = build_embedder(spec, api_key=settings.model_api_key.get_secret_value())
        try:
            await embedder.embed([QUESTION])
        finally:
            await embedder.aclose()
    return str(spec)


async def check_reward(settings: Settings, field: str) -> str:
    """Ask a reward model for a verdict with its probability, or for that of an answer.

    The latter is what a run asks of an outcome reward model and its reference.
    """
    spec = _parse(settings, field)
    async with _name_failure(spec, settings):
        client = build_likelihood(spec, api_key=settings.model_api_key.get_secret_value())
        try:
            if settings.orm_reference and field != "prm_model":
                await client.answer(QUESTION, "ok", call=DOCTOR_CALL)
            else:
                await client.first_token(REWARD_SYSTEM, QUESTION, call=DOCTOR_CALL)
        except ScoreUnavailable as error:
            raise CheckFailed(
                f"{spec}: {error}", "Serve it with log-probabilities (`logprobs`), as vLLM does."
            ) from None
        finally:
            await client.aclose()
    return f"{spec}{await _describe_window(spec, settings)}, with log-probabilities"


async def check_process_reward(settings: Settings) -> str:
    """Ask the process reward model for a verdict; without log-probabilities it has to chat."""
    if _parse(settings, "prm_model").provider == "openai":
        try:
            return await check_reward(settings, "prm_model")
        except CheckFailed as failed:
            if not isinstance(failed.__context__, ScoreUnavailable):
                raise
    return f"{await check_chat(settings, 'prm_model')}, which writes its scores in words"


def _parse_all(settings: Settings, field: str) -> Sequence[ModelSpec]:
    try:
        return parse_specs(str(getattr(settings, field)))
    except ValueError as error:
        raise CheckFailed(str(error), f"Set {variable_name(field)}.") from None


def _parse(settings: Settings, field: str) -> ModelSpec:
    try:
        return parse_spec(str(getattr(settings, field)))
    except ValueError as error:
        raise CheckFailed(str(error), f"Set {variable_name(field)}.") from None


async def _list_models(spec: ModelSpec, settings: Settings) -> dict[str, int | None]:
    return await fetch_models(spec, settings.model_api_key.get_secret_value())


async def _describe_window(spec: ModelSpec, settings: Settings) -> str:
    window = (await _list_models(spec, settings)).get(spec.name)
    return f", window {window:,} tokens" if window else ""


@asynccontextmanager
async def _name_failure(spec: ModelSpec, settings: Settings) -> AsyncGenerator[None]:
    try:
        yield
    except (ModelError, EmbeddingFailed) as error:
        name = "ANTHROPIC_API_KEY" if spec.provider == "anthropic" else "CAPUCHIN_MODEL_API_KEY"
        mend = f"Check that the service is running, its address, the model's name and {name}."
        served = [*await _list_models(spec, settings)]
        if served and spec.name not in served:
            mend = (
                f"The server has {', '.join(served[:_MOST_NAMES])}: set one of them, or serve an "
                f"adapter by that name (vLLM: --enable-lora --lora-modules {spec.name}=FOLDER)."
            )
        raise CheckFailed(f"{spec}: {error}", mend) from None
