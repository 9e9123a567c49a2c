"""`report.json`, `report.md` and the edits as files."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final, Literal

from bot.cli.stopwatch import BusySeconds
from bot.comments import pull_request
from bot.comments.evidence import unproven_title
from bot.comments.failures import no_fix_reason, script_headline
from bot.comments.run_details import (
    ContextReport,
    EnvironmentReport,
    build_context_report,
    build_environment_report,
    destinations_note,
    render_context,
    render_environment,
)
from bot.comments.vote_table import render_edits
from bot.data.job import Outcome, SolveOutcome
from bot.data.marks import UNEDITED
from bot.safe_text import code, prose, script_block
from pipeline.data.suite_reports import CutShort, Standing, SuiteReport
from pipeline.data.types import (
    Account,
    Candidate,
    CommitSha,
    NoFix,
    RejectedEdit,
    Rung,
    Selection,
    VoteTable,
)
from pipeline.reasons import BlockedHosts, find_blocked_in_selection
from pipeline.select import Choice
from pipeline.selection.verdict import get_votes, name_edits, rank_result, to_letter
from sandbox.frozen import Frozen, replace
from sandbox.program import Execution

FOLDER: Final = "candidates"


def candidate_files(result: Selection | NoFix) -> dict[str, bytes]:
    """The diffs by their paths below `--out`; empty when no edit was judged."""
    votes = get_votes(result)
    if votes is None:
        return {}
    return {
        f"{FOLDER}/{to_letter(rank)}.diff": votes.candidates[at].patch.diff.encode()
        for rank, at in enumerate(rank_result(result))
    }


class ExecutionSummary(Frozen):
    """How one execution ended; its output is in the run's bundle."""

    exit_code: int | None
    ending: str
    seconds: float


class TableRow(Frozen):
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
    machine: str = ""
    """The machine that wrote it, `fixed` or `explore`; empty if unknown."""
    model: str = ""
    """The model that wrote it; empty if unknown."""
    summary: str = ""
    """What its sample left about it: its model's words, then its record; empty if nothing."""
    score: float | None = None
    """In log-odds; only differences within the table are meaningful."""


class ReproductionSummary(Frozen):
    rung: Rung
    """What became the test; `none`: only the script was run."""
    path: str
    command: tuple[str, ...]
    before: ExecutionSummary
    after: ExecutionSummary


class SuiteSummary(Frozen):
    command: tuple[str, ...]
    passed_before: int
    failed_before: int
    passed_after: int
    failed_after: int
    broken: tuple[str, ...]
    failing: tuple[str, ...]
    """Tests that fail without the edit and were not run with it."""
    flaky: tuple[str, ...]
    """Excluded from all counts: they do not always pass without the edit."""
    whole: int
    """The number of tests that pass without the edit; `passed_before`: those also run with it."""
    chosen: str
    """Which tests ran; empty if all did."""
    cut_before: CutShort | None = None
    """The progress of the run without the edit, if a time limit ended it."""
    cut_after: CutShort | None = None


def _table_fields(
    votes: VoteTable,
    standings: Sequence[Standing],
    order: Sequence[int],
    chosen: Candidate | None = None,
) -> dict[str, Any]:
    """`table`, the unedited code first, then the edits in `order`; and the names in `order`."""

    def row(name: str, runs: Sequence[Execution], *, chosen: bool = False, **more: Any) -> TableRow:
        results = tuple(run.passed for run in runs)
        return TableRow(name=name, chosen=chosen, passes=sum(results), results=results, **more)

    rows = [row(UNEDITED, votes.base)]
    names = name_edits(votes, order)
    unordered = [c for c in range(len(names)) if c not in order]
    for c in (*order, *unordered):
        candidate = votes.candidates[c]
        made = {
            "machine": candidate.machine,
            "model": candidate.model,
            "summary": candidate.summary,
        }
        scores = {}
        if standings:
            stands = standings[c]
            scores = {
                "support": stands.support,
                "broken": stands.broken,
                "reward": stands.reward,
                "score": stands.score,
            }
        is_chosen = candidate == chosen
        rows.append(row(names[c], votes.runs[c], chosen=is_chosen, **made, **scores))
    return {"table": tuple(rows), "order": tuple(names[c] for c in order)}


