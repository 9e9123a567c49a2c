"""What each model is, can do and costs: `prices.json`, and what is assumed of the others."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from pipeline.models.base import ModelProfile, Price
from pipeline.models.spec import ModelSpec

RECORDED = "recorded-"
"""Begins the name of a recording; what follows is the model that it stands for."""

_DATED = re.compile(r"-\d{8}$")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Facts(_Strict):
    price: Price
    window: int
    max_output: int
    sampling: bool


class PriceTable(_Strict):
    date: str
    """When the list was taken down, as YYYY-MM."""
    source: str
    models: dict[str, Facts]
    unknown: Facts
    """Assumed of a paid model that is not in the list: dearer than any that is."""
    local: Facts
    """Assumed of a model on a server of one's own."""
    paid_hosts: tuple[str, ...]
    """Domains whose models are somebody else's, and so not free."""


class Known(_Strict):
    """A profile, and how far its price can be trusted."""

    profile: ModelProfile
    priced: Literal["list", "local", "unknown"]
    note: str
    """One sentence for reports: where the price comes from."""


@cache
def price_table() -> PriceTable:
    return PriceTable.model_validate_json(Path(__file__).with_name("prices.json").read_bytes())


def look_up(spec: ModelSpec) -> Known:
    """What is known of the model that `spec` names. Never fails: the unknown is priced high.

    A recording is priced as the model that it stands for, and keeps its own name.
    """
    table = price_table()
    name = spec.name.removeprefix(RECORDED)
    facts = table.models.get(name) or table.models.get(_DATED.sub("", name))
    if facts is not None:
        note = f"{name} is counted at the list price of {table.date}."
        return _known(spec, facts, "list", note)
    if spec.provider == "openai" and not _is_paid(spec.base_url, table):
        return _known(spec, table.local, "local", f"{name} runs on a server of one's own: free.")
    price = table.unknown.price
    note = (
        f"The price of {name} is not known; it is counted at ${price.input:g} and "
        f"${price.output:g} per million tokens in and out, more than any model of the list."
    )
    return _known(spec, table.unknown, "unknown", note)


def _known(
    spec: ModelSpec, facts: Facts, priced: Literal["list", "local", "unknown"], note: str
) -> Known:
    profile = ModelProfile(
        provider=spec.provider,
        name=spec.name,
        window=facts.window,
        max_output=facts.max_output,
        # Chat completions always take a temperature; Anthropic's models of today do not.
        sampling=facts.sampling or spec.provider == "openai",
        price=facts.price,
    )
    return Known(profile=profile, priced=priced, note=note)


def _is_paid(base_url: str | None, table: PriceTable) -> bool:
    host = (urlsplit(base_url or "").hostname or "").rstrip(".")
    return any(host == paid or host.endswith(f".{paid}") for paid in table.paid_hosts)
