"""Which addresses a build may connect to: public ones, and those that the operator permits.

Names are resolved here, once, and the connection goes to the address that was checked: a name
that leads to a public address first and to a private one later opens nothing.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CLOSED = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, overlay networks; Alibaba's metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's metadata
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; Oracle's older metadata
        "192.168.0.0/16",
        "198.18.0.0/15",
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/32",
        "2002::/16",
        "fc00::/7",  # also Amazon's metadata for IPv6
        "fe80::/9",
        "ff00::/8",
    )
)
"""https://www.iana.org/assignments/iana-ipv4-special-registry and its IPv6 twin, without the
networks of documentation; and the public addresses at which clouds serve credentials."""
NAME = re.compile(r"\.?[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9])?")
PARTS = re.compile(
    r"\[(?P<six>[0-9a-fA-F:]+)\](?::(?P<sixth>\d{1,5}))?|(?P<host>[^:]+):(?P<port>\d{1,5})"
)


PORTS = (80, 443)
"""Of public addresses: the rest needs an entry."""
PRIVATE = "{} is private: builds reach it if CAPUCHIN_BUILD_PRIVATE_HOSTS names it"
CLOSED_PORT = "{} is open at 80 and 443 only: CAPUCHIN_BUILD_PRIVATE_HOSTS can name another port"
UNKNOWN = "{} is unknown here: builds reach it if CAPUCHIN_BUILD_PRIVATE_HOSTS names it"


class Refused(OSError):
    """A build asked for an address that it may not reach."""


class Destinations:
    """Decides where connections may go.

    `permitted` names private hosts, each with or without a port: `pypi.lan`, `pypi.lan:3141`,
    `.corp.example` for all below it, `10.1.2.3`, `10.1.0.0/16`, `[fd00::1]:80`.

    Raises:
        ValueError: an entry has another form.
    """

    def __init__(self, permitted: Iterable[str] = ()) -> None:
        self._names: list[tuple[str, int | None]] = []
        self._networks: list[tuple[Network, int | None]] = []
        for text in permitted:
            host, port = split_port(text.strip())
            try:
                self._networks.append((ipaddress.ip_network(host, strict=False), port))
            except ValueError:
                if not NAME.fullmatch(host.lower()):
                    raise ValueError(f'"{text}" is neither a host name nor a network.') from None
                self._names.append((host.lower(), port))

    def connect(self, host: str, port: int, *, seconds: float) -> socket.socket:
        """A connection to the first address of `host` that may be reached and answers.

        Raises:
            Refused: no address of it may be reached.
            OSError: it has no address, or none answers.
        """
        last: OSError = refuse_address(host, port)
        for family, address in self.find(host, port):
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.settimeout(seconds)
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                connection.close()
                last = error
            else:
                return connection
        raise last

    def check(self, host: str, port: int) -> str:
        """What another proxy may be asked for: the address that was checked.

        The proxy would resolve a name again, perhaps to something else: it gets names only that the
        operator named. Raises `Refused`.
        """
        if self._is_named(host.lower().rstrip("."), port):
            return host
        found = None
        with contextlib.suppress(OSError):
            found = self.find(host, port)
        if not found:
            raise (
                Refused(UNKNOWN.format(host[:200])) if found is None else refuse_address(host, port)
            )
        return str(found[0][1][0])

    def find(self, host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
        """The addresses of `host` that may be reached, with their families. Raises `OSError`."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (UnicodeError, OverflowError) as error:
            raise OSError(f"{host[:200]!r} is not a host name") from error
        named = self._is_named(host.lower().rstrip("."), port)
        return [
            (family, address)
            for family, _, _, _, address in found
            if named or self._is_open(ipaddress.ip_address(address[0]), port)
        ]

    def _is_named(self, host: str, port: int) -> bool:
        return any(
            only in {None, port} and (host.endswith(name) if name[0] == "." else host == name)
            for name, only in self._names
        )

    def _is_open(self, address: Address, port: int) -> bool:
        address = unwrap(address)
        if any(address in network and only in {None, port} for network, only in self._networks):
            return True
        if port not in PORTS:
            return False
        return not any(address in network for network in CLOSED)


def refuse_address(host: str, port: int) -> Refused:
    return Refused((PRIVATE if port in PORTS else CLOSED_PORT).format(host[:200]))


def unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to (RFC 4291, 6052), or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def split_port(text: str) -> tuple[str, int | None]:
    """Host and port of an entry; no port is None."""
    match = PARTS.fullmatch(text)
    if not match:
        return text, None
    port = match["sixth"] or match["port"]
    return match["six"] or match["host"], int(port) if port else None
