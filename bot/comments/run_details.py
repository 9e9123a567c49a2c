"""The files a model saw, the environment, and the hosts that received code."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from bot.comments.render import render
from bot.safe_text import code
from bot.settings import Settings, list_redis_hosts
from pipeline.data.code_places import Context, SearchRecord
from pipeline.data.types import Account
from pipeline.environment.health import Health
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.spec import UNKNOWN_HOST, is_own
from prompts.text import join_names
from sandbox.docker.locate import find_daemon
from sandbox.environment.recipe import Installation


def render_search(record: SearchRecord) -> str:
    """A folded section: each answer that the edits started from, with its scores and places."""
    return render(
        "search", record=record, places=sum(len(located.places) for located in record.located)
    )


def dump_context(
    context: Context | None, accounts: Sequence[Account], seconds: float
) -> dict[str, Any] | None:
    """`context` in `report.json`; None for a run that found no context."""
    if context is None or context.findings is None:
        return None
    found = context.findings
    same = {"way", "files", "read", "read_tokens", "unknown", "invented", "meaning", "shown"}
    return {
        **found.model_dump(mode="json", include=same),
        **context.model_dump(mode="json", include={"dropped", "not_read", "search"}),
        "shown_tokens": sum(file.tokens for file in found.shown),
        "compression": round(found.compression, 1),
        "seconds": round(seconds, 3),
        "dollars": _sum_dollars(accounts),
    }


def render_context(context: Context, accounts: Sequence[Account], seconds: float = 0) -> str:
    """Folded sections: the files with reasons, tokens, time and price; and the search's places.

    Empty without records of how the files were found. `seconds` of 0 are omitted.
    """
    found = context.findings
    if found is None:
        return ""
    return render(
        "context",
        context=context,
        found=found,
        explored=any(account.stage == "exploring" for account in accounts),
        tokens=sum(file.tokens for file in found.shown),
        dollars=_sum_dollars(accounts),
        seconds=seconds,
        unneeded=len(set(context.dropped) & set(context.unneeded)),
        most_rows=40,
        search=render_search(context.search) if context.search else "",
    )


def _sum_dollars(accounts: Sequence[Account]) -> float:
    stages = ("relevance", "ranking")
    return sum(account.dollars for account in accounts if account.stage in stages)


def dump_environment(record: EnvironmentRecord) -> dict[str, Any]:
    """`health.json`: the environment of the run, and all that were tried. What is not known is null
    or empty."""
    best, health, installed = record.best, record.health or Health(), record.installation
    is_checked = record.health is not None
    same = {"python", "collected", "passed", "failed", "skipped", "errors", "problem"}
    found = health.model_dump(mode="json", include=same)
    if not is_checked:
        found |= dict.fromkeys(("passed", "failed", "skipped"))
    ours = installed or Installation()
    return {
        **found,
        "python": ours.python or health.python,
        "version": ours.version,
        "grade": _name_grade(record.health),
        "rung": best.name if best else "",
        "imports": health.imports if is_checked else None,
        "import_errors": {one.name: one.error for one in health.packages if one.error},
        "test_command": health.command,
        "commands": best.setup if best and best.setup else ours.commands,
        "left_out": [f"{one.requirement}: {one.reason}" for one in ours.left_out],
        "given_up": record.given_up,
        "attempts": [
            {
                "name": attempt.name,
                "summary": attempt.summary,
                "installed": bool(attempt.image),
                "grade": _name_grade(attempt.health),
                "line": attempt.line(),
                "seconds": round(attempt.seconds, 1),
            }
            for attempt in record.tried
        ],
    }


def _name_grade(health: Health | None) -> str:
    """`healthy`, `untested`, `usable` or `broken`; empty if not checked."""
    return health.grade.name.lower() if health else ""


def render_environment(record: EnvironmentRecord) -> str:
    """The section of `report.md` on the environment; empty if it was not checked."""
    if record.best is None or record.health is None:
        return ""
    return render("environment", record=record, most_lines=12)


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
        return f"Code was sent to {join_names([code(host, 100) for host in hosts], 10)}."
    models = "The models ran"
    if all(account.model.startswith("recorded") for account in accounts):
        models = "The recorded answers were served"
    github = " except to GitHub" if by_app else ""
    return (
        f"{models} on the operator's own machines or network, and I sent code nowhere "
        f"else{github}. I cannot see whether those machines pass it on."
    )


def _storage_hosts(settings: Settings, *, by_app: bool) -> list[str]:
    docker = find_daemon().url
    hosts = [] if docker.startswith("unix:") else [urlsplit(docker).hostname or ""]
    hosts += list_redis_hosts(settings.redis_url) if by_app else []
    if settings.sandbox == "kubernetes":
        # The first name stands for the cluster, whose location is unknown here.
        hosts += ["kubernetes", urlsplit(f"//{settings.sandbox_registry}").hostname or ""]
    return [host for host in hosts if host]
