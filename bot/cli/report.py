"""The result of a run from the command line: `report.json` and `report.md`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bot.comments import pull_request
from bot.comments.code_destinations import destinations_note
from bot.comments.context import ContextReport, build_context_report, render_context
from bot.comments.status import no_fix_reason
from bot.markdown import block, code, prose
from bot.runner.types import Outcome, SolveOutcome
from bot.types import replace
from pipeline.select import Choice
from pipeline.types import (
    Account,
    Candidate,
    NoFix,
    RejectedEdit,
    Selection,
    Standing,
    SuiteReport,
    VoteTable,
)
from pipeline.workflows.blocked_hosts import BlockedHosts, find_blocked_in_selection
from sandbox.base import Execution

LOG_CHARACTERS = 20_000
NO_EDIT = NoFix(reason="no edit")
START_AGAIN = "run it again with another `--out`"


class ReportPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExecutionSummary(ReportPart):
    """How one execution ended; its output is in the run's bundle."""

    exit_code: int | None
    ending: str
    seconds: float


class TableRow(ReportPart):
    """The results of every test on one edit or on the unedited code: True if it passes."""

    name: str
    chosen: bool
    passes: int
    results: tuple[bool, ...]
    support: int | None = None
    """How many edits are equal to it after normalisation, including itself."""
    broken: tuple[str, ...] | None = None
    """The repository's own tests that it breaks; null if they did not run with it."""
    reward: float | None = None
    score: float | None = None
    """In log-odds; only differences within the table are meaningful."""


class ReproductionSummary(ReportPart):
    path: str
    command: tuple[str, ...]
    before: ExecutionSummary
    after: ExecutionSummary


class SuiteSummary(ReportPart):
    """The repository's own tests, as counts."""

    command: tuple[str, ...]
    passed_before: int
    failed_before: int
    passed_after: int
    failed_after: int
    broken: tuple[str, ...]
    flaky: tuple[str, ...]
    """Excluded from all counts: they do not always pass without the edit."""
    whole: int
    """How many tests pass without the edit; `passed_before` counts those also run with it."""
    chosen: str
    """Which tests ran, in words; empty if all did."""


class Report(ReportPart):
    """`report.json`. Fields of stages that the run did not reach are null or empty."""

    format: Literal[1] = 1
    capuchin: str
    outcome: Literal["fix", "no fix", "out of budget"]
    reason: str = ""
    """Why there is no fix: a `NoFixReason`."""
    learnt: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    """Without a fix: the files that the edits changed."""
    script: str = ""
    """Without a fix: a script that fails on the current code."""
    base_commit: str
    image: str
    title: str = ""
    cause: str = ""
    change: str = ""
    decided_by: str = ""
    why: str = ""
    method: str = ""
    """The configured selection method."""
    confidence: float | None = None
    """The probability that the edit is correct."""
    table: tuple[TableRow, ...] = ()
    """The unedited code first."""
    flaky: tuple[int, ...] = ()
    """The columns of flaky tests, from 0."""
    order: tuple[str, ...] = ()
    """The names of the chosen edit and of the alternatives, best first."""
    notes: tuple[str, ...] = ()
    rejected: tuple[RejectedEdit, ...] = ()
    """Edits from outside that do not apply, with git's reason."""
    reproduction: ReproductionSummary | None = None
    suite: SuiteSummary | None = None
    blocked: BlockedHosts | None = None
    """The hosts that the tests could not reach without a network, according to their output."""
    context: ContextReport | None = None
    accounts: tuple[Account, ...]
    dollars: float
    code_sent_to: tuple[str, ...] | None = None
    """External hosts that received code; empty: none; null: unknown."""
    recorded: bool
    """Whether the answers came from a recording instead of a model."""


def build_report(
    outcome: SolveOutcome, base_commit: str, hosts: tuple[str, ...] | None = None
) -> Report:
    """The report of a finished run; `hosts` are the hosts that received code."""
    result = outcome.result
    common = Report(
        capuchin=version("capuchin-bot"),
        outcome="fix",
        base_commit=base_commit,
        image=outcome.image,
        context=build_context_report(outcome.context, outcome.accounts, outcome.context_seconds),
        accounts=outcome.accounts,
        dollars=outcome.dollars,
        code_sent_to=hosts,
        recorded=any(account.model.startswith("recorded") for account in outcome.accounts),
    )
    if isinstance(result, NoFix):
        spent = result.reason == "out of budget"
        return replace(
            common,
            outcome="out of budget" if spent else "no fix",
            reason=result.reason,
            learnt=result.details,
            suspects=result.suspects,
            script=result.script,
        )
    return replace(common, **_selection_fields(result))


