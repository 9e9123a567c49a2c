"""Which external hosts received code during a run, for readers of its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from bot.markdown import code
from bot.redis_url import list_redis_hosts
from bot.settings import Settings
from pipeline.models.destinations import UNKNOWN_HOST, is_own
from pipeline.types import Account

CLUSTER: Final = "kubernetes"
"""Stands for the cluster, whose location is unknown here."""
MAX_HOSTS: Final = 10


def external_hosts(
    sent_to: Sequence[str], settings: Settings, *, by_app: bool
) -> tuple[str, ...] | None:
    """The hosts that received code and that may not belong to the operator.

    `sent_to` lists the models' hosts (`Ledger.sent_to`); the hosts that store and run code are
    added. `by_app` says whether the App did it, which keeps its runs in Redis.
    None if the hosts are unknown.
    """
    if not sent_to or UNKNOWN_HOST in sent_to:
        return None
    declared = settings.own_hosts.split(",")
    hosts = dict.fromkeys((*sent_to, *_storage_hosts(settings, by_app=by_app)))
    return tuple(host for host in hosts if not is_own(host, declared))


def destinations_note(
    hosts: Sequence[str] | None, accounts: Sequence[Account], *, by_app: bool
) -> str:
    """One line on the result of `external_hosts`; empty if the hosts are unknown."""
    if hosts is None:
        return ""
    if hosts:
        named = ", ".join(code(host, 100) for host in hosts[:MAX_HOSTS])
        more = f" and {len(hosts) - MAX_HOSTS} more" if len(hosts) > MAX_HOSTS else ""
        return f"Code was sent to {named}{more}."
    models = "The models ran"
    if all(account.model.startswith("recorded") for account in accounts):
        models = "The recorded answers were served"
    github = " except to GitHub" if by_app else ""
    return (
        f"{models} on the operator's own machines or network, and I sent code nowhere "
        f"else{github}. I cannot see whether those machines pass it on."
    )


def _storage_hosts(settings: Settings, *, by_app: bool) -> list[str]:
    docker = settings.docker_url
    hosts = [] if docker.startswith("unix:") else [urlsplit(docker).hostname or ""]
    hosts += list_redis_hosts(settings.redis_url) if by_app else []
    if settings.sandbox == "kubernetes":
        hosts += [CLUSTER, urlsplit(f"//{settings.sandbox_registry}").hostname or ""]
    return [host for host in hosts if host]
