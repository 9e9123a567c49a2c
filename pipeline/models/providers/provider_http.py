"""What both clients share at the HTTP edge: keys, headers, text, and the meaning of a status."""

import asyncio
import dataclasses
import json
import re
import ssl
from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias
from urllib.parse import urlsplit

import httpx2

from pipeline.data.types import Usage
from pipeline.models.base import (
    ContextTooLong,
    Model,
    ModelError,
    ModelMisconfigured,
    ModelProfile,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    ModelUnreachable,
    Reply,
    WindowTooSmall,
    WrongAddress,
)
from pipeline.models.metering import most_tokens
from pipeline.models.providers.answers import Answer
from pipeline.models.providers.refused import Refusal, finish_kind
from sandbox.connection_errors import connection_cause, is_untrusted
from sandbox.frozen import replace

if TYPE_CHECKING:
    import anthropic
    import openai

CALL_HEADER = "X-Capuchin-Call"
"""The header that names each request, for gateways, logs and recordings."""

DOCTOR_CALL = "doctor/0"
"""What `capuchin doctor` names its question to each model."""

NO_KEY = "EMPTY"
"""What vLLM's documentation sends to a server that wants no key."""

SILENCE_SECONDS = 600.0
"""Seconds a service may be silent; both SDKs' own default."""

CONNECT_SECONDS = 10.0

SDK_RETRIES = 2
"""Both SDKs' own default; they obey `retry-after`."""


@cache
def ssl_context() -> ssl.SSLContext:
    """The authorities that both SDKs trust by themselves, read once for all clients: reading them
    takes longer than all else in making one.

    Raises:
        ModelMisconfigured: the file or folder of own authorities cannot be read.
    """
    try:
        return httpx2.create_ssl_context()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ModelMisconfigured(
            "The certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read "
            f"({error}). Correct or unset it."
        ) from error


@contextmanager
def name_proxy_mistakes() -> Generator[None]:
    """Raise ModelMisconfigured where the environment names a proxy that no client can use."""
    try:
        yield
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        raise ModelMisconfigured(
            f"The proxy that the environment names cannot be used: {error}"
        ) from error


async def block_foreign_redirect(response: httpx2.Response) -> None:
    """For `event_hooks`: follow redirects within the service's own host only.

    Otherwise code and the key would go to a host that nobody configured.
    """
    if not response.has_redirect_location:
        return
    asked = response.request.url
    if asked.join(response.headers["location"]).host != asked.host:
        del response.headers["location"]


def event_hooks() -> dict[str, list[Callable[..., Any]]]:
    """The `event_hooks` of every client of a service."""
    return {"response": [block_foreign_redirect]}


@dataclass(frozen=True)
class Endpoint:
    """Where a service is, and how to call it."""

    base_url: str
    """Ends in `/v1` for servers that speak OpenAI's protocol, and not for Anthropic's."""
    api_key: str = NO_KEY
    silence_seconds: float = SILENCE_SECONDS
    sdk_retries: int = SDK_RETRIES

    @property
    def timeout(self) -> httpx2.Timeout:
        return httpx2.Timeout(self.silence_seconds, connect=CONNECT_SECONDS)


Stream: TypeAlias = "anthropic.AsyncStream[object] | openai.AsyncStream[object]"


