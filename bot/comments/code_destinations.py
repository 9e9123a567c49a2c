"""Where the code went that a run worked on, for whoever reads what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from bot.markdown import code
from bot.settings import Settings
from pipeline.models.destinations import UNKNOWN, is_own
from pipeline.types import Account

CLUSTER: Final = "kubernetes"
"""Stands for the cluster: where it runs cannot be told from here."""
MOST: Final = 10


def elsewhere(
    sent_to: Sequence[str], settings: Settings, *, served: bool
) -> tuple[str, ...] | None:
    """The hosts that code was sent to and that are not certain to be the operator's own.

    `sent_to` as in `Ledger`; those that keep and run code are added. `served`: by the App, which
    keeps its runs in Redis. None where it is not known.
    """
    if not sent_to or UNKNOWN in sent_to:
        return None
    declared = settings.own_hosts.split(",")
    hosts = dict.fromkeys((*sent_to, *_keepers(settings, served=served)))
    return tuple(host for host in hosts if not is_own(host, declared))


def told(hosts: Sequence[str] | None, accounts: Sequence[Account], *, served: bool) -> str:
    """One line on what `elsewhere` found; empty where that is nothing certain."""
    if hosts is None:
        return ""
    if hosts:
        named = ", ".join(code(host, 100) for host in hosts[:MOST])
        more = f" and {len(hosts) - MOST} more" if len(hosts) > MOST else ""
        return f"Code was sent to {named}{more}."
    asked = "The models were asked"
    if all(account.model.startswith("recorded") for account in accounts):
        asked = "The recorded answers were served"
    github = " but to GitHub" if served else ""
    return (
        f"{asked} on the operator's own machines or network, and I sent code nowhere "
        f"else{github}. What those machines pass on I cannot see."
    )


def _keepers(settings: Settings, *, served: bool) -> list[str]:
    urls = [settings.docker_url, settings.redis_url if served else ""]
    hosts = [urlsplit(url).hostname or "" for url in urls if not url.startswith("unix:")]
    if settings.sandbox == "kubernetes":
        hosts += [CLUSTER, urlsplit(f"//{settings.sandbox_registry}").hostname or ""]
    return [host for host in hosts if host]
