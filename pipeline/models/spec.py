"""A model as people write it; its price, window and destination."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

from pydantic import Field, ValidationError

from pipeline.models.base import ModelProfile, Price
from sandbox.frozen import Frozen, replace

OPENAI_URL: Final = "https://api.openai.com/v1"


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
    # Names may have an @ themselves: Cloudflare's begin with one, Google's end in @ and a date.
    at = re.search(r"@[a-z]+://|@$|@[^@\s]*:\d", rest)
    name, url = (rest[: at.start()], rest[at.start() + 1 :]) if at else (rest, None)
    if not re.fullmatch(r"[^\s,]+", name):
        raise ValueError(
            f"{text!r} names no model: write anthropic:NAME or openai:NAME@http://host:port/v1."
        )
    base_url = None if url is None else validate_url(url)
    match provider:
        case "anthropic":
            return ModelSpec(provider="anthropic", name=name, base_url=base_url)
        case "openai" if base_url is not None:
            return ModelSpec(provider="openai", name=name, base_url=base_url)
        case "openai" if re.match(r"(gpt-|o|codex-|chatgpt-)\d", name):
            return ModelSpec(provider="openai", name=name, base_url=OPENAI_URL)
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
        raise ValueError(
            "The address of a model may not hold a user or password; set the key instead."
        )
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} may have neither a query nor a fragment.")
    return url.rstrip("/")


RECORDED_PREFIX = "recorded-"
"""The prefix of a recording's name; the model it stands for follows."""


class ModelFacts(Frozen):
    price: Price
    window: int
    max_output: int
    sampling: bool
    thinking: bool = False
    vision: bool = False
    """Whether the model reads pictures."""


class Compute(Frozen):
    """The price of the operator's hardware: dollars per hour, and tokens per second.

    The paper prices its scout this way (CodeMonkeys, appendix C).
    """

    dollars_per_hour: float = Field(ge=0, allow_inf_nan=False)
    tokens_per_second: float = Field(gt=0, allow_inf_nan=False)
    """As measured at full load, input and output together; what the cache serves is not counted."""

    @property
    def price(self) -> Price:
        """Per million tokens. What the server's cache serves needs no computing."""
        million = self.dollars_per_hour / 3600 / self.tokens_per_second * 1_000_000
        return Price(input=million, output=million, cache_read=0, cache_write=million)


class PriceTable(Frozen):
    version: Literal[1]
    date: str
    """When the list was written, as YYYY-MM."""
    source: str
    models: dict[str, ModelFacts]
    unknown: ModelFacts
    """Assumed for a paid model that is not in the list: more than any listed one."""
    local: ModelFacts
    """Assumed for a model on the operator's own server."""
    paid_hosts: tuple[str, ...]
    """Domains of providers that charge for their models."""
    own: tuple[str, ...] = ()
    """Names in `models` that come from the operator's file."""
    own_date: str = ""
    own_hosts: tuple[str, ...] = ()
    """What the operator declares as such; see `is_own`."""
    compute: dict[str, Compute] = Field(default_factory=dict[str, Compute])
    """See `OwnPrices.compute`."""


class PricedProfile(Frozen):
    """A profile, and where its price comes from."""

    profile: ModelProfile
    price_source: Literal["list", "local", "unknown"]
    note: str
    """One sentence for reports: where the price comes from."""


class PricesInvalid(Exception):
    """A file is not a valid price list; the text says where and why."""


class OwnPrices(Frozen):
    """The operator's own prices: the table's fields, all optional."""

    version: Literal[1]
    date: str
    """When these were written, as YYYY-MM."""
    models: dict[str, ModelFacts] = Field(default_factory=dict[str, ModelFacts])
    """Added to the table's models; equal names replace them."""
    unknown: ModelFacts | None = None
    local: ModelFacts | None = None
    paid_hosts: tuple[str, ...] = ()
    """Added to the table's hosts."""
    compute: dict[str, Compute] = Field(default_factory=dict[str, Compute])
    """What models on the operator's own servers cost, by model; `*`: any other one."""


@cache
def price_table() -> PriceTable:
    return PriceTable.model_validate_json(Path(__file__).with_name("prices.json").read_bytes())