class ProviderClient(Model):
    """What both clients share: asking again without what a service declines, and its errors."""

    sdk_errors: ClassVar[tuple[type[Exception], ...]]
    """The SDK's own, and `TRANSPORT_ERRORS`."""
    protocol: ClassVar[str]
    required: ClassVar[frozenset[str]]
    """Fields of a request that cannot be left out."""
    guesses: ClassVar[tuple[frozenset[str], ...]] = ()
    """What to leave out, one after the other, where a service does not say what it declines."""

    def __init__(self, profile: ModelProfile, endpoint: Endpoint) -> None:
        """Raises ModelMisconfigured when the endpoint's key is unusable."""
        self._profile = profile
        self.service = (
            f"{profile.provider}:{profile.name} at {urlsplit(endpoint.base_url).hostname}"
        )
        """The service's name in error messages."""
        self._key = validate_key(self.service, endpoint.api_key)
        self._declined: frozenset[str] = frozenset()
        self._longest_reply = profile.max_output

    @property
    def profile(self) -> ModelProfile:
        return self._profile

    @abstractmethod
    def _add(self, answer: Answer, data: object) -> None:
        """Add what arrived to `answer`."""

    @abstractmethod
    def _build_body(self, request: ModelRequest, declined: Collection[str]) -> dict[str, object]:
        """The fields of a request without `declined`; `system` among them means that its text
        stands at the beginning of the first message."""

    @abstractmethod
    async def _open(self, body: Mapping[str, object], headers: Mapping[str, str]) -> Stream:
        """Send a request. Raises the SDK's errors."""

    async def complete(self, request: ModelRequest) -> Reply:
        """What a service declines is left out of every later request, too."""
        headers = call_headers(request.call)
        declined, longest = self._declined, self._longest_reply
        while True:
            asked = dataclasses.replace(
                request, max_tokens=min(request.max_tokens or self._profile.max_output, longest)
            )
            body = self._build_body(asked, declined)
            answer = Answer()
            refusal = await self._ask(answer, body, headers, asked)
            if refusal is None:
                self._declined |= declined
                self._longest_reply = min(longest, self._longest_reply)
                return self._build_reply(answer, asked)
            if refusal.kind == "reply_too_long" and (asked.max_tokens or 0) >= SHORTEST_REPLY * 2:
                longest = (asked.max_tokens or 0) // 2
            elif more := self._find_declined(refusal, body, declined):
                declined |= more
            else:
                error = refusal.to_error(self.service, self._key)
                error.usage = self._usage_so_far(answer, asked)
                raise error from refusal.cause

    async def _ask(
        self,
        answer: Answer,
        body: Mapping[str, object],
        headers: Mapping[str, str],
        request: ModelRequest,
    ) -> Refusal | None:
        """Read the reply into `answer`; what the service said instead, if it refused.

        Raises:
            ModelUnreachable, WrongAddress: there is no connection, or nothing that answers us.
        """
        try:
            with keep_usage_on_cancel(answer):
                await self._read(answer, await self._open(body, headers))
        except self.sdk_errors as error:
            if (refusal := _refusal_of(error)) is not None:
                return refusal
            raise _connection_error(
                self.service, error, self._usage_so_far(answer, request)
            ) from error
        return Refusal(None, answer.failure) if answer.failure else None

    async def _read(self, answer: Answer, stream: Stream) -> None:
        async with stream:
            kind = stream.response.headers.get("content-type", "").lower()
            if kind.startswith("text/event-stream"):
                async for event in stream:
                    self._add(answer, event)
                    if answer.failure:
                        return
                ended = getattr(stream, "is_done", False)
            else:  # not streamed, or called something else
                data = await stream.response.aread()
                events = _EVENT.findall(data)
                ended = not events or events[-1] == b"[DONE]"  # a whole reply, or a whole stream
                for event in events or [data]:
                    if event.lstrip()[:1] == b"{":
                        self._add(answer, json.loads(event))
                if answer.stop_reason is None and not answer.failure and not any(answer.text):
                    raise WrongAddress(f"{self.service} does not speak {self.protocol}.")
            if ended and any(answer.text):
                answer.stop_reason = answer.stop_reason or "stop"  # some say no more than [DONE]

    def _find_declined(
        self, refusal: Refusal, body: Mapping[str, object], declined: Collection[str]
    ) -> frozenset[str]:
        """What to leave out of the next request; nothing if that cannot help."""
        if refusal.kind == "no_system":
            return frozenset() if "system" in declined else frozenset({"system"})
        if refusal.kind not in ("unknown", "retired", "failed"):
            return frozenset()
        if named := refusal.find_named(body.keys() - self.required):
            together = self.guesses[:1]  # one does not go without the other
            return frozenset(named).union(*(group for group in together if group & named))
        if refusal.meant_status in (400, 404, 422, 501):
            left = (group for group in self.guesses if group & body.keys())
            return next(left, frozenset[str]())
        return frozenset()

    def _build_reply(self, answer: Answer, request: ModelRequest | None) -> Reply:
        """Raises a ModelError if it is no whole reply. `request`: what it answers, if known."""
        usage = self._usage_so_far(answer, request) if request else answer.usage
        kind = finish_kind(answer.stop_reason or "")
        if answer.stop_reason is None or kind == "failed":
            raise ModelUnavailable(f"{self.service} stopped in mid-answer.", usage)
        if answer.refused or kind == "declined":
            raise ModelRefused(f"{self.service} declined to answer.", usage)
        if kind == "too_long":
            raise ContextTooLong(f"The conversation is too long for {self.service}.", usage)
        if request:
            self._check_window(answer, request)
        thinking, text = answer.split()
        return Reply(
            text=replace_surrogates(text),
            thinking=replace_surrogates(thinking),
            usage=usage or Usage(),
            model=replace_surrogates(answer.model) or self._profile.name,
            stopped="length" if kind == "length" else "end",
            uncounted=answer.usage is None,
        )

    def _usage_so_far(self, answer: Answer, request: ModelRequest) -> Usage | None:
        """What the service counted; a bound if it delivered something and counted nothing."""
        if answer.usage is not None:
            return answer.usage
        said = "".join((*answer.text, *answer.thinking))
        if not said and answer.stop_reason is None:
            return None
        pictures = sum(len(message.pictures) for message in request.messages)
        return Usage(
            input=most_tokens(_texts(request), pictures=pictures), output=most_tokens([said])
        )

    def _check_window(self, answer: Answer, request: ModelRequest) -> None:
        """Raise WindowTooSmall if the server cut what it read, which some say in `usage` alone.

        No tokenizer joins words in number: half as many tokens as words were not the whole prompt.
        """
        if answer.usage is None:
            return
        read = answer.usage.input + answer.usage.cache_read + answer.usage.cache_write
        texts = _texts(request)
        if read * 4 >= sum(map(len, texts)):  # a word and its blank are two characters at least
            return
        words = sum(1 for text in texts for _ in re.finditer(r"\w+", text))
        if words > SMALL_PROMPT and read * 2 < words:
            raise WindowTooSmall(
                f"{self.service} read {read:,} tokens of more than {words:,} that it was sent: its "
                "window is set too small, and it cuts without a word. Give it a larger one, for "
                "Ollama by OLLAMA_CONTEXT_LENGTH or num_ctx.",
                answer.usage,
            )


