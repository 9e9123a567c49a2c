"""Builds a client from a spec, and asks a server what it serves.

vLLM states `max_model_len` for each model of `GET /v1/models`, adapters aside:
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

import httpx2

from pipeline.models.base import HOUR, ModelMisconfigured, ModelProfile, Price
from pipeline.models.providers.provider_http import NO_KEY, SDK_RETRIES, Endpoint, ssl_context
from pipeline.models.spec import ModelSpec, PriceTable, destinations, look_up
from sandbox.frozen import Frozen, replace

if TYPE_CHECKING:
    from pipeline.models.providers.anthropic import AnthropicModel
    from pipeline.models.providers.openai_chat import OpenAIChatModel
    from pipeline.models.providers.openai_scores import OpenAILikelihood


_SECONDS = 5.0
_LARGEST = 100_000_000
"""Tokens; a larger number is a mistake."""


async def fetch_window(spec: ModelSpec, api_key: str) -> int | None:
    """The window of the model in tokens; None if its server does not say. Never fails."""
    return (await fetch_models(spec, api_key)).get(spec.name)


async def fetch_models(spec: ModelSpec, api_key: str) -> dict[str, int | None]:
    """The models that the server of `spec` lists, adapters included, with their windows in tokens.

    Empty if it lists none or does not answer. Never fails.
    """
    if spec.base_url is None or spec.provider != "openai":
        return {}
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with httpx2.AsyncClient(
            headers=headers, timeout=_SECONDS, verify=ssl_context()
        ) as client:
            response = await client.get(f"{spec.base_url}/models")
            response.raise_for_status()
            document: object = response.json()
    except (httpx2.HTTPError, ValueError):
        return {}
    return dict(_list_models(document))


def output_length(window: int) -> int:
    """The longest reply to request from a model with `window` tokens, thoughts included.

    A quarter of the window: half is for the files, the rest for the conversation.
    """
    return max(1, window // 4)


def _list_models(document: object) -> Iterator[tuple[str, int | None]]:
    listed: Any = cast("dict[str, Any]", document).get("data") if isinstance(document, dict) else ()
    models: dict[str, dict[str, Any]] = {}
    for each in cast("list[Any]", listed) if isinstance(listed, list) else []:
        model = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        if isinstance(name := model.get("id"), str):
            models[name] = model
    for name, model in models.items():
        # Of an adapter, vLLM names the model that it belongs to, and no window.
        parent = model.get("parent")
        base = models.get(parent, {}) if isinstance(parent, str) else {}
        yield name, _read_window(model) or _read_window(base)


def _read_window(model: dict[str, Any]) -> int | None:
    window = model.get("max_model_len")
    return window if isinstance(window, int) and 0 < window <= _LARGEST else None


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
    """These three override what `look_up` says."""


DEFAULT_OPTIONS = ModelOptions()


def build_model(
    spec: ModelSpec,
    *,
    api_key: str,
    base_url: str | None = None,
    options: ModelOptions = DEFAULT_OPTIONS,
    prices: PriceTable | None = None,
    sdk_retries: int = SDK_RETRIES,
) -> "AnthropicModel | OpenAIChatModel":
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
        from pipeline.models.providers.anthropic import PUBLIC_URL, AnthropicModel

        where = where or PUBLIC_URL
        profile = replace(profile, sent_to=destinations(where))
        return AnthropicModel(profile, Endpoint(where, api_key, sdk_retries=sdk_retries))
    from pipeline.models.providers.openai_chat import OpenAIChatModel

    if where is None:
        raise ValueError(f"{spec} has no address.")
    profile = replace(profile, sent_to=destinations(where))
    return OpenAIChatModel(profile, Endpoint(where, api_key or NO_KEY, sdk_retries=sdk_retries))


def build_likelihood(spec: ModelSpec, *, api_key: str) -> "OpenAILikelihood":
    """Build a `Likelihood`; close it with `aclose()`.

    Raises:
        ModelMisconfigured: the key cannot be one, or `spec` names no OpenAI-compatible server.
    """
    if spec.base_url is None or spec.provider != "openai":
        raise ModelMisconfigured(
            f"{spec} gives no log-probabilities: a reward model is openai:NAME@http://host:port/v1."
        )
    from pipeline.models.providers.openai_scores import OpenAILikelihood

    return OpenAILikelihood(profile_of(spec), api_key=api_key or NO_KEY, base_url=spec.base_url)


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