def read_prices(path: Path | None, own_hosts: Sequence[str] = ()) -> PriceTable:
    """The shipped price list, overridden by the file at `path` if there is one; models on
    `own_hosts` are the operator's.

    Raises:
        PricesInvalid: the file cannot be read or does not have the form of `OwnPrices`.
    """
    table = replace(price_table(), own_hosts=tuple(own_hosts))
    if path is None:
        return table
    try:
        own = OwnPrices.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PricesInvalid(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PricesInvalid(f"{path}: {f'{where}: ' if where else ''}{first['msg']}.") from error
    return replace(
        table,
        own=tuple(own.models),
        own_date=own.date,
        models={**table.models, **own.models},
        unknown=own.unknown or table.unknown,
        local=own.local or table.local,
        paid_hosts=(*table.paid_hosts, *own.paid_hosts),
        compute=own.compute,
    )


def look_up(spec: ModelSpec, table: PriceTable | None = None) -> PricedProfile:
    """The profile of the model that `spec` names. Never fails: unknown models are priced high.

    `table` defaults to the shipped one. A recording costs what the model it stands for costs, and
    keeps its own name.
    """
    table = table or price_table()
    name = spec.name.removeprefix(RECORDED_PREFIX)
    listed = name if name in table.models else re.sub(r"-\d{8}$", "", name)
    facts = table.models.get(listed)
    is_local = spec.provider == "openai" and _is_free(spec.base_url, table)
    # An operator's own server may serve a model that others sell at another price.
    counts = listed in table.own or name != spec.name or not is_local
    if facts is not None and counts:
        note = f"{name} is counted at the list price of {table.date}."
        if listed in table.own:
            note = f"{name} is counted at the operator's own price of {table.own_date}."
        return _build_profile(spec, facts, "list", note)
    if is_local:
        return _build_local_profile(spec, table)
    price = table.unknown.price
    note = (
        f"The price of {name} is not known; it is counted at ${price.input:g} and "
        f"${price.output:g} per million input and output tokens, more than any listed model."
    )
    if spec.provider == "openai":
        note += " On a host of your own it is free: CAPUCHIN_OWN_HOSTS names these."
    return _build_profile(spec, table.unknown, "unknown", note)


def _build_local_profile(spec: ModelSpec, table: PriceTable) -> PricedProfile:
    name = spec.name.removeprefix(RECORDED_PREFIX)
    here = f"{name} runs on the operator's own server"
    compute = table.compute.get(spec.name) or table.compute.get("*")
    if compute is None:
        return _build_profile(spec, table.local, "local", f"{here}: free.")
    note = (
        f"{here}; a million tokens are counted as ${compute.price.input:.2g}, from "
        f"${compute.dollars_per_hour:g} per hour and {compute.tokens_per_second:,.0f} tokens "
        "per second."
    )
    return _build_profile(spec, replace(table.local, price=compute.price), "local", note)


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
        # Send chat completion servers what vLLM accepts; one that rejects it is asked without.
        thinking=facts.thinking or spec.provider == "openai",
        vision=facts.vision,
    )
    return PricedProfile(profile=profile, price_source=price_source, note=note)


def _is_free(base_url: str | None, table: PriceTable) -> bool:
    """Whether the host is the operator's own; no service is sold at a name without a dot."""
    host = _normalise_host(urlsplit(base_url or "").hostname or "")
    if _is_within(host, table.paid_hosts):
        return False
    return is_own(host, table.own_hosts) or (bool(host) and not {".", ":"} & {*host})


UNKNOWN_HOST: Final = ""
"""Stands for a destination that was not recorded."""

_PRIVATE_NETWORKS: Final = tuple(
    ip_network(network)
    for network in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
)
"""Loopback, private and link-local: RFC 1122, 1918, 3927, 4193 and 4291; less than `is_private`."""


def destinations(url: str) -> tuple[str, ...]:
    """The hosts that receive what is sent to `url`: the URL's own, and a proxy's before it."""
    parts = urlsplit(url)
    host = _normalise_host(parts.hostname or UNKNOWN_HOST)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    passed_by = {_normalise_host(one) for one in proxies.get("no", "").split(",")}
    if not proxy or passed_by & {host, "*"}:
        return (host,)
    named = proxy if "://" in proxy else f"http://{proxy}"
    try:
        return (host, _normalise_host(urlsplit(named).hostname or UNKNOWN_HOST))
    except ValueError:  # no client can use it either, and says so
        return (host, UNKNOWN_HOST)


def is_own(host: str, declared: Collection[str] = ()) -> bool:
    """Whether `host` surely is the operator's machine or on the operator's network.

    That is an address nobody else can have, `localhost`, or a name that the operator has `declared`
    (a leading dot declares a whole domain). Names are never resolved: they can point elsewhere
    tomorrow. A host whose models cost money is never the operator's own.
    """
    host = _normalise_host(host)
    if _is_within(host, price_table().paid_hosts):
        return False
    if host == "localhost":
        return True
    names = {one.strip().casefold() for one in declared} - {"", "."}
    if any(host == _normalise_host(one) or (one[0] == "." and host.endswith(one)) for one in names):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in _PRIVATE_NETWORKS)


def _is_within(host: str, domains: Iterable[str]) -> bool:
    return any(host == one or host.endswith(f".{one}") for one in domains)


def _normalise_host(host: str) -> str:
    return host.strip().casefold().rstrip(".")
