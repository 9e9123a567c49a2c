"""What each model is, can do and costs: `prices.json`, and what is assumed of the others."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from pipeline.models.base import ModelProfile, Price
from pipeline.models.spec import ModelSpec
from pipeline.types import Frozen, replace

RECORDED_PREFIX = "recorded-"
"""Begins the name of a recording; what follows is the model that it stands for."""

_DATE_SUFFIX = re.compile(r"-\d{8}$")


class ModelFacts(Frozen):
    price: Price
    window: int
    max_output: int
    sampling: bool
    thinking: bool = False
    """Whether the service takes a number of tokens to think before a reply."""


class PriceTable(Frozen):
    version: Literal[1]
    """Of this format."""
    date: str
    """When the list was taken down, as YYYY-MM."""
    source: str
    models: dict[str, ModelFacts]
    unknown: ModelFacts
    """Assumed of a paid model that is not in the list: dearer than any that is."""
    local: ModelFacts
    """Assumed of a model on a server of one's own."""
    paid_hosts: tuple[str, ...]
    """Domains whose models are somebody else's, and so not free."""
    own: tuple[str, ...] = ()
    """Names in `models` that an operator's file gave."""
    own_date: str = ""
    """When that was taken down."""


class PricedProfile(Frozen):
    """A profile, and how far its price can be trusted."""

    profile: ModelProfile
    price_source: Literal["list", "local", "unknown"]
    note: str
    """One sentence for reports: where the price comes from."""


class PricesInvalid(Exception):
    """A file is not a file of prices; the text says where and why."""


class OwnPrices(Frozen):
    """What an operator knows better; the same as the table, and all of it may be left out."""

    version: Literal[1]
    date: str
    """When these were taken down, as YYYY-MM."""
    models: dict[str, ModelFacts] = Field(default_factory=dict[str, ModelFacts])
    """In place of the table's of the same name, or beside them."""
    unknown: ModelFacts | None = None
    local: ModelFacts | None = None
    paid_hosts: tuple[str, ...] = ()
    """Beside the table's."""


@cache
def price_table() -> PriceTable:
    """What is shipped."""
    return PriceTable.model_validate_json(Path(__file__).with_name("prices.json").read_bytes())


def read_prices(path: Path) -> PriceTable:
    """The shipped table with what the file at `path` says instead.

    Raises:
        PricesInvalid: it cannot be read, or is not in the form of `OwnPrices`.
    """
    try:
        own = OwnPrices.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PricesInvalid(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PricesInvalid(f"{path}: {f'{where}: ' if where else ''}{first['msg']}.") from error
    table = price_table()
    return replace(
        table,
        own=tuple(own.models),
        own_date=own.date,
        models={**table.models, **own.models},
        unknown=own.unknown or table.unknown,
        local=own.local or table.local,
        paid_hosts=(*table.paid_hosts, *own.paid_hosts),
    )


def look_up(spec: ModelSpec, table: PriceTable | None = None) -> PricedProfile:
    """What is known of the model that `spec` names. Never fails: the unknown is priced high.

    `table` is the shipped one unless given.
    A recording is priced as the model that it stands for, and keeps its own name.
    """
    table = table or price_table()
    name = spec.name.removeprefix(RECORDED_PREFIX)
    listed = name if name in table.models else _DATE_SUFFIX.sub("", name)
    facts = table.models.get(listed)
    if facts is not None:
        note = f"{name} is counted at the list price of {table.date}."
        if listed in table.own:
            note = f"{name} is counted at the operator's own price of {table.own_date}."
        return _build_profile(spec, facts, "list", note)
    if spec.provider == "openai" and not _is_paid(spec.base_url, table):
        return _build_profile(
            spec, table.local, "local", f"{name} runs on a server of one's own: free."
        )
    price = table.unknown.price
    note = (
        f"The price of {name} is not known; it is counted at ${price.input:g} and "
        f"${price.output:g} per million tokens in and out, more than any model of the list."
    )
    return _build_profile(spec, table.unknown, "unknown", note)


def _build_profile(
    spec: ModelSpec, facts: ModelFacts, price_source: Literal["list", "local", "unknown"], note: str
) -> PricedProfile:
    profile = ModelProfile(
        provider=spec.provider,
        name=spec.name,
        window=facts.window,
        max_output=facts.max_output,
        # Chat completions always take a temperature; Anthropic's models of today do not.
        sampling=facts.sampling or spec.provider == "openai",
        price=facts.price,
        price_note="" if price_source == "list" else note,
        # A server of chat completions is asked as vLLM is; one that declines is asked without.
        thinking=facts.thinking or spec.provider == "openai",
    )
    return PricedProfile(profile=profile, price_source=price_source, note=note)


def _is_paid(base_url: str | None, table: PriceTable) -> bool:
    host = (urlsplit(base_url or "").hostname or "").rstrip(".")
    return any(host == paid or host.endswith(f".{paid}") for paid in table.paid_hosts)
