"""The OpenAI SDK behind `Model`, also for vLLM."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import exp

import httpx2
import openai
from openai.types import CompletionUsage
from openai.types.chat import (
    ChatCompletionChunk,
    ChatCompletionContentPartImageParam,
    ChatCompletionContentPartTextParam,
    ChatCompletionMessageParam,
)
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from pipeline.data.types import Picture, Usage
from pipeline.models.base import (
    Message,
    ModelError,
    ModelMisconfigured,
    ModelProfile,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    Reply,
    ReplyFormat,
)
from pipeline.models.providers.provider_http import (
    Endpoint,
    ProviderClient,
    call_headers,
    error_for_status,
    event_hooks,
    keep_usage_on_cancel,
    replace_surrogates,
    ssl_context,
    validate_key,
)


def connect(service: str, endpoint: Endpoint) -> openai.AsyncOpenAI:
    """A client of `endpoint`; error messages call it `service`.

    Raises:
        ModelMisconfigured: the endpoint's key is unusable.
    """
    return openai.AsyncOpenAI(
        api_key=validate_key(service, endpoint.api_key),
        base_url=endpoint.base_url,
        http_client=openai.DefaultAsyncHttpxClient(verify=ssl_context(), event_hooks=event_hooks()),
        timeout=endpoint.timeout,
        max_retries=endpoint.sdk_retries,
    )


_THINK_START, _THINK_END = "<think>", "</think>"
_THINKING_PARAMS = frozenset({"thinking_token_budget", "chat_template_kwargs"})
_TOO_LONG = (
    "context_length_exceeded",  # OpenAI's code
    "context length is",  # OpenAI's and most of vLLM's sentences
    "maximum model length",  # vLLM's engine
    "available context size",  # llama.cpp
)


class OpenAIChatModel(ProviderClient):
    """`Model` over `POST {base_url}/chat/completions`. Close it with `aclose()`.

    What a reasoning model thinks is kept apart from the reply's text: `reasoning_content` or
    `reasoning`, as vLLM calls it with a reasoning parser, and a leading `<think>` block without.
    https://docs.vllm.ai/en/latest/features/reasoning_outputs.html
    """

    def __init__(self, profile: ModelProfile, endpoint: Endpoint) -> None:
        """Raises ModelMisconfigured when the endpoint's key is unusable."""
        super().__init__(profile, endpoint.base_url)
        self._declined: set[str] = set()
        self._client = connect(self.service, endpoint)

    async def aclose(self) -> None:
        await self._client.close()

    async def complete(self, request: ModelRequest) -> Reply:
        """A server that rejects a reply format or a thinking budget never gets one again."""
        asked = {**_format_params(request.form), **_thinking_params(self._profile, request)}
        wanted = {name: value for name, value in asked.items() if name not in self._declined}
        tries = [wanted]
        if wanted.keys() & _THINKING_PARAMS and wanted.keys() - _THINKING_PARAMS:
            tries.append({n: value for n, value in wanted.items() if n not in _THINKING_PARAMS})
        if wanted:
            tries.append({})
        state = _ChatStreamState()
        try:
            with keep_usage_on_cancel(state):
                for more in tries:
                    try:
                        await self._stream(state, request, more)
                        self._declined |= wanted.keys() - more.keys()
                        break
                    except openai.APIError as error:
                        # How servers reject a parameter that they do not know.
                        status = _status_of(error)
                        declined = status in (400, 404, 422, 501) and not _is_too_long(error)
                        if more is tries[-1] or not declined:
                            raise
        except (openai.APIError, httpx2.TransportError, json.JSONDecodeError) as error:
            raise self._translate_error(error, state.usage) from error
        return self._build_reply(state)

    async def _stream(
        self, state: _ChatStreamState, request: ModelRequest, params: Mapping[str, object]
    ) -> None:
        sampled = self._profile.sampling and request.temperature is not None
        stream = await self._client.chat.completions.create(
            model=self._profile.name,
            messages=_conversation(request.system, request.messages),
            max_tokens=request.max_tokens or self._profile.max_output,
            temperature=request.temperature if sampled else openai.omit,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=call_headers(request.call),
            extra_body=params or None,
        )
        async with stream:
            if not stream.response.headers.get("content-type", "").startswith("text/event-stream"):
                raise ModelMisconfigured(f"{self.service} does not speak chat completions.")
            async for chunk in stream:
                state.add_chunk(chunk)

    def _build_reply(self, state: _ChatStreamState) -> Reply:
        if state.finish_reason is None:
            raise ModelUnavailable(f"{self.service} stopped in mid-answer.", state.usage)
        if state.refused or state.finish_reason == "content_filter":
            raise ModelRefused(f"{self.service} declined to answer.", state.usage)
        thought, text = _split_thinking("".join(state.text))
        return Reply(
            text=replace_surrogates(text),
            thinking=replace_surrogates("".join(state.thinking) + thought),
            usage=state.usage or Usage(),
            model=replace_surrogates(state.model),
            stopped="length" if state.finish_reason == "length" else "end",
            first=state.first,
        )

    def _translate_error(self, error: Exception, usage: Usage | None) -> ModelError:
        status = _status_of(error) if isinstance(error, openai.APIError) else None
        if status is None or not isinstance(error, openai.APIError):
            return ModelUnavailable(f"{self.service} cannot be reached, or hung up.", usage)
        mapped = error_for_status(self.service, status, too_long=_is_too_long(error))
        mapped.usage = usage
        return mapped


