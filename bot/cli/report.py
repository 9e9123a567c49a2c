"""The result of a run from the command line: `report.json` and `report.md`."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Literal

from bot.cli.report_files.parts import (
    ReportPart,
    ReproductionSummary,
    SuiteSummary,
    TableRow,
    build_table,
    order_names,
    summarise_execution,
    summarise_suite,
)
from bot.comments import pull_request
from bot.comments.code_destinations import destinations_note
from bot.comments.context import ContextReport, build_context_report, render_context
from bot.comments.environment import (
    EnvironmentReport,
    build_environment_report,
    render_environment,
)
from bot.comments.evidence.opening import unproven_title
from bot.comments.evidence.vote_table import render_edits
from bot.comments.no_fix import no_fix_reason, script_headline
from bot.markdown import block, code, prose
from bot.runner.types import Outcome, SolveOutcome
from bot.types import CommitSha, replace
from pipeline.select import Choice
from pipeline.types import (
    Account,
    JudgedEdits,
    NoFix,
    RejectedEdit,
    Selection,
)
from pipeline.workflows.blocked_hosts import BlockedHosts, find_blocked_in_selection

LOG_CHARACTERS = 20_000
NO_EDIT = NoFix(reason="no edit")
START_AGAIN = "run it again with another `--out`"


class Report(ReportPart):
    """`report.json`. Fields of stages that the run did not reach are null or empty."""

    format: Literal[1] = 1
    capuchin: str
    outcome: Literal["fix", "unproven", "no fix", "out of budget"]
    proven: bool | None = None
    """Whether a test was seen failing without the edit and passing with it; null without one."""
    unproven: str = ""
    """Why the edit is not proven."""
    reason: str = ""
    """Why there is no fix: a `NoFixReason`."""
    learnt: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    """Without a fix: the files that the edits changed."""
    script: str = ""
    """Without a fix: a script that fails on the current code, or before the fix that is there."""
    base_commit: CommitSha
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
    suite_problem: str = ""
    """Why there is no `suite`."""
    environment: EnvironmentReport | None = None
    """Where everything ran; null when nothing ran."""
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
    outcome: SolveOutcome, base_commit: CommitSha, hosts: tuple[str, ...] | None = None
) -> Report:
    """The report of a finished run; `hosts` are the hosts that received code."""
    result = outcome.result
    common = Report(
        capuchin=version("capuchin-bot"),
        outcome="fix",
        base_commit=base_commit,
        image=outcome.image,
        environment=build_environment_report(outcome.environment) if outcome.environment else None,
        context=build_context_report(outcome.context, outcome.accounts, outcome.context_seconds),
        accounts=outcome.accounts,
        dollars=outcome.dollars,
        code_sent_to=hosts,
        recorded=any(account.model.startswith("recorded") for account in outcome.accounts),
    )
    if isinstance(result, NoFix):
        spent = result.reason in ("out of budget", "out of time")
        return replace(
            common,
            outcome="out of budget" if spent else "no fix",
            reason=result.reason,
            learnt=result.details,
            suspects=result.suspects,
            script=result.script,
            **(_edits_fields(result.edits) if result.edits else {}),
        )
    return replace(common, **_selection_fields(result))


def build_selection_report(chosen: Outcome[Choice], base_commit: CommitSha) -> Report:
    """The report of a choice among edits from outside."""
    judged, no = chosen.result.judged, chosen.result.no_fix
    ended = build_report(chosen.with_result(no or NO_EDIT), base_commit)
    verdict, table, taken = judged.verdict, judged.table, None if no else judged.chosen
    known: dict[str, object] = {
        "method": verdict.method,
        "table": build_table(table, verdict.standings, taken, verdict.order),
        "flaky": verdict.flaky,
        "order": order_names(table, verdict.order),
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
            "suite": summarise_suite(verdict.suite) if verdict.suite else None,
            "suite_problem": verdict.suite_problem,
        }
    return replace(ended, **known)


def _edits_fields(edits: JudgedEdits) -> dict[str, Any]:
    return {
        "method": edits.method,
        "confidence": edits.confidence,
        "table": build_table(edits.votes, edits.standings, None, edits.order),
        "flaky": edits.votes.flaky,
        "order": order_names(edits.votes, edits.order),
        "suite": summarise_suite(edits.suite) if edits.suite else None,
        "suite_problem": edits.suite_problem,
    }


def _selection_fields(chosen: Selection) -> dict[str, object]:
    proof = chosen.evidence
    return {
        "outcome": "fix" if chosen.is_proven else "unproven",
        "proven": chosen.is_proven,
        "unproven": proof.unproven,
        "learnt": (proof.cut_short,) if proof.cut_short else (),
        "title": proof.title,
        "cause": proof.cause,
        "change": proof.change,
        "decided_by": chosen.decided_by,
        "confidence": chosen.confidence,
        "why": proof.why,
        "method": proof.method,
        "table": build_table(proof.votes, proof.standings, chosen.candidate, proof.order),
        "flaky": proof.votes.flaky,
        "order": order_names(proof.votes, proof.order),
        "notes": proof.notes,
        "reproduction": ReproductionSummary(
            rung=proof.reproduction.rung,
            path=proof.reproduction.path,
            command=proof.reproduction.command,
            before=summarise_execution(proof.reproduction.before),
            after=summarise_execution(proof.reproduction.after),
        ),
        "suite": summarise_suite(proof.suite) if proof.suite else None,
        "suite_problem": proof.suite_problem,
        "blocked": find_blocked_in_selection(chosen),
    }


def render_report(outcome: SolveOutcome, hosts: tuple[str, ...] | None = None) -> str:
    """`report.md`; `hosts` are the hosts that received code."""
    result = outcome.result
    if isinstance(result, Selection):
        title = result.evidence.title
        heading = f"# {prose(title if result.is_proven else unproven_title(title), 200)}"
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
            parts += [f"## {script_headline(result)}\n\n{script}"]
        if result.edits:
            parts += [f"## The edits\n\n{render_edits(result.edits)}"]
    parts.append(pull_request.models_note(outcome.accounts))
    parts.append(destinations_note(hosts, outcome.accounts, by_app=False))
    if outcome.environment is not None:
        parts.append(render_environment(outcome.environment))
    if outcome.context is not None:
        seconds = outcome.context_seconds
        parts.append(render_context(outcome.context, outcome.accounts, seconds))
    parts.append(pull_request.render_cost(outcome.accounts))
    return "\n\n".join(filter(None, parts)) + "\n"
