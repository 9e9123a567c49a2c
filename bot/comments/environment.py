"""The environment that a run worked in, for reports and comments: how it came about, its health."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from bot.markdown import block, code, prose
from pipeline.environment.record import EnvironmentRecord, TriedAttempt

MOST_LINES: Final = 12
_LINE: Final = 700


class AttemptReport(BaseModel):
    """One attempt to make an environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    summary: str
    installed: bool
    grade: str
    """`healthy`, `untested`, `usable` or `broken`; empty if nobody looked."""
    line: str
    """How it went, in words."""
    seconds: float


class EnvironmentReport(BaseModel):
    """`health.json`: the environment that served, and all that were tried."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grade: str = ""
    """`healthy`, `untested`, `usable` or `broken`; empty if nobody looked."""
    rung: str = ""
    """The attempt that served; empty if nothing could be installed."""
    python: str = ""
    version: str = ""
    """The version that the package was told."""
    imports: bool | None = None
    """Whether all packages could be imported; null if nobody looked, as below."""
    import_errors: dict[str, str] = {}
    collected: int | None = None
    """Tests that the repository has, as far as they were counted."""
    passed: int | None = None
    """Of a sample of them, without any edit."""
    failed: int | None = None
    errors: dict[str, int] = {}
    """Kinds of failures in that sample."""
    test_command: tuple[str, ...] = ()
    problem: str = ""
    """Why no test could be run."""
    commands: tuple[str, ...] = ()
    """What installed it."""
    left_out: tuple[str, ...] = ()
    """Requirements of the tests that could not be had, each with the reason."""
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
    """The section of `report.md` on the environment; empty where nobody looked at it."""
    best, health, installed = record.best, record.health, record.installation
    if best is None or health is None:
        return ""
    parts = [f"## Environment\n\nThe environment {health.works}. {prose(health.summary(), _LINE)}"]
    if health.command:
        parts.append(f"The repository's tests are run with {code(' '.join(health.command), 300)}.")
    if installed and installed.left_out:
        lacking = [
            f"- {code(one.requirement, 200)}: {prose(one.reason, _LINE)}"
            for one in installed.left_out[:MOST_LINES]
        ]
        more = len(installed.left_out) - len(lacking)
        lacking += [f"- and {more} more"] if more else []
        parts.append("What the tests ask for and could not be installed:\n\n" + "\n".join(lacking))
    lines = [
        f"- {prose(_describe_used(attempt) if attempt is best else attempt.line(), _LINE)}"
        for attempt in record.tried[:MOST_LINES]
    ]
    if len(lines) > 1:
        parts.append("What was tried:\n\n" + "\n".join(lines))
    if best.setup:
        parts.append("Commands that a model wrote:\n\n" + block("\n".join(best.setup), 4000, "sh"))
    if record.given_up:
        parts.append(f"The model gave up: {prose(record.given_up, _LINE)}")
    return "\n\n".join(parts)


def _describe_used(attempt: TriedAttempt) -> str:
    """The line of the attempt that is in use, whose health stands above."""
    return f"{attempt.summary.rstrip('. ')}: this is the environment that was used."
