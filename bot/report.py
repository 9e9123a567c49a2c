"""What one run from the command line came to: as data for programs, as text for people."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bot import evidence
from bot.comments import no_fix_reason
from bot.markdown import prose
from bot.workshop import Outcome
from pipeline.types import Account, NoFix, Selection, SuiteReport, VoteTable
from sandbox.base import Execution

LOG_CHARACTERS = 20_000


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ran(Part):
    """How one execution ended; its output is in the run's bundle."""

    exit_code: int | None
    ending: str
    seconds: float


class Row(Part):
    """One edit, or the unedited code, against every test: True where it passes."""

    name: str
    chosen: bool
    passes: int
    results: tuple[bool, ...]


class Reproduced(Part):
    path: str
    command: tuple[str, ...]
    before: Ran
    after: Ran


class Tested(Part):
    """The repository's own tests, as counts."""

    command: tuple[str, ...]
    passed_before: int
    failed_before: int
    passed_after: int
    failed_after: int
    broken: tuple[str, ...]


class Report(Part):
    """`report.json`. Fields that a run did not get to are null or empty."""

    format: Literal[1] = 1
    capuchin: str
    outcome: Literal["fix", "no fix", "out of budget"]
    reason: str = ""
    """Why there is no fix: one of the pipeline's closed list."""
    learnt: tuple[str, ...] = ()
    base_commit: str
    image: str
    title: str = ""
    cause: str = ""
    change: str = ""
    decided_by: str = ""
    confidence: float | None = None
    table: tuple[Row, ...] = ()
    """The unedited code first."""
    reproduction: Reproduced | None = None
    suite: Tested | None = None
    accounts: tuple[Account, ...]
    dollars: float
    recorded: bool
    """Whether the answers came from a recording and not from a model."""


def report_of(outcome: Outcome, base_commit: str) -> Report:
    """The report of a run that came to an answer."""
    result = outcome.result
    common = Report(
        capuchin=version("capuchin"),
        outcome="fix",
        base_commit=base_commit,
        image=outcome.image,
        accounts=outcome.accounts,
        dollars=outcome.dollars,
        recorded=any(account.model.startswith("recorded") for account in outcome.accounts),
    )
    if isinstance(result, NoFix):
        spent = result.reason == "out of budget"
        return common.model_copy(
            update={
                "outcome": "out of budget" if spent else "no fix",
                "reason": result.reason,
                "learnt": result.learnt,
            }
        )
    return common.model_copy(update=_fields(result))


def _fields(chosen: Selection) -> dict[str, object]:
    proof = chosen.evidence
    return {
        "title": proof.title,
        "cause": proof.cause,
        "change": proof.change,
        "decided_by": chosen.decided_by,
        "confidence": chosen.confidence,
        "table": _table(proof.votes, chosen.candidate.sample),
        "reproduction": Reproduced(
            path=proof.reproduction.path,
            command=proof.reproduction.command,
            before=_ran(proof.reproduction.before),
            after=_ran(proof.reproduction.after),
        ),
        "suite": _tested(proof.suite) if proof.suite else None,
    }


def _table(votes: VoteTable, chosen: int) -> tuple[Row, ...]:
    rows = [("unedited code", False, votes.base)]
    for c, candidate in enumerate(votes.candidates):
        name = f"edit {candidate.sample + 1}"
        rows.append((name, candidate.sample == chosen, votes.runs[c]))
    return tuple(
        Row(
            name=name,
            chosen=picked,
            passes=sum(run.passed for run in runs),
            results=tuple(run.passed for run in runs),
        )
        for name, picked, runs in rows
    )


def _ran(run: Execution) -> Ran:
    return Ran(exit_code=run.exit_code, ending=run.ending.value, seconds=run.seconds)


def _tested(suite: SuiteReport) -> Tested:
    return Tested(
        command=suite.command,
        passed_before=len(suite.before.passed),
        failed_before=len(suite.before.failed),
        passed_after=len(suite.after.passed),
        failed_after=len(suite.after.failed),
        broken=suite.broken,
    )


def as_markdown(outcome: Outcome) -> str:
    """`report.md`."""
    result = outcome.result
    if isinstance(result, Selection):
        heading = f"# {prose(result.evidence.title, 200)}"
        proof = evidence.proof_of(result, LOG_CHARACTERS)
        parts = [heading, *evidence.account_of(result), *proof]
    else:
        reason = no_fix_reason(result.reason)
        parts = ["# No fix", reason[:1].upper() + reason[1:]]
        parts += [f"- {prose(sentence)}" for sentence in result.learnt]
    parts += [evidence.answered_by(outcome.accounts), evidence.cost(outcome.accounts)]
    return "\n\n".join(filter(None, parts)) + "\n"