def build_selection_report(chosen: Outcome[Choice], base_commit: str) -> Report:
    """The report of a choice among edits from outside."""
    judged, no = chosen.result.judged, chosen.result.no_fix
    ended = build_report(chosen.with_result(no or NO_EDIT), base_commit)
    verdict, table, taken = judged.verdict, judged.table, None if no else judged.chosen
    known: dict[str, object] = {
        "method": verdict.method,
        "table": _build_table(table, verdict.standings, taken),
        "flaky": verdict.flaky,
        "order": tuple(table.candidates[c].name for c in verdict.order),
        "rejected": table.rejected,
        "notes": verdict.notes,
    }
    if taken is not None:
        known |= {
            "outcome": "fix",
            "reason": "",
            "title": taken.name,
            "decided_by": verdict.decided_by,
            "confidence": verdict.confidence,
            "why": verdict.why,
            "suite": _summarise_suite(verdict.suite) if verdict.suite else None,
        }
    return replace(ended, **known)


def _selection_fields(chosen: Selection) -> dict[str, object]:
    proof = chosen.evidence
    return {
        "learnt": (proof.cut_short,) if proof.cut_short else (),
        "title": proof.title,
        "cause": proof.cause,
        "change": proof.change,
        "decided_by": chosen.decided_by,
        "confidence": chosen.confidence,
        "why": proof.why,
        "method": proof.method,
        "table": _build_table(proof.votes, proof.standings, chosen.candidate),
        "flaky": proof.votes.flaky,
        "order": tuple(proof.votes.candidates[c].name for c in proof.order),
        "notes": proof.notes,
        "reproduction": ReproductionSummary(
            path=proof.reproduction.path,
            command=proof.reproduction.command,
            before=_summarise_execution(proof.reproduction.before),
            after=_summarise_execution(proof.reproduction.after),
        ),
        "suite": _summarise_suite(proof.suite) if proof.suite else None,
        "blocked": find_blocked_in_selection(chosen),
    }


def _build_table(
    votes: VoteTable, standings: Sequence[Standing], chosen: Candidate | None
) -> tuple[TableRow, ...]:
    rows = [_build_row("unedited code", votes.base)]
    known = standings or [None for _ in votes.candidates]
    for candidate, runs, stands in zip(votes.candidates, votes.runs, known, strict=True):
        row = _build_row(candidate.name, runs, chosen=candidate == chosen)
        if stands:
            columns = {"support": stands.support, "broken": stands.broken, "reward": stands.reward}
            row = replace(row, **columns, score=stands.score)
        rows.append(row)
    return tuple(rows)


def _build_row(name: str, runs: Sequence[Execution], *, chosen: bool = False) -> TableRow:
    results = tuple(run.passed for run in runs)
    return TableRow(name=name, chosen=chosen, passes=sum(results), results=results)


def _summarise_execution(run: Execution) -> ExecutionSummary:
    return ExecutionSummary(exit_code=run.exit_code, ending=run.ending.value, seconds=run.seconds)


def _summarise_suite(suite: SuiteReport) -> SuiteSummary:
    return SuiteSummary(
        command=suite.command,
        passed_before=len(suite.before.passed),
        failed_before=len(suite.before.failed),
        passed_after=len(suite.after.passed),
        failed_after=len(suite.after.failed),
        broken=suite.broken,
        flaky=suite.flaky,
        whole=suite.whole,
        chosen=suite.chosen,
    )


def render_report(outcome: SolveOutcome, hosts: tuple[str, ...] | None = None) -> str:
    """`report.md`; `hosts` are the hosts that received code."""
    result = outcome.result
    if isinstance(result, Selection):
        heading = f"# {prose(result.evidence.title, 200)}"
        proof = pull_request.evidence_sections(result, LOG_CHARACTERS, commits=False)
        parts = [heading, *pull_request.explanation_sections(result), *proof]
    else:
        reason = no_fix_reason(result.reason, START_AGAIN)
        parts = ["# No fix", reason[:1].upper() + reason[1:]]
        parts += [f"- {prose(sentence)}" for sentence in result.details]
        if result.suspects:
            parts += [
                "## Probable location of the cause",
                *(f"- {code(p)}" for p in result.suspects),
            ]
        if result.script:
            script = block(result.script, LOG_CHARACTERS, "python")
            parts += [f"## A script that fails on the current code\n\n{script}"]
    parts.append(pull_request.models_note(outcome.accounts))
    parts.append(destinations_note(hosts, outcome.accounts, by_app=False))
    if outcome.context is not None:
        seconds = outcome.context_seconds
        parts.append(render_context(outcome.context, outcome.accounts, seconds))
    parts.append(pull_request.render_cost(outcome.accounts))
    return "\n\n".join(filter(None, parts)) + "\n"