def _suite_fields(suite: SuiteReport | None, problem: str) -> dict[str, Any]:
    """The fields of `suite` as counts, and `problem`: why it is missing."""
    counts = suite and SuiteSummary(
        command=suite.command,
        passed_before=len(suite.before.passed),
        failed_before=len(suite.before.failed),
        passed_after=len(suite.after.passed),
        failed_after=len(suite.after.failed),
        broken=suite.broken,
        failing=suite.failing,
        flaky=suite.flaky,
        whole=suite.whole,
        chosen=suite.chosen,
        cut_before=suite.before.cut,
        cut_after=suite.after.cut,
    )
    return {"suite": counts, "suite_problem": problem}


LOG_CHARACTERS: Final = 20_000


class Report(Frozen):
    """`report.json`. Fields of stages that the run did not reach are null or empty."""

    format: Literal[1] = 1
    capuchin: str
    outcome: Literal["fix", "unproven", "no fix", "out of budget"]
    proven: bool | None = None
    """Whether a test failed without the edit and passed with it; null without an edit."""
    unproven: str = ""
    """Why the edit is not proven."""
    reason: str = ""
    """Why there is no fix: a `NoFixReason`."""
    learnt: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    """Without a fix: the files that the edits changed."""
    script: str = ""
    """Without a fix: a script that fails on the current code, or before an existing fix."""
    base_commit: CommitSha
    image: str
    title: str = ""
    cause: str = ""
    change: str = ""
    decided_by: str = ""
    why: str = ""
    method: str = ""
    confidence: float | None = None
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
    """Why `suite` is null."""
    environment: EnvironmentReport | None = None
    """Null if nothing ran."""
    blocked: BlockedHosts | None = None
    """The hosts that the tests could not reach, according to their output."""
    context: ContextReport | None = None
    accounts: tuple[Account, ...]
    dollars: float
    code_sent_to: tuple[str, ...] | None = None
    """External hosts that received code; empty: none; null: unknown."""
    recorded: bool
    """Whether the answers came from a recording instead of a model."""
    seconds: BusySeconds | None = None
    """What the wall time of the run went into; null for runs of an evaluation."""


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
        edits_fields: dict[str, Any] = {}
        if edits := result.edits:
            edits_fields = {
                "method": edits.method,
                "confidence": edits.confidence,
                **_table_fields(edits.votes, edits.standings, edits.order),
                "flaky": edits.votes.flaky,
                **_suite_fields(edits.suite, edits.suite_problem),
            }
        return replace(
            common,
            outcome="out of budget" if spent else "no fix",
            reason=result.reason,
            learnt=result.details,
            suspects=result.suspects,
            script=result.script,
            **edits_fields,
        )
    return replace(common, **_selection_fields(result))


def build_selection_report(chosen: Outcome[Choice], base_commit: CommitSha) -> Report:
    judged, no = chosen.result.judged, chosen.result.no_fix
    ended = build_report(chosen.with_result(no or NoFix(reason="no edit")), base_commit)
    verdict, table, taken = judged.verdict, judged.table, None if no else judged.chosen
    known: dict[str, object] = {
        "method": verdict.method,
        **_table_fields(table, verdict.standings, verdict.order, taken),
        "flaky": verdict.flaky,
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
            **_suite_fields(verdict.suite, verdict.suite_problem),
        }
    return replace(ended, **known)


def _selection_fields(chosen: Selection) -> dict[str, object]:
    def summarise(run: Execution) -> ExecutionSummary:
        return ExecutionSummary(
            exit_code=run.exit_code, ending=run.ending.value, seconds=run.seconds
        )

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
        **_table_fields(proof.votes, proof.standings, proof.order, chosen.candidate),
        "flaky": proof.votes.flaky,
        "notes": proof.notes,
        "reproduction": ReproductionSummary(
            rung=proof.reproduction.rung,
            path=proof.reproduction.path,
            command=proof.reproduction.command,
            before=summarise(proof.reproduction.before),
            after=summarise(proof.reproduction.after),
        ),
        **_suite_fields(proof.suite, proof.suite_problem),
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
        reason = no_fix_reason(result.reason, "run it again with another `--out`")
        parts = ["# No fix", reason[:1].upper() + reason[1:]]
        parts += [f"- {prose(sentence)}" for sentence in result.details]
        if result.suspects:
            parts += [
                "## Probable location of the cause",
                *(f"- {code(p)}" for p in result.suspects),
            ]
        if result.script:
            script = script_block(result.script, LOG_CHARACTERS, result.script_suffix)
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
