"""The files a model saw, the environment, and the hosts that received code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from bot.comments.render import render
from bot.safe_text import code
from bot.settings import Settings, list_redis_hosts
from pipeline.data.code_places import Context, Findings, SearchRecord, ShownFile
from pipeline.data.types import Account
from pipeline.environment.record import EnvironmentRecord, TriedAttempt
from pipeline.models.spec import UNKNOWN_HOST, is_own


def render_search(record: SearchRecord) -> str:
    """A folded section: each answer that the edits started from, with its scores and places."""
    return render(
        "search", record=record, places=sum(len(located.places) for located in record.located)
    )


_STAGES = ("embedding", "relevance", "ranking")
_METHOD_SENTENCES = {
    "scout": "The scout read every source file.",
    "words, then scout": "The scout read the source files that share the most words with the "
    "issue.",
    "words": "No scout model is configured: files were chosen by the words that they share with "
    "the issue, and ranked by the solver model.",
}
_UNLISTED_REASONS = {
    "scout": "irrelevant to the scout, or behind those that were listed",
    "words, then scout": "not read by the scout, irrelevant to it, or behind those that "
    "were listed",
    "words": "less in common with the issue than those that were listed",
}


class ContextReport(BaseModel):
    """`context` in `report.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    way: str
    files: int
    read: int
    read_tokens: int
    shown_tokens: int
    compression: float
    """How many times fewer tokens were shown than searched."""
    unknown: int
    invented: int
    meaning: str
    """How an embedding model took part; empty if none was needed."""
    seconds: float
    dollars: float
    shown: tuple[ShownFile, ...]
    dropped: tuple[str, ...]
    not_read: tuple[str, ...]
    search: SearchRecord | None = None
    """The lines that were thought to have to change; null with the strategy `samples`."""


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
        shown_tokens=_count_tokens(found),
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
    """Folded sections: the files with reasons and tokens, the compression, time and price; and
    what a search named.

    Empty if the way to the files was not recorded. `seconds` of 0 are omitted.
    """
    found = context.findings
    if found is None:
        return ""
    return render(
        "context",
        context=context,
        found=found,
        explored=any(account.stage == "exploring" for account in accounts),
        how=_METHOD_SENTENCES,
        why_unlisted=_UNLISTED_REASONS,
        tokens=_count_tokens(found),
        dollars=_sum_dollars(accounts),
        seconds=seconds,
        unneeded=len(set(context.dropped) & set(context.unneeded)),
        most_rows=40,
        search=render_search(context.search) if context.search else "",
    )


def _count_tokens(found: Findings) -> int:
    return sum(file.tokens for file in found.shown)


def _sum_dollars(accounts: Sequence[Account]) -> float:
    return sum(account.dollars for account in accounts if account.stage in _STAGES)


class AttemptReport(BaseModel):
    """One attempt to make an environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    summary: str
    installed: bool
    grade: str
    """`healthy`, `untested`, `usable` or `broken`; empty if not checked."""
    line: str
    """How it went, in words."""
    seconds: float


class EnvironmentReport(BaseModel):
    """`health.json`: the environment that served, and all that were tried."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grade: str = ""
    """`healthy`, `untested`, `usable` or `broken`; empty if not checked."""
    rung: str = ""
    """The attempt that served; empty if nothing could be installed."""
    python: str = ""
    version: str = ""
    """The version under which the package was built."""
    imports: bool | None = None
    """Whether all packages could be imported; null if that was not tried, as below."""
    import_errors: dict[str, str] = {}
    collected: int | None = None
    """How many tests of the repository were found."""
    passed: int | None = None
    """How many tests of a sample passed without any edit."""
    failed: int | None = None
    errors: dict[str, int] = {}
    """Kinds of failures in that sample."""
    test_command: tuple[str, ...] = ()
    problem: str = ""
    """Why no test could be run."""
    commands: tuple[str, ...] = ()
    """What installed it."""
    left_out: tuple[str, ...] = ()
    """Requirements of the tests that could not be installed, each with the reason."""
    given_up: str = ""
    """Why the model that was asked for commands gave up."""
    attempts: tuple[AttemptReport, ...] = ()


def build_environment_report(record: EnvironmentRecord) -> EnvironmentReport:
    """The report on the environment of a run."""
    best, health, installed = record.best, record.health, record.installation
    found: dict[str, Any] = {
        "rung": best.name if best else "",
        "given_up": record.given_up,
        "attempts": tuple(map(_build_attempt, record.tried)),
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


def _build_attempt(attempt: TriedAttempt) -> AttemptReport:
    return AttemptReport(
        name=attempt.name,
        summary=attempt.summary,
        installed=bool(attempt.image),
        grade=attempt.health.grade.name.lower() if attempt.health else "",
        line=attempt.line(),
        seconds=round(attempt.seconds, 1),
    )


def render_environment(record: EnvironmentRecord) -> str:
    """The section of `report.md` on the environment; empty if it was not checked."""
    if record.best is None or record.health is None:
        return ""
    return render("environment", record=record, most_lines=12)


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
