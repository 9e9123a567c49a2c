"""Asks a self-hosted model's server what it serves, and how long the windows are.

vLLM states `max_model_len` for each model of `GET /v1/models`, adapters aside:
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import httpx2

from pipeline.models.providers.http import ssl_context
from pipeline.models.spec import ModelSpec

_SECONDS = 5.0
_LARGEST = 100_000_000
"""Tokens; a larger number is a mistake."""
_OUTPUT_SHARE = 4


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
    """The longest reply to request of a model with `window` tokens, thoughts included.

    A quarter of the window: half is for the files, the rest for the conversation.
    """
    return max(1, window // _OUTPUT_SHARE)


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
