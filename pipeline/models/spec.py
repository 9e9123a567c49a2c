"""A model as people write it: `anthropic:NAME`, or `openai:NAME@http://host:port/v1`."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pipeline.types import Frozen

_SPEC = re.compile(r"(?P<name>[^\s@,]+)(?:@(?P<url>\S*))?")


class ModelSpec(Frozen):
    """A model and the address that serves it."""

    provider: Literal["anthropic", "openai"]
    name: str
    base_url: str | None = None
    """None: the provider's own. Always set for `openai`."""

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}" + (f"@{self.base_url}" if self.base_url else "")


def parse_spec(text: str) -> ModelSpec:
    """The model that `text` names.

    Raises:
        ValueError: with one sentence that says what is wrong.
    """
    provider, _, rest = text.strip().partition(":")
    found = _SPEC.fullmatch(rest)
    if found is None:
        raise ValueError(
            f"{text!r} names no model: write anthropic:NAME or openai:NAME@http://host:port/v1."
        )
    name, url = found["name"], found["url"]
    base_url = None if url is None else validate_url(url)
    match provider:
        case "anthropic":
            return ModelSpec(provider="anthropic", name=name, base_url=base_url)
        case "openai" if base_url is not None:
            return ModelSpec(provider="openai", name=name, base_url=base_url)
        case "openai":
            raise ValueError(f"{text!r} has no address: write openai:{name}@http://host:port/v1.")
        case _:
            raise ValueError(f"{provider!r} is not a provider: write anthropic: or openai:.")


def parse_specs(text: str) -> tuple[ModelSpec, ...]:
    """The models that `text` names, separated by commas, in order of preference; at least one.

    Raises:
        ValueError: with one sentence that says what is wrong.
    """
    specs = tuple(parse_spec(one) for one in text.split(","))
    twice = next((spec for i, spec in enumerate(specs) if spec in specs[:i]), None)
    if twice is not None:
        raise ValueError(f"{twice} is named twice.")
    return specs


def validate_url(url: str) -> str:
    """`url` without its last slash.

    Raises:
        ValueError: not an http(s) address, or it holds a password, query or fragment.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is not an address.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{url!r} is not an address that begins with http:// or https://.")
    if parts.username is not None or parts.password is not None:
        raise ValueError("The address of a model may not hold a user or password; set the key.")
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} may have neither a query nor a fragment.")
    return url.rstrip("/")