def _status_of(error: openai.APIError) -> int | None:
    """The status of the answer; vLLM may send it inside the stream, after a 200."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code
    code = str(error.code)
    return int(code) if re.fullmatch("[45][0-9][0-9]", code) else None


def _is_too_long(error: openai.APIError) -> bool:
    content = f"{error.code} {error.message}".lower()
    return any(words in content for words in _TOO_LONG)


@dataclass
class _ChatStreamState:
    """What a stream has delivered so far."""

    model: str = ""
    text: list[str] = field(default_factory=list[str])
    thinking: list[str] = field(default_factory=list[str])
    usage: Usage | None = None
    finish_reason: str | None = None
    refused: bool = False
    first: tuple[tuple[str, float], ...] = ()

    def add_chunk(self, chunk: ChatCompletionChunk) -> None:
        self.model = chunk.model or self.model
        if chunk.usage is not None:
            self.usage = _to_usage(chunk.usage)
        for choice in chunk.choices[:1]:
            self.text.append(choice.delta.content or "")
            if choice.logprobs and choice.logprobs.content and not self.first:
                alternatives = choice.logprobs.content[0].top_logprobs
                self.first = tuple(
                    (replace_surrogates(t.token), exp(min(t.logprob, 0))) for t in alternatives
                )
            self.thinking.append(_thinking_delta(choice.delta))
            self.refused = self.refused or bool(choice.delta.refusal)
            self.finish_reason = choice.finish_reason or self.finish_reason


def _format_params(form: ReplyFormat | None) -> dict[str, object]:
    """The parameters of a reply format, in OpenAI's form, which vLLM and llama.cpp share."""
    shape: dict[str, object] = {}
    if form and form.json_schema is not None:
        schema = {"name": "reply", "schema": dict(form.json_schema), "strict": True}
        shape["response_format"] = {"type": "json_schema", "json_schema": schema}
    if form and form.alternatives:
        shape |= {"logprobs": True, "top_logprobs": form.alternatives}
    return shape


def _thinking_params(profile: ModelProfile, request: ModelRequest) -> dict[str, object]:
    """The thinking budget, where it leaves room for a reply, as vLLM with a reasoning parser takes
    it; the switches are those of Qwen's and DeepSeek's chat templates.

    https://docs.vllm.ai/en/latest/features/reasoning_outputs.html
    """
    if not profile.thinking_tokens:
        return {}
    if (request.max_tokens or profile.max_output) <= profile.thinking_tokens:
        return {}
    switches = {"enable_thinking": True, "thinking": True}
    return {"thinking_token_budget": profile.thinking_tokens, "chat_template_kwargs": switches}


def _thinking_delta(delta: ChoiceDelta) -> str:
    """What a delta adds to the thinking; the SDK does not know these fields."""
    more: dict[str, object] = delta.model_extra or {}
    content = more.get("reasoning_content") or more.get("reasoning")
    return content if isinstance(content, str) else ""


def _split_thinking(text: str) -> tuple[str, str]:
    """The thinking at the beginning of `text`, and the rest.

    Some chat templates open the block themselves, so that only its end, alone on a line, is in the
    text; a block that never ends was cut off, and nothing was said after it.
    """
    bare = text.lstrip()
    if bare.startswith(_THINK_START):
        thought, _, rest = bare.removeprefix(_THINK_START).partition(_THINK_END)
        return thought.strip(), rest.lstrip()
    end = (
        re.search(r"^[ \t]*</think>[ \t]*$", text, re.MULTILINE)
        if _THINK_START not in text
        else None
    )
    return (text[: end.start()].strip(), text[end.end() :].lstrip()) if end else ("", text)


def _to_usage(counted: CompletionUsage) -> Usage:
    details = counted.prompt_tokens_details
    cached = (details.cached_tokens if details else None) or 0
    return Usage(
        input=counted.prompt_tokens - cached, output=counted.completion_tokens, cache_read=cached
    )


def _picture_part(picture: Picture) -> ChatCompletionContentPartImageParam:
    url = f"data:{picture.media_type};base64,{picture.base64}"
    return {"type": "image_url", "image_url": {"url": url}}


def _conversation(system: str, messages: Sequence[Message]) -> list[ChatCompletionMessageParam]:
    """The messages as chat templates want them: many reject two of one role in a row."""
    start: list[ChatCompletionMessageParam] = []
    if system:
        start.append({"role": "system", "content": replace_surrogates(system)})
    for role, group in groupby(messages, key=lambda message: message.role):
        content = list(group)
        text = replace_surrogates("\n\n".join(message.text for message in content))
        pictures = [_picture_part(one) for message in content for one in message.pictures]
        if role == "user" and pictures:
            said = ChatCompletionContentPartTextParam(type="text", text=text)
            start.append({"role": "user", "content": [*pictures, said]})
        elif role == "user":
            start.append({"role": "user", "content": text})
        else:
            start.append({"role": "assistant", "content": text})
    return start
