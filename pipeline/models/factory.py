"""Builds a client from a `ModelSpec`, importing only the SDK that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeline.models.base import ModelMisconfigured, ModelProfile, Price
from pipeline.models.cache_lifetime import HOUR
from pipeline.models.destinations import destinations
from pipeline.models.imports import pause_collection
from pipeline.models.profiles import PriceTable, look_up
from pipeline.models.providers.http import NO_KEY, SDK_RETRIES, Endpoint
from pipeline.models.spec import ModelSpec
from pipeline.types import Frozen, replace

if TYPE_CHECKING:
    from pipeline.models.providers.anthropic import AnthropicModel
    from pipeline.models.providers.openai_chat import OpenAIChatModel
    from pipeline.models.providers.openai_embeddings import OpenAIEmbedder
    from pipeline.models.providers.openai_likelihood import OpenAILikelihood
    from pipeline.models.wrappers.metered import Meter


MIN_THINKING_TOKENS = 1024
"""The smallest thinking budget that services accept.

https://platform.claude.com/docs/en/build-with-claude/extended-thinking
"""


class ModelOptions(Frozen):
    """What a caller wants of a model, beside the model's own properties."""

    cache_seconds: Literal[300, 3600] = 300
    """For Anthropic; keeping entries for an hour costs more."""
    thinking_tokens: int = 0
    """For models that accept a thinking budget; at least `MIN_THINKING_TOKENS`, and less than the
    longest reply."""
    window: int | None = None
    max_output: int | None = None
    price: Price | None = None
    """These three override what `profiles.look_up` says."""


DEFAULT_OPTIONS = ModelOptions()


def build_model(
    spec: ModelSpec,
    *,
    api_key: str,
    base_url: str | None = None,
    options: ModelOptions = DEFAULT_OPTIONS,
    prices: PriceTable | None = None,
    sdk_retries: int = SDK_RETRIES,
) -> AnthropicModel | OpenAIChatModel:
    """Build a `Model`; close it with `aclose()`.

    `base_url` applies where the spec has none; `prices` default to the shipped ones. With
    `sdk_retries` 0 an overload is raised at once, without silent retries. An empty `api_key` means
    none, which only `openai` servers accept.

    Raises:
        ModelMisconfigured: the key is missing or cannot be one.
    """
    where = spec.base_url or base_url
    profile = profile_of(spec, options, prices)
    # Each SDK takes about a second and 50 MB to import: only processes that use it pay for it.
    if spec.provider == "anthropic":
        with pause_collection():
            from pipeline.models.providers.anthropic import PUBLIC_URL, AnthropicModel

        where = where or PUBLIC_URL
        profile = replace(profile, sent_to=destinations(where))
        return AnthropicModel(profile, Endpoint(where, api_key, sdk_retries=sdk_retries))
    with pause_collection():
        from pipeline.models.providers.openai_chat import OpenAIChatModel

    if where is None:
        raise ValueError(f"{spec} has no address.")
    profile = replace(profile, sent_to=destinations(where))
    return OpenAIChatModel(profile, Endpoint(where, api_key or NO_KEY, sdk_retries=sdk_retries))


def build_likelihood(spec: ModelSpec, *, api_key: str) -> OpenAILikelihood:
    """Build a `Likelihood`; close it with `aclose()`.

    Raises:
        ModelMisconfigured: the key cannot be one, or `spec` names no OpenAI-compatible server.
    """
    if spec.base_url is None or spec.provider != "openai":
        raise ModelMisconfigured(
            f"{spec} gives no log-probabilities: a reward model is openai:NAME@http://host:port/v1."
        )
    with pause_collection():
        from pipeline.models.providers.openai_likelihood import OpenAILikelihood

    return OpenAILikelihood(profile_of(spec), api_key=api_key or NO_KEY, base_url=spec.base_url)


def build_embedder(spec: ModelSpec, *, api_key: str, meter: Meter | None = None) -> OpenAIEmbedder:
    """Build an `Embedder` that is paid from `meter`; close it with `aclose()`.

    Raises:
        ValueError: no server of this kind has embedding models.
        ModelMisconfigured: the key cannot be one.
    """
    if spec.base_url is None or spec.provider != "openai":
        raise ValueError(f"{spec} has no embeddings: write openai:NAME@http://host:port/v1.")
    with pause_collection():
        from pipeline.models.providers.openai_embeddings import OpenAIEmbedder

    profile = profile_of(spec)
    return OpenAIEmbedder(profile, base_url=spec.base_url, api_key=api_key or NO_KEY, meter=meter)


def profile_of(
    spec: ModelSpec, options: ModelOptions = DEFAULT_OPTIONS, prices: PriceTable | None = None
) -> ModelProfile:
    """The profile of `spec`, with the caller's options applied."""
    known = look_up(spec, prices).profile
    price = options.price or known.price
    if options.cache_seconds == HOUR:
        # A price that was given without one for an hour is never counted below what it says.
        longer = max(price.cache_write, price.cache_write_hour)
        price = replace(price, cache_write=longer)
    max_output = options.max_output or known.max_output
    thinking = 0
    if known.thinking and options.thinking_tokens and max_output > 2 * MIN_THINKING_TOKENS:
        thinking = min(max(MIN_THINKING_TOKENS, options.thinking_tokens), max_output // 2)
    return replace(
        known,
        window=options.window or known.window,
        max_output=max_output,
        price=price,
        cache_seconds=options.cache_seconds,
        thinking_tokens=thinking,
        sent_to=destinations(spec.base_url) if spec.base_url else (),
    )
