"""The Anthropic SDK behind `Model`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import anthropic
from anthropic.types import (
    CacheControlEphemeralParam,
    ImageBlockParam,
    MessageParam,
    TextBlockParam,
    ThinkingConfigEnabledParam,
)
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from anthropic.types.messages import (
    MessageBatchErroredResult,
    MessageBatchIndividualResponse,
    MessageBatchSucceededResult,
)
from anthropic.types.messages.batch_create_params import Request

from pipeline.data.types import Picture
from pipeline.models.base import (
    HOUR,
    Message,
    ModelError,
    ModelProfile,
    ModelRequest,
    ModelUnavailable,
    Reply,
)
from pipeline.models.batches import SubmittedBatch
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
    translate_error,
)
from pipeline.models.providers.refused import Refusal
from sandbox.frozen import replace


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

    Thinking is kept apart from the reply, and never sent back. Also implements
    `pipeline.models.batches.BatchService`.
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

    async def submit(self, requests: Mapping[str, ModelRequest]) -> str:
        """See `BatchService`. https://platform.claude.com/docs/en/build-with-claude/batch-processing"""
        # The SDK would send it a second time where only the answer was lost, and both are paid.
        once = self._client.with_options(max_retries=0)
        try:
            batch = await once.messages.batches.create(
                requests=[
                    Request(custom_id=name, params=request_params(self._profile, request))
                    for name, request in requests.items()
                ]
            )
        except self.sdk_errors as error:
            raise translate_error(self.service, error, self._key) from error
        return batch.id

    async def list_batches(self, since: datetime, until: datetime) -> list[SubmittedBatch]:
        """See `BatchService`. https://platform.claude.com/docs/en/api/listing-message-batches"""
        found: list[SubmittedBatch] = []
        try:
            async for batch in self._client.messages.batches.list(limit=100):
                if batch.created_at < since:
                    break
                if batch.created_at <= until:
                    counts = batch.request_counts.model_dump().values()
                    found.append(SubmittedBatch(batch.id, batch.created_at, sum(counts)))
        except self.sdk_errors as error:
            raise translate_error(self.service, error, self._key) from error
        return found

    async def fetch_results(self, batch: str) -> dict[str, Reply | ModelError] | None:
        try:
            state = await self._client.messages.batches.retrieve(batch)
            if state.processing_status != "ended":
                return None
            results = await self._client.messages.batches.results(batch)
            return {one.custom_id: self._batch_result(one) async for one in results}
        except self.sdk_errors as error:
            raise translate_error(self.service, error, self._key) from error

    def _batch_result(self, one: MessageBatchIndividualResponse) -> Reply | ModelError:
        match one.result:
            case MessageBatchSucceededResult() as done:
                answer = Answer()
                read_message(answer, done.message.model_dump(warnings=False))
                try:
                    return replace(self._build_reply(answer, None), batched=True)
                except ModelError as error:
                    return error
            case MessageBatchErroredResult() as failed:
                refusal = Refusal(None, failed.error.error.model_dump(warnings=False))
                return refusal.to_error(self.service, self._key)
            case other:
                return ModelUnavailable(f"{self.service} has {other.type} what was asked in batch.")

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
