"""A `ModelSpec` becomes a client; the SDK behind it is imported here and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeline.models.base import ModelProfile, Price
from pipeline.models.cache_life import HOUR
from pipeline.models.profiles import look_up
from pipeline.models.spec import ModelSpec

if TYPE_CHECKING:
    from pipeline.models.anthropic import AnthropicModel
    from pipeline.models.openai_chat import OpenAIChatModel


def build_model(
    spec: ModelSpec,
    *,
    api_key: str,
    base_url: str | None = None,
    window: int | None = None,
    max_output: int | None = None,
    price: Price | None = None,
    cache_seconds: Literal[300, 3600] = 300,
) -> AnthropicModel | OpenAIChatModel:
    """A `Model`, to be closed with `aclose()`.

    `base_url` counts where the spec has none. `window`, `max_output` and `price` overrule what
    `profiles.look_up` says; `cache_seconds` is for Anthropic, and has its price. An empty
    `api_key` means none, which only `openai` servers accept.

    Raises:
        ModelMisconfigured: the key is missing or cannot be one.
    """
    profile = profile_of(
        spec, window=window, max_output=max_output, price=price, cache_seconds=cache_seconds
    )
    where = spec.base_url or base_url
    # Each SDK costs about a second and 50 MB to import: only the process that asks pays it.
    if spec.provider == "anthropic":
        from pipeline.models.anthropic import PUBLIC_URL, AnthropicModel

        return AnthropicModel(profile, api_key=api_key, base_url=where or PUBLIC_URL)
    from pipeline.models.openai_chat import NO_KEY, OpenAIChatModel

    if where is None:
        raise ValueError(f"{spec} has no address.")
    return OpenAIChatModel(profile, api_key=api_key or NO_KEY, base_url=where)


def profile_of(
    spec: ModelSpec,
    *,
    window: int | None = None,
    max_output: int | None = None,
    price: Price | None = None,
    cache_seconds: Literal[300, 3600] = 300,
) -> ModelProfile:
    """The profile of `spec`, with what is given here instead of what the table says."""
    known = look_up(spec).profile
    price = price or known.price
    if cache_seconds == HOUR:
        # A price that was given without one for an hour is never counted below what it says.
        longer = max(price.cache_write, price.cache_write_hour)
        price = price.model_copy(update={"cache_write": longer})
    return known.model_copy(
        update={
            "window": window or known.window,
            "max_output": max_output or known.max_output,
            "price": price,
            "cache_seconds": cache_seconds,
        }
    )
