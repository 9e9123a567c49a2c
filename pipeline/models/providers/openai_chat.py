"""The OpenAI SDK behind `Model`, also for vLLM."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from itertools import groupby

import openai
from openai._streaming import ServerSentEvent
from openai.types.chat import (
    ChatCompletionContentPartImageParam,
    ChatCompletionContentPartTextParam,
    ChatCompletionMessageParam,
)

from pipeline.data.types import Picture
from pipeline.models.base import Message, ModelProfile, ModelRequest, ReplyFormat
from pipeline.models.providers.answers import Answer, read_chat
from pipeline.models.providers.provider_http import (
    TRANSPORT_ERRORS,
    Endpoint,
    ProviderClient,
    event_hooks,
    name_proxy_mistakes,
    replace_surrogates,
    ssl_context,
    system_in_message,
    validate_key,
)


def connect(service: str, endpoint: Endpoint) -> openai.AsyncOpenAI:
    """A client of `endpoint`; error messages call it `service`.

    Raises:
        ModelMisconfigured: the endpoint's key is unusable.
    """
    key = validate_key(service, endpoint.api_key)
    with name_proxy_mistakes():
        return openai.AsyncOpenAI(
            api_key=key,
            base_url=endpoint.base_url,
            http_client=openai.DefaultAsyncHttpxClient(
                verify=ssl_context(), event_hooks=event_hooks()
            ),
            timeout=endpoint.timeout,
            max_retries=endpoint.sdk_retries,
        )


class _Stream(openai.AsyncStream[object]):
    is_done = False
    """Whether the service said that it is: not each says why."""

    async def _iter_events(self) -> AsyncGenerator[ServerSentEvent]:
        async for event in super()._iter_events():
            self.is_done = self.is_done or event.data.startswith("[DONE]")
            if event.data.lstrip()[:1] in ("{", "["):  # else it only keeps the connection open
                yield event


_THINKING = frozenset({"thinking_token_budget", "chat_template_kwargs"})
_FORMAT = frozenset({"response_format"})


class OpenAIChatModel(ProviderClient):
    """`Model` over `POST {base_url}/chat/completions`. Close it with `aclose()`.

    What a reasoning model thinks is kept apart from the reply's text: `reasoning_content` or
    `reasoning`, as vLLM calls it with a reasoning parser, and a leading `<think>` block without.
    https://docs.vllm.ai/en/latest/features/reasoning_outputs.html
    """

    sdk_errors = (openai.APIError, *TRANSPORT_ERRORS)
    protocol = "chat completions"
    required = frozenset({"model", "messages", "max_completion_tokens"})
    guesses = (_THINKING, _THINKING | _FORMAT)

    def __init__(self, profile: ModelProfile, endpoint: Endpoint) -> None:
        """Raises ModelMisconfigured when the endpoint's key is unusable."""
        super().__init__(profile, endpoint)
        self._client = connect(self.service, endpoint)

    async def aclose(self) -> None:
        await self._client.close()

    def _add(self, answer: Answer, data: object) -> None:
        read_chat(answer, data)

    def _build_body(self, request: ModelRequest, declined: Collection[str]) -> dict[str, object]:
        asked = system_in_message(request) if "system" in declined else request
        # OpenAI's reasoning models know the longest reply by another name.
        longest = "max_completion_tokens" if "max_tokens" in declined else "max_tokens"
        body: dict[str, object] = {
            "model": self._profile.name,
            "messages": _conversation(asked.system, asked.messages),
            longest: request.max_tokens or self._profile.max_output,
            **_format_params(request.form),
            **_thinking_params(self._profile, request),
        }
        if self._profile.sampling and request.temperature is not None:
            body["temperature"] = request.temperature
        if "stream" not in declined:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return {name: value for name, value in body.items() if name not in declined}

    async def _open(
        self, body: Mapping[str, object], headers: Mapping[str, str]
    ) -> openai.AsyncStream[object]:
        # The SDK's own method would make objects of what arrives, without a look at it.
        return await self._client.post(
            "/chat/completions",
            cast_to=object,
            body=dict(body),
            options={"headers": dict(headers)},
            stream=True,
            stream_cls=_Stream,
        )


def _format_params(form: ReplyFormat | None) -> dict[str, object]:
    """The parameters of a reply format, in OpenAI's form, which vLLM and llama.cpp share."""
    shape: dict[str, object] = {}
    if form and form.json_schema is not None:
        schema = {"name": "reply", "schema": dict(form.json_schema), "strict": True}
        shape["response_format"] = {"type": "json_schema", "json_schema": schema}
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
