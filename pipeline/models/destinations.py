"""Where a model request sends code, and whether that host surely belongs to the operator."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from pipeline.models.profiles import price_table

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
    return (host, _normalise_host(urlsplit(named).hostname or UNKNOWN_HOST))


def is_own(host: str, declared: Collection[str] = ()) -> bool:
    """Whether `host` surely is the operator's machine or on the operator's network.

    That is an address nobody else can have, `localhost`, or a name that the operator has `declared`
    (a leading dot declares a whole domain). Names are never resolved: they can point elsewhere
    tomorrow. A host whose models cost money is never the operator's own.
    """
    host = _normalise_host(host)
    if any(host == paid or host.endswith(f".{paid}") for paid in price_table().paid_hosts):
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


def _normalise_host(host: str) -> str:
    return host.strip().casefold().rstrip(".")
