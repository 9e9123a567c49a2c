"""Log-probabilities of OpenAI-compatible servers."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast
from urllib.parse import urlsplit

import openai
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

from pipeline.data.types import Usage
from pipeline.models.base import ModelProfile, ScoreUnavailable
from pipeline.models.providers.openai_chat import connect
from pipeline.models.providers.provider_http import (
    TRANSPORT_ERRORS,
    Endpoint,
    call_headers,
    replace_surrogates,
    translate_error,
)

SILENCE_SECONDS = 120.0
"""Seconds the server may be silent: it writes one token, and reads one edit."""
_ALTERNATIVES = 20
"""The most alternatives that the protocol allows for each token."""
_NO_THOUGHT: Mapping[str, object] = MappingProxyType(
    {"chat_template_kwargs": {"enable_thinking": False}}
)
"""What a model that may think is asked for: its first token is the verdict, as in training."""
_NO_EXTRA: Mapping[str, object] = MappingProxyType({})


class OpenAILikelihood:
    """`Likelihood` over `POST {base_url}/chat/completions`. Close it with `aclose()`."""

    def __init__(self, profile: ModelProfile, *, base_url: str, api_key: str) -> None:
        """Raises ModelMisconfigured if `api_key` cannot be a key. `base_url` ends in `/v1`."""
        self._profile = profile
        self._service = f"{profile.provider}:{profile.name} at {urlsplit(base_url).hostname}"
        self._client = connect(
            self._service, Endpoint(base_url, api_key, silence_seconds=SILENCE_SECONDS)
        )
        self._switches: Mapping[str, object] = _NO_THOUGHT

    @property
    def profile(self) -> ModelProfile:
        return self._profile

    async def aclose(self) -> None:
        await self._client.close()

    async def first_token(
        self, system: str, question: str, *, call: str
    ) -> tuple[dict[str, float], Usage]:
        answer = await self._ask(
            [{"role": "system", "content": system}, {"role": "user", "content": question}],
            call,
            top_logprobs=_ALTERNATIVES,
        )
        chances: dict[str, float] = {}
        for choice in answer.choices[:1]:
            for token in (choice.logprobs.content or [])[:1] if choice.logprobs else []:
                for one in token.top_logprobs or [token]:
                    name = one.token.strip()
                    chances[name] = chances.get(name, 0.0) + _probability(one.logprob)
        if not any(chances.values()):
            raise ScoreUnavailable(f"{self._service} gave no log-probabilities.")
        return {name: math.log(chance) for name, chance in chances.items() if chance}, _to_usage(
            answer
        )

    async def answer(self, question: str, text: str, *, call: str) -> tuple[float, Usage]:
        """See `Likelihood.answer`.

        A prompt that ends before the answer shows how many of the tokens are the question's, so no
        tokenizer is needed. https://docs.vllm.ai/en/latest/api/vllm/sampling_params.html
        """
        asked: list[ChatCompletionMessageParam] = [
            {"role": "user", "content": replace_surrogates(question)}
        ]
        before = await self._ask(asked, call)
        whole = await self._ask(
            [*asked, {"role": "assistant", "content": replace_surrogates(text)}],
            call,
            # vLLM's own: log-probabilities of the prompt's tokens, which end with our answer.
            extra={
                "prompt_logprobs": 0,
                "add_generation_prompt": False,
                "continue_final_message": True,
            },
        )
        tokens = cast(object, (whole.model_extra or {}).get("prompt_logprobs"))
        skipped = before.usage.prompt_tokens if before.usage else 0
        if not isinstance(tokens, list) or not 0 < skipped < len(cast(list[object], tokens)):
            raise ScoreUnavailable(f"{self._service} gave no log-probabilities of the prompt.")
        values = [_token_logprob(token) for token in cast(list[object], tokens)[skipped:]]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            raise ScoreUnavailable(f"{self._service} gave log-probabilities that are not numbers.")
        return sum(known), _to_usage(before) + _to_usage(whole)

    async def _ask(
        self,
        messages: Sequence[ChatCompletionMessageParam],
        call: str,
        *,
        top_logprobs: int = 0,
        extra: Mapping[str, object] = _NO_EXTRA,
    ) -> ChatCompletion:
        try:
            found = cast(
                object,
                await self._client.chat.completions.create(
                    model=self._profile.name,
                    messages=list(messages),
                    max_tokens=1,
                    temperature=0,
                    logprobs=True if top_logprobs else openai.omit,
                    top_logprobs=top_logprobs or openai.omit,
                    extra_headers=call_headers(call),
                    extra_body={**self._switches, **extra} or None,
                ),
            )
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            if not self._switches:
                raise translate_error(self._service, error) from error
            self._switches = _NO_EXTRA  # it knows no templates
            return await self._ask(messages, call, top_logprobs=top_logprobs, extra=extra)
        except (openai.APIError, *TRANSPORT_ERRORS) as error:
            raise translate_error(self._service, error) from error
        if not isinstance(found, ChatCompletion) or not cast(object, found.choices):
            raise ScoreUnavailable(f"{self._service} does not speak chat completions.")
        return found


def _probability(logprob: float) -> float:
    return math.exp(min(logprob, 0.0)) if math.isfinite(logprob) else 0.0


def _token_logprob(token: object) -> float | None:
    """The log-probability of the token that stands in the prompt: the first that is listed."""
    if not isinstance(token, Mapping):
        return None
    for entry in cast(Mapping[str, object], token).values():
        value = (
            cast(Mapping[str, object], entry).get("logprob") if isinstance(entry, Mapping) else 0
        )
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
        return None
    return None


def _to_usage(answer: ChatCompletion) -> Usage:
    counted = answer.usage
    return (
        Usage(input=counted.prompt_tokens, output=counted.completion_tokens) if counted else Usage()
    )
