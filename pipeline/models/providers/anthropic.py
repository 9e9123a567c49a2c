"""The Anthropic SDK behind `Model`: streamed, with cache marks, and with its errors as ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

import anthropic
import httpx2
from anthropic.types.messages import (
    MessageBatchErroredResult,
    MessageBatchIndividualResponse,
    MessageBatchSucceededResult,
)
from anthropic.types.messages.batch_create_params import Request

from pipeline.models.base import (
    ContextTooLong,
    ModelError,
    ModelMisconfigured,
    ModelProfile,
    ModelRefused,
    ModelUnavailable,
    Reply,
)
from pipeline.models.batches.service import Taken
from pipeline.models.providers.anthropic_messages import Heard, params_of
from pipeline.models.providers.http import (
    CONNECT_SECONDS,
    SDK_RETRIES,
    SILENCE_SECONDS,
    Client,
    call_headers,
    checked_key,
    counted,
    failure,
    hooks,
    sendable,
    trusted,
)
from pipeline.models.wrappers.base import Question
from pipeline.types import Usage

PUBLIC_URL = "https://api.anthropic.com"

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""An error inside a stream comes after the 200. https://platform.claude.com/docs/en/api/errors"""

_SAID = (anthropic.APIError, httpx2.TransportError, json.JSONDecodeError)
_TOO_LONG = ("prompt is too long", "exceed context limit")


class AnthropicModel(Client):
    """`Model` over `POST {base_url}/v1/messages`. Close it with `aclose()`.

    What the model thinks aloud is kept apart from the reply, and never sent back. It is a
    `pipeline.models.batches.service.BatchService`, too.
    """

    def __init__(
        self,
        profile: ModelProfile,
        *,
        api_key: str,
        base_url: str = PUBLIC_URL,
        silence_seconds: float = SILENCE_SECONDS,
        sdk_retries: int = SDK_RETRIES,
    ) -> None:
        """Raises ModelMisconfigured when `api_key` is no key."""
        super().__init__(profile, base_url)
        # With key and address given, the SDK looks for neither in the environment or a profile.
        self._client = anthropic.AsyncAnthropic(
            api_key=checked_key(self.service, api_key),
            base_url=base_url,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=trusted(), event_hooks=hooks()),
            timeout=httpx2.Timeout(silence_seconds, connect=CONNECT_SECONDS),
            max_retries=sdk_retries,
            open_telemetry=False,
        )

    async def aclose(self) -> None:
        await self._client.close()

    async def answer(self, question: Question) -> Reply:
        heard = Heard()
        try:
            with counted(heard):
                await self._listen(heard, question)
        except _SAID as error:
            raise self._failure(error, heard.usage) from error
        return self._reply(heard)

    async def submit(self, questions: Mapping[str, Question]) -> str:
        """See `BatchService`. https://platform.claude.com/docs/en/build-with-claude/batch-processing"""
        # The SDK would send it a second time where only the answer was lost, and both are paid.
        once = self._client.with_options(max_retries=0)
        try:
            batch = await once.messages.batches.create(
                requests=[
                    Request(custom_id=name, params=params_of(self._profile, question))
                    for name, question in questions.items()
                ]
            )
        except _SAID as error:
            raise self._failure(error, None) from error
        return batch.id

    async def taken(self, since: datetime, until: datetime) -> list[Taken]:
        """See `BatchService`. https://platform.claude.com/docs/en/api/listing-message-batches"""
        found: list[Taken] = []
        try:
            async for batch in self._client.messages.batches.list(limit=100):
                if batch.created_at < since:
                    break
                if batch.created_at <= until:
                    counts = batch.request_counts.model_dump().values()
                    found.append(Taken(batch.id, batch.created_at, sum(counts)))
        except _SAID as error:
            raise self._failure(error, None) from error
        return found

    async def collected(self, batch: str) -> dict[str, Reply | ModelError] | None:
        """See `BatchService`."""
        try:
            state = await self._client.messages.batches.retrieve(batch)
            if state.processing_status != "ended":
                return None
            results = await self._client.messages.batches.results(batch)
            return {one.custom_id: self._one(one) async for one in results}
        except _SAID as error:
            raise self._failure(error, None) from error

    def _one(self, one: MessageBatchIndividualResponse) -> Reply | ModelError:
        match one.result:
            case MessageBatchSucceededResult() as done:
                heard = Heard()
                heard.hear_whole(done.message)
                try:
                    return self._reply(heard).model_copy(update={"batched": True})
                except ModelError as error:
                    return error
            case MessageBatchErroredResult() as failed:
                error = failed.error.error
                return self._meant(_STATUS_OF_TYPE.get(str(error.type), 500), error.message)
            case other:
                return ModelUnavailable(f"{self.service} has {other.type} what was asked in batch.")

    async def _listen(self, heard: Heard, question: Question) -> None:
        said = params_of(self._profile, question)
        sampled = self._profile.sampling and question.temperature is not None
        stream = await self._client.messages.create(
            model=said["model"],
            messages=said["messages"],
            max_tokens=said["max_tokens"],
            system=said.get("system", anthropic.omit),
            thinking=said.get("thinking", anthropic.omit),
            stream=True,
            extra_headers=call_headers(question.call),
            extra_body={"temperature": question.temperature} if sampled else None,
        )
        async with stream:
            if not stream.response.headers.get("content-type", "").startswith("text/event-stream"):
                raise ModelMisconfigured(f"{self.service} does not speak Anthropic's protocol.")
            async for event in stream:
                heard.hear(event)

    def _reply(self, heard: Heard) -> Reply:
        match heard.stop_reason:
            case None:
                raise ModelUnavailable(f"{self.service} stopped in mid-answer.", heard.usage)
            case "refusal":
                raise ModelRefused(f"{self.service} declined to answer.", heard.usage)
            case "model_context_window_exceeded":
                raise ContextTooLong(
                    f"The conversation is too long for {self.service}.", heard.usage
                )
            case reason:
                return Reply(
                    text=sendable("".join(heard.text)),
                    thinking=sendable("".join(heard.thinking)),
                    usage=heard.usage or Usage(),
                    model=sendable(heard.model),
                    stopped="length" if reason == "max_tokens" else "end",
                )

    def _failure(self, error: Exception, usage: Usage | None) -> ModelError:
        if not isinstance(error, anthropic.APIStatusError):
            return ModelUnavailable(f"{self.service} cannot be reached, or hung up.", usage)
        status = error.status_code
        if status < 300:
            status = _STATUS_OF_TYPE.get(str(error.type), 500)
        mapped = self._meant(status, error.api_message or "")
        mapped.usage = usage
        return mapped

    def _meant(self, status: int, message: str) -> ModelError:
        too_long = any(words in message.lower() for words in _TOO_LONG)
        return failure(self.service, status, too_long=too_long)
