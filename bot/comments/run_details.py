"""The files a model saw, the environment, and the hosts that received code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from bot.comments.render import render
from bot.safe_text import code
from bot.settings import Settings, list_redis_hosts
from pipeline.data.code_places import Context, SearchRecord, ShownFile
from pipeline.data.types import Account
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.spec import UNKNOWN_HOST, is_own
from sandbox.docker.locate import find_daemon
from sandbox.frozen import Frozen


def render_search(record: SearchRecord) -> str:
    """A folded section: each answer that the edits started from, with its scores and places."""
    return render(
        "search", record=record, places=sum(len(located.places) for located in record.located)
    )


class ContextReport(Frozen):
    """`context` in `report.json`."""

    way: str
    files: int
    read: int
    read_tokens: int
    shown_tokens: int
    compression: float
    """Searched tokens divided by shown tokens."""
    unknown: int
    invented: int
    meaning: str
    """That the scout found no file relevant; else empty."""
    seconds: float
    dollars: float
    shown: tuple[ShownFile, ...]
    dropped: tuple[str, ...]
    not_read: tuple[str, ...]
    search: SearchRecord | None = None
    """The lines that probably have to change; null with the strategy `samples`."""


def build_context_report(
    context: Context | None, accounts: Sequence[Account], seconds: float
) -> ContextReport | None:
    """None for a run that found no context."""
    if context is None or context.findings is None:
        return None
    found = context.findings
    return ContextReport(
        way=found.way,
        files=found.files,
        read=found.read,
        read_tokens=found.read_tokens,
        shown_tokens=sum(file.tokens for file in found.shown),
        compression=round(found.compression, 1),
        unknown=found.unknown,
        invented=found.invented,
        meaning=found.meaning,
        seconds=round(seconds, 3),
        dollars=_sum_dollars(accounts),
        shown=found.shown,
        dropped=context.dropped,
        not_read=context.not_read,
        search=context.search,
    )


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


class AttemptReport(Frozen):
    name: str
    summary: str
    installed: bool
    grade: str
    """`healthy`, `untested`, `usable` or `broken`; empty if not checked."""
    line: str
    seconds: float


class EnvironmentReport(Frozen):
    """`health.json`: the environment of the run, and all that were tried."""

    grade: str = ""
    """`healthy`, `untested`, `usable` or `broken`; empty if not checked."""
    rung: str = ""
    """The attempt in use; empty if nothing could be installed."""
    python: str = ""
    version: str = ""
    """The version with which the package was built."""
    imports: bool | None = None
    """Whether all packages could be imported; null if not tried, like the fields below."""
    import_errors: dict[str, str] = Field(default_factory=dict[str, str])
    collected: int | None = None
    passed: int | None = None
    """The number of passing tests in a sample, without any edit."""
    failed: int | None = None
    errors: dict[str, int] = Field(default_factory=dict[str, int])
    test_command: tuple[str, ...] = ()
    problem: str = ""
    commands: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Requirements of the tests that could not be installed, with reasons."""
    given_up: str = ""
    attempts: tuple[AttemptReport, ...] = ()


def build_environment_report(record: EnvironmentRecord) -> EnvironmentReport:
    best, health, installed = record.best, record.health, record.installation
    found: dict[str, Any] = {
        "rung": best.name if best else "",
        "given_up": record.given_up,
        "attempts": tuple(
            AttemptReport(
                name=attempt.name,
                summary=attempt.summary,
                installed=bool(attempt.image),
                grade=attempt.health.grade.name.lower() if attempt.health else "",
                line=attempt.line(),
                seconds=round(attempt.seconds, 1),
            )
            for attempt in record.tried
        ),
    }
    if health:
        found |= {
            "grade": health.grade.name.lower(),
            "python": health.python,
            "imports": health.imports,
            "import_errors": {one.name: one.error for one in health.packages if one.error},
            "collected": health.collected,
            "passed": health.passed,
            "failed": health.failed,
            "errors": health.errors,
            "test_command": health.command,
            "problem": health.problem,
        }
    if installed:
        found |= {
            "python": installed.python or found.get("python", ""),
            "version": installed.version,
            "commands": installed.commands,
            "left_out": tuple(f"{one.requirement}: {one.reason}" for one in installed.left_out),
        }
    if best and best.setup:
        found["commands"] = best.setup
    return EnvironmentReport(**found)


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
        named = ", ".join(code(host, 100) for host in hosts[:10])
        more = f" and {len(hosts) - 10} more" if len(hosts) > 10 else ""
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
    docker = find_daemon().url
    hosts = [] if docker.startswith("unix:") else [urlsplit(docker).hostname or ""]
    hosts += list_redis_hosts(settings.redis_url) if by_app else []
    if settings.sandbox == "kubernetes":
        # The first name stands for the cluster, whose location is unknown here.
        hosts += ["kubernetes", urlsplit(f"//{settings.sandbox_registry}").hostname or ""]
    return [host for host in hosts if host]
