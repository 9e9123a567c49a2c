"""Reads `CAPUCHIN_REDIS_URL`: one Redis, the primary that Sentinels name, or a Redis Cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

Kind = Literal["single", "sentinel", "cluster"]
FORM: Final = "use redis[s]+sentinel://HOST:PORT,HOST:PORT/SERVICE[/DB] or redis[s]+cluster://…"
_PORTS: Final[Mapping[Kind, int]] = {"single": 6379, "sentinel": 26379, "cluster": 6379}


@dataclass(frozen=True)
class RedisUrl:
    """Where Redis is, taken apart."""

    kind: Kind
    url: str = field(repr=False)
    """What redis-py understands: scheme, credentials, first host, database and options."""
    hosts: tuple[tuple[str, int], ...]
    """Sentinels, or nodes of the cluster, that are asked in turn; empty for a socket."""
    service: str = ""
    """What the Sentinels call the primary."""
    sentinel_login: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """`username` and `password` for the Sentinels themselves."""


def parse_redis_url(url: str) -> RedisUrl:
    """Take the address apart.

    Raises:
        ValueError: it is not in one of the forms above.
    """
    parts, netloc = _take_apart(url)
    scheme, _, kind = parts.scheme.partition("+")
    if kind not in ("", "sentinel", "cluster"):
        raise ValueError(f"{parts.scheme}:// is unknown; {FORM}.")
    if scheme == "unix":
        return RedisUrl("single", url, ())
    login, at, places = netloc.rpartition("@")
    if not kind:
        return RedisUrl("single", url, (_read_place(places, 6379),))
    found: Kind = "sentinel" if kind == "sentinel" else "cluster"
    hosts = tuple(_read_place(place, _PORTS[found]) for place in places.split(","))
    service, path = "", parts.path
    if found == "sentinel":
        service, _, database = parts.path.strip("/").partition("/")
        path = f"/{database or 0}"
        if not service:
            raise ValueError(f"the name of the service is missing; {FORM}.")
    elif path.strip("/") not in ("", "0"):
        raise ValueError("a Redis Cluster has only the database 0.")
    query = dict(parse_qsl(parts.query))
    names = ("username", "password")
    asked = {name: query.pop(f"sentinel_{name}", "") for name in names}
    host, port = hosts[0]
    first = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    plain = urlunsplit((scheme, f"{login}{at}{first}", path, urlencode(query), ""))
    return RedisUrl(found, plain, hosts, service, {k: v for k, v in asked.items() if v})


def list_redis_hosts(url: str) -> list[str]:
    """The names of all machines in the address; empty for a socket or an invalid address."""
    try:
        return [host for host, _ in parse_redis_url(url).hosts if host]
    except ValueError:
        return []


def list_redis_passwords(url: str) -> list[str]:
    """The passwords in the address, as they are written there and as they are meant."""
    parts, netloc = _take_apart(url)
    password = netloc.rpartition("@")[0].partition(":")[2]
    found = [password, unquote(password)]
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if name.endswith("password"):
            found += [value, unquote(value)]
    return [each for each in found if each]


def tag_prefix(url: str, prefix: str) -> str:
    """The prefix of all keys. In a cluster it is a hash tag, which keeps the keys on one node:
    scripts and transactions span several keys, and Redis Cluster runs them nowhere else."""
    if "+cluster:" not in url.partition("/")[0] or "{" in prefix:
        return prefix
    return f"{{{prefix.rstrip(':')}}}:"


def _take_apart(url: str) -> tuple[SplitResult, str]:
    """The address without its machines and login, and these.

    Newer patch releases of Python let `urlsplit` refuse several machines if one is in brackets.
    """
    scheme, colon, rest = url.partition("://")
    end = next((at for at, letter in enumerate(rest) if letter in "/?#"), len(rest))
    return urlsplit(f"{scheme}{colon}{rest[end:]}"), rest[:end]


def _read_place(place: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{place}")
    return parts.hostname or "", parts.port or default