_EVENT: Final = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)
"""The data of one event of a stream: services send each on one line."""
TRANSPORT_ERRORS: Final = (httpx2.HTTPError, httpx2.StreamError, ValueError, RecursionError)
"""What reading a stream raises beside the SDKs' errors; nonsense in place of JSON among it."""
SHORTEST_REPLY: Final = 512
"""Tokens; a service that gives less than this is of no use."""
SMALL_PROMPT: Final = 1000
"""Words up to which a prompt is not compared with what was read of it."""


def _texts(request: ModelRequest) -> list[str]:
    return [request.system, *(message.text for message in request.messages)]


def _refusal_of(error: Exception) -> Refusal | None:
    """What a service answered, out of an SDK's error; None if it did not answer."""
    status = getattr(error, "status_code", None)
    body: object = getattr(error, "body", None)
    if not isinstance(status, int) and not body:
        return None
    return Refusal(status if isinstance(status, int) and status >= 300 else None, body, error)


def _connection_error(service: str, error: Exception, usage: Usage | None = None) -> ModelError:
    cause = connection_cause(error)
    if is_untrusted(error):
        return WrongAddress(
            f"{service} cannot be reached: {cause}. Name its authority in SSL_CERT_FILE.", usage
        )
    return ModelUnreachable(
        f"{service} cannot be reached, or hung up{f': {cause}' if cause else ''}.", usage
    )


def translate_error(service: str, error: Exception, key: str = "") -> ModelError:
    """The error for one of the SDKs', or of the connection's."""
    refusal = _refusal_of(error)
    return refusal.to_error(service, key) if refusal else _connection_error(service, error)


@contextmanager
def keep_usage_on_cancel(state: Answer) -> Generator[None]:
    """Wraps reading a stream: `usage_of` a cancellation returns what was counted by then."""
    try:
        yield
    except asyncio.CancelledError as cancelled:
        vars(cancelled)["usage"] = state.usage
        raise


def validate_key(service: str, key: str) -> str:
    """`key` itself.

    Raises:
        ModelMisconfigured: it is empty or cannot be put in a header.
    """
    if not key:
        raise ModelMisconfigured(f"No key is set for {service}.")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelMisconfigured(
            f"The key for {service} contains a space, a line break or a non-ASCII character."
        )
    return key


def call_headers(call: str) -> dict[str, str]:
    """The header that names the request.

    Raises:
        ValueError: `call` is not printable ASCII.
    """
    if not (call.isascii() and call.isprintable()):
        raise ValueError(f"not the name of a call: {call!r}")
    return {CALL_HEADER: call}


def system_in_message(request: ModelRequest) -> ModelRequest:
    """`request` with its system prompt at the beginning of the first message."""
    if not request.system:
        return request
    first, *rest = request.messages
    opening = replace(first, text=f"{request.system}\n\n{first.text}")
    return dataclasses.replace(request, system="", messages=(opening, *rest))


def replace_surrogates(text: str) -> str:
    """`text` with lone surrogates replaced: undecodable bytes of a file become such."""
    return text.encode("utf-8", "replace").decode("utf-8")
