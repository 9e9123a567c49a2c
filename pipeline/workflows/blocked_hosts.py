"""The hosts that executions tried to reach without a network, according to their output.

The sandbox has no network to observe. The only evidence is the messages of programs that could not
resolve a name or reach an address. A test can print anything: these are hints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from itertools import chain
from typing import Final

from pipeline.types import Frozen, Selection

MOST_HOSTS: Final = 10
"""Hosts that are kept."""

_NAME = r"([A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?)\.?(?![A-Za-z0-9_.-])"
_HOST = rf"(?:{_NAME}|\[?([0-9A-Fa-f:.]{{3,45}})\]?)"
_MESSAGES_WITH_HOST: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"Could not resolve host: {_NAME}",  # curl, git
        rf"Could not resolve hostname {_NAME}",  # ssh
        rf"Failed to resolve '{_NAME}'",  # urllib3, and so pip and requests
        rf"getaddrinfo (?:EAI_AGAIN|ENOTFOUND) {_NAME}",  # Node
        rf"unable to resolve host address ['\"‘`]{_NAME}",  # wget
        rf"could not translate host name \"{_NAME}\"",  # libpq
        rf"host='{_HOST}', port=\d{{1,5}}\): Max retries exceeded",  # urllib3
        rf"Cannot connect to host {_NAME}:\d{{1,5}}\b",  # aiohttp
        rf"Failed to connect to {_HOST} port \d{{1,5}}\b",  # curl
        r"connect (?:ENETUNREACH|EHOSTUNREACH) (\d{1,3}(?:\.\d{1,3}){3}):",  # Node
    )
)
_MESSAGES_WITHOUT_HOST: Final = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|No address associated with hostname|\bEAI_AGAIN\b|\bENETUNREACH\b"
)


class BlockedHosts(Frozen):
    """The hosts in the output of some executions. Untrusted."""

    hosts: tuple[str, ...] = ()
    """Names and addresses, at most `MOST_HOSTS`, in order."""
    more: int = 0
    """How many more hosts there were."""
    nameless: bool = False
    """No host is named, but a message reports an unreachable one."""


def find_blocked_hosts(outputs: Iterable[str]) -> BlockedHosts:
    """Find the hosts outside the sandbox that `outputs` mention."""
    hosts: dict[str, None] = {}
    nameless = False
    for output in dict.fromkeys(outputs):
        found = (match for pattern in _MESSAGES_WITH_HOST for match in pattern.finditer(output))
        hosts |= dict.fromkeys(host for match in found if _is_external(host := _host_of(match)))
        nameless = nameless or _MESSAGES_WITHOUT_HOST.search(output) is not None
    ordered = sorted(hosts)
    return BlockedHosts(
        hosts=tuple(ordered[:MOST_HOSTS]),
        more=max(0, len(ordered) - MOST_HOSTS),
        nameless=nameless and not ordered,
    )


def find_blocked_in_selection(selection: Selection) -> BlockedHosts:
    """Find the hosts in a selection's tests: those written for it, and the repository's own."""
    proof = selection.evidence
    runs = [proof.reproduction.before, proof.reproduction.after]
    runs += [*proof.votes.base, *chain.from_iterable(proof.votes.runs)]
    if proof.suite is not None:
        runs += [proof.suite.before.execution, proof.suite.after.execution]
    return find_blocked_hosts(run.output for run in runs)


def _host_of(match: re.Match[str]) -> str:
    return next(filter(None, match.groups()), "").casefold().rstrip(".")


def _is_external(host: str) -> bool:
    """Whether the host is outside the sandbox: the loopback, with a test's own servers, is
    inside."""
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        address = ip_address(host)
    except ValueError:
        return ":" not in host
    return not (address.is_loopback or address.is_unspecified)
