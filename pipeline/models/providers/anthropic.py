"""The Anthropic SDK behind `Model`."""

from collections.abc import Collection, Mapping, Sequence

import anthropic
from anthropic.types import (
    CacheControlEphemeralParam,
    ImageBlockParam,
    MessageParam,
    TextBlockParam,
    ThinkingConfigEnabledParam,
)
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

from pipeline.data.types import Picture
from pipeline.models.base import HOUR, Message, ModelProfile, ModelRequest
from pipeline.models.providers.answers import Answer, read_message
from pipeline.models.providers.provider_http import (
    TRANSPORT_ERRORS,
    Endpoint,
    ProviderClient,
    event_hooks,
    name_proxy_mistakes,
    replace_surrogates,
    ssl_context,
    system_in_message,
)


def request_params(profile: ModelProfile, request: ModelRequest) -> MessageCreateParamsNonStreaming:
    """`question` with cache marks that keep what is read as long as the profile says."""
    mark: CacheControlEphemeralParam = {"type": "ephemeral"}  # kept five minutes
    if profile.cache_seconds == HOUR:
        mark["ttl"] = "1h"
    params = MessageCreateParamsNonStreaming(
        model=profile.name,
        messages=_with_cache_marks(request.messages, mark),
        max_tokens=request.max_tokens or profile.max_output,
    )
    if request.system:
        params["system"] = [_text_block(request.system, mark)]
    if thinking := _thinking_params(profile, request):
        params["thinking"] = thinking
    return params


def _thinking_params(
    profile: ModelProfile, request: ModelRequest
) -> ThinkingConfigEnabledParam | None:
    """The thinking budget; None where it would leave no room for a reply.

    https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    """
    longest = request.max_tokens or profile.max_output
    if not profile.thinking_tokens or longest <= profile.thinking_tokens:
        return None
    return {"type": "enabled", "budget_tokens": profile.thinking_tokens}


def _text_block(text: str, mark: CacheControlEphemeralParam | None) -> TextBlockParam:
    block = TextBlockParam(type="text", text=replace_surrogates(text))
    if mark is not None:
        block["cache_control"] = mark
    return block


def _picture_block(picture: Picture) -> ImageBlockParam:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": picture.media_type, "data": picture.base64},
    }


def _with_cache_marks(
    messages: Sequence[Message], mark: CacheControlEphemeralParam
) -> list[MessageParam]:
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    # The opening has a mark of its own: where old results are left out, only it is repeated. With
    # the system text's mark that makes four, the most that are allowed.
    # The last but one mark is the one the previous turn wrote, so this turn reads it.
    # https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    last = {*users[:1], *users[-2:]}
    turns: list[MessageParam] = []
    for i, message in enumerate(messages):
        text = _text_block(message.text, mark if i in last else None)
        if message.role == "user":
            pictures = [_picture_block(picture) for picture in message.pictures]
            turns.append({"role": "user", "content": [*pictures, text]})
        else:
            turns.append({"role": "assistant", "content": [text]})
    return turns


PUBLIC_URL = "https://api.anthropic.com"


class AnthropicModel(ProviderClient):
    """`Model` over `POST {base_url}/v1/messages`. Close it with `aclose()`.

    Thinking is kept apart from the reply, and never sent back.
    """

    sdk_errors = (anthropic.APIError, *TRANSPORT_ERRORS)
    protocol = "Anthropic's protocol"
    required = frozenset({"model", "messages", "max_tokens", "system"})

    def __init__(self, profile: ModelProfile, endpoint: Endpoint) -> None:
        """Raises ModelMisconfigured when the endpoint's key is unusable."""
        super().__init__(profile, endpoint)
        # With key and address given, the SDK looks for neither in the environment or a profile.
        with name_proxy_mistakes():
            self._client = anthropic.AsyncAnthropic(
                api_key=self._key,
                base_url=endpoint.base_url,
                http_client=anthropic.DefaultAsyncHttpxClient(
                    verify=ssl_context(), event_hooks=event_hooks()
                ),
                timeout=endpoint.timeout,
                max_retries=endpoint.sdk_retries,
                open_telemetry=False,
            )

    async def aclose(self) -> None:
        await self._client.close()

    def _add(self, answer: Answer, data: object) -> None:
        read_message(answer, data)

    def _build_body(self, request: ModelRequest, declined: Collection[str]) -> dict[str, object]:
        body: dict[str, object] = {**request_params(self._profile, request), "stream": True}
        if "system" in declined and body.pop("system", None):
            body["messages"] = request_params(self._profile, system_in_message(request))["messages"]
        if self._profile.sampling and request.temperature is not None:
            body["temperature"] = request.temperature
        return {name: value for name, value in body.items() if name not in declined}

    async def _open(
        self, body: Mapping[str, object], headers: Mapping[str, str]
    ) -> anthropic.AsyncStream[object]:
        # The SDK's own method would make objects of what arrives, without a look at it.
        return await self._client.post(
            "/v1/messages",
            cast_to=object,
            body=dict(body),
            options={"headers": dict(headers)},
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
        )
