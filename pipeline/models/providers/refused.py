"""What a model service's refusal means; how each says it is data, in `refused.toml`."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, cast

from pipeline.models.base import (
    ContextTooLong,
    ModelError,
    ModelMisconfigured,
    ModelOverloaded,
    ModelRefused,
    ModelRetired,
    ModelUnavailable,
    NoCredit,
    WrongAddress,
    WrongKey,
)

_TRANSIENT: Final = frozenset({408, 409, 425, 429, 499})
"""Client errors that both SDKs retry, or that say that somebody hung up."""
_READABLE: Final = 20_000
"""Characters of a refusal that are read; some servers send the whole request back."""
_ECHOES: Final = frozenset({"input", "messages", "ctx", "request"})
"""Fields in which servers repeat what they were sent."""
_NAMES: Final = frozenset({"code", "type", "status", "finish_reason", "native_finish_reason"})

_CLASSES: Final[Mapping[str, tuple[type[ModelError], str]]] = {
    "too_long": (ContextTooLong, "The conversation is too long for {service}."),
    "reply_too_long": (ModelMisconfigured, "{service} gives no reply as long as we need{at}."),
    "no_credit": (NoCredit, "{service} requires a payment first: its account is empty{at}."),
    "declined": (ModelRefused, "{service} declined to answer."),
    "retired": (ModelRetired, "{service} does not know the model or the address{at}."),
    "wrong_key": (WrongKey, "{service} does not accept the key{at}."),
    "forbidden": (WrongKey, "{service} does not allow this key to use the model{at}."),
    "redirects": (
        WrongAddress, "{service} redirects to another host, which is not configured{at}."
    ),
    "rate_limit": (ModelOverloaded, "{service} limits our request rate{at}."),
    "overloaded": (ModelOverloaded, "{service} is overloaded{at}."),
    "failed": (ModelUnavailable, "{service} failed{at}."),
    "unknown": (ModelMisconfigured, "{service} does not accept our request{at}."),
}  # fmt: skip
_BY_STATUS: Final = {
    **dict.fromkeys((301, 302, 303, 307, 308), "redirects"),
    **dict.fromkeys(_TRANSIENT, "failed"),
    401: "wrong_key",
    402: "no_credit",
    403: "forbidden",
    404: "retired",
    413: "too_long",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}
_SAID_IN: Final[Mapping[str, frozenset[int]]] = {
    "reply_too_long": frozenset({400, 422, 500}),
    "too_long": frozenset({400, 413, 422, 500}),
    "no_system": frozenset({400, 422, 500}),
    "no_credit": frozenset({400, 402, 403, 429}),
    "declined": frozenset({400, 403, 422, 451, 500}),
    "retired": frozenset({400, 403, 404, 410, 422}),
    "wrong_key": frozenset({400, 401, 403}),
    "overloaded": frozenset({400, 403, 429, 500, 502, 503, 529}),
}
"""The statuses with which the words of a kind mean it, in the order in which they are tried."""


@dataclass(frozen=True)
class Refusal:
    """What a service answered in place of a reply."""

    status: int | None
    """HTTP's; None if it came inside a stream."""
    body: object
    """The decoded JSON, or a text."""
    cause: Exception | None = None
    """The SDK's error."""

    @cached_property
    def texts(self) -> str:
        """All that it says, in lower case."""
        return " ".join(text for _, text in _walk(self.body))[:_READABLE].lower()

    @cached_property
    def codes(self) -> frozenset[str]:
        return frozenset(text.lower() for name, text in _walk(self.body) if name in _NAMES)

    @property
    def is_page(self) -> bool:
        return isinstance(self.body, str) and self.body.lstrip()[:1] == "<"

    @cached_property
    def meant_status(self) -> int | None:
        """HTTP's, or the one that an error inside a stream names."""
        if self.status is not None and self.status >= 300:
            return self.status
        numbers = (int(code) for code in self.codes if re.fullmatch("[45][0-9][0-9]", code))
        named = (_table()["status"].get(code) for code in self.codes)
        return next(numbers, None) or next((one for one in named if one), None)

    @cached_property
    def kind(self) -> str:
        """One of the kinds of `refused.toml`, or of those that a status means."""
        status = self.meant_status
        if status != 413 and not self.is_page:
            for kind, statuses in _SAID_IN.items():
                if (status is None or status in statuses) and self._says(kind):
                    passes = kind == "no_credit" and status != 402 and self._says("rate_limit")
                    return "rate_limit" if passes else kind
        if (
            status is None
            or (status not in _BY_STATUS and status >= 500)
            or status in (_TRANSIENT - {429})
        ):
            return "failed"
        return _BY_STATUS.get(status, "unknown")

    def _says(self, kind: str) -> bool:
        table = _table()[kind]
        return not self.codes.isdisjoint(table["codes"]) or any(
            sentence in self.texts for sentence in table["sentences"]
        )

    def find_named(self, parameters: Collection[str]) -> set[str]:
        """Those of `parameters` that it objects to."""
        if self.meant_status not in (400, 404, 422, 500, 501, None) or self.is_page:
            return set()
        pointed = {text for name, text in _walk(self.body) if name == "param"}
        found = {one for one in parameters if one in pointed}
        words = set(re.findall(r"[a-z_]+", self.texts))
        return found or {one for one in parameters if one in words}

    def to_error(self, service: str, key: str = "") -> ModelError:
        """The error for it; its text quotes nothing of the body, its `words` do, without `key`."""
        kind = self.kind if self.kind in _CLASSES else "unknown"
        made, sentence = _CLASSES[kind]
        at = f" (HTTP {self.meant_status})" if self.meant_status else ""
        text = sentence.format(service=service, at=at)
        if self.is_page:
            text += " A web page came in place of an answer, perhaps from a proxy."
            if made is ModelMisconfigured:
                made = WrongAddress
        return made(text, words=self._quote(key))

    def _quote(self, key: str) -> str:
        if self.is_page:
            return ""
        left_out = _NAMES | {"param", "loc", "request_id"}
        said = [text for name, text in _walk(self.body) if name not in left_out]
        text = " ".join(" ".join(said)[:_READABLE].split())
        text = text.replace(key, "…") if len(key) > 3 else text
        shown = "".join(letter if letter.isprintable() else "�" for letter in text)
        return f"{shown[:199]}…" if len(shown) > 200 else shown


def finish_kind(reason: str) -> str:
    """`length`, `declined`, `too_long`, `failed`, or "" for a whole reply."""
    return next(
        (kind for kind, reasons in _table()["finish"].items() if reason.lower() in reasons), ""
    )


def _walk(body: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text and number in `body`, with the name of its field; not what it repeats of ours."""
    if depth > 6:
        return
    if isinstance(body, str):
        yield name, body[:_READABLE]
    elif isinstance(body, int) and not isinstance(body, bool):
        yield name, str(body)[:40]
    elif isinstance(body, Mapping):
        for key, value in list(cast(Mapping[object, object], body).items())[:100]:
            if str(key) not in _ECHOES:
                # Google names the duration in its field.
                if str(key).lower() == "retrydelay":
                    yield "retrydelay", "retrydelay"
                yield from _walk(value, str(key), depth + 1)
    elif isinstance(body, Sequence) and not isinstance(body, bytes):
        for value in cast(Sequence[object], body)[:100]:
            yield from _walk(value, name, depth + 1)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("refused.toml").read_text("utf-8"))
