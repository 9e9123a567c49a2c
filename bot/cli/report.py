"""What one run from the command line came to: as data for programs, as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bot.comments import pull_request
from bot.comments.code_destinations import told
from bot.comments.context import ContextFound, context_details, context_found
from bot.comments.status import no_fix_reason
from bot.markdown import block, code, prose
from bot.runner.types import Chosen, Outcome
from pipeline.types import (
    Account,
    Candidate,
    NoFix,
    Rejected,
    Selection,
    Standing,
    SuiteReport,
    VoteTable,
)
from pipeline.workflows.blocked_hosts import Blocked, blocked_in
from sandbox.base import Execution

LOG_CHARACTERS = 20_000
NO_EDIT = NoFix(reason="no edit")
START_AGAIN = "start again with another `--out`"


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
    support: int | None = None
    """How many edits are equal to it after normalisation, itself included."""
    broken: tuple[str, ...] | None = None
    """The repository's own tests that it breaks; null where they were not run with it."""
    reward: float | None = None
    score: float | None = None
    """In log-odds; only differences within the table mean anything."""


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
    flaky: tuple[str, ...]
    """Left out of all counts: they do not always pass without the edit."""
    whole: int
    """How many tests pass without the edit; `passed_before` counts those run with it, too."""
    chosen: str
    """Which tests were run, in words; empty when all were."""


class Report(Part):
    """`report.json`. Fields that a run did not get to are null or empty."""

    format: Literal[1] = 1
    capuchin: str
    outcome: Literal["fix", "no fix", "out of budget"]
    reason: str = ""
    """Why there is no fix: one of the pipeline's closed list."""
    learnt: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    """Without a fix: the files that the edits changed."""
    script: str = ""
    """Without a fix: a script that fails on the code as it is."""
    base_commit: str
    image: str
    title: str = ""
    cause: str = ""
    change: str = ""
    decided_by: str = ""
    why: str = ""
    method: str = ""
    """The way of choosing that was set."""
    confidence: float | None = None
    """The probability that the edit is right."""
    table: tuple[Row, ...] = ()
    """The unedited code first."""
    flaky: tuple[int, ...] = ()
    """The columns of tests that end now so, now otherwise, from 0."""
    order: tuple[str, ...] = ()
    """The names of the chosen edit and of those to fall back on, best first."""
    notes: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    """Of edits from anywhere: those that do not apply, with git's reason."""
    reproduction: Reproduced | None = None
    suite: Tested | None = None
    blocked: Blocked | None = None
    """What the output of the tests says they tried to reach, without a network."""
    context: ContextFound | None = None
    accounts: tuple[Account, ...]
    dollars: float
    code_sent_to: tuple[str, ...] | None = None
    """Hosts that are not certain to be the operator's own; empty: none; null: not known."""
    recorded: bool
    """Whether the answers came from a recording and not from a model."""


def report_of(outcome: Outcome, base_commit: str, sent: tuple[str, ...] | None = None) -> Report:
    """The report of a run that came to an answer; `sent`: the hosts that code was sent to."""
    result = outcome.result
    common = Report(
        capuchin=version("capuchin"),
        outcome="fix",
        base_commit=base_commit,
        image=outcome.image,
        context=context_found(outcome.context, outcome.accounts, outcome.context_seconds),
        accounts=outcome.accounts,
        dollars=outcome.dollars,
        code_sent_to=sent,
        recorded=any(account.model.startswith("recorded") for account in outcome.accounts),
    )
    if isinstance(result, NoFix):
        spent = result.reason == "out of budget"
        return common.model_copy(
            update={
                "outcome": "out of budget" if spent else "no fix",
                "reason": result.reason,
                "learnt": result.learnt,
                "suspects": result.suspects,
                "script": result.script,
            }
        )
    return common.model_copy(update=_fields(result))


def report_of_choice(chosen: Chosen, base_commit: str) -> Report:
    """The report of a choice among edits from anywhere."""
    judged, no = chosen.choice.judged, chosen.choice.no
    ended = report_of(Outcome(no or NO_EDIT, chosen.accounts, chosen.image), base_commit)
    verdict, table, taken = judged.verdict, judged.table, None if no else judged.chosen
    known: dict[str, object] = {
        "method": verdict.method,
        "table": _table(table, verdict.standings, taken),
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
            "suite": _tested(verdict.suite) if verdict.suite else None,
        }
    return ended.model_copy(update=known)


def _fields(chosen: Selection) -> dict[str, object]:
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
        "table": _table(proof.votes, proof.standings, chosen.candidate),
        "flaky": proof.votes.flaky,
        "order": tuple(proof.votes.candidates[c].name for c in proof.order),
        "notes": proof.notes,
        "reproduction": Reproduced(
            path=proof.reproduction.path,
            command=proof.reproduction.command,
            before=_ran(proof.reproduction.before),
            after=_ran(proof.reproduction.after),
        ),
        "suite": _tested(proof.suite) if proof.suite else None,
        "blocked": blocked_in(chosen),
    }


def _table(
    votes: VoteTable, standings: Sequence[Standing], chosen: Candidate | None
) -> tuple[Row, ...]:
    rows = [_row("unedited code", votes.base)]
    known = standings or [None for _ in votes.candidates]
    for candidate, runs, stands in zip(votes.candidates, votes.runs, known, strict=True):
        row = _row(candidate.name, runs, chosen=candidate == chosen)
        if stands:
            told = {"support": stands.support, "broken": stands.broken, "reward": stands.reward}
            row = row.model_copy(update={**told, "score": stands.score})
        rows.append(row)
    return tuple(rows)


def _row(name: str, runs: Sequence[Execution], *, chosen: bool = False) -> Row:
    results = tuple(run.passed for run in runs)
    return Row(name=name, chosen=chosen, passes=sum(results), results=results)


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
        flaky=suite.flaky,
        whole=suite.whole,
        chosen=suite.chosen,
    )


def as_markdown(outcome: Outcome, sent: tuple[str, ...] | None = None) -> str:
    """`report.md`; `sent` as in `report_of`."""
    result = outcome.result
    if isinstance(result, Selection):
        heading = f"# {prose(result.evidence.title, 200)}"
        proof = pull_request.proof_of(result, LOG_CHARACTERS, commits=False)
        parts = [heading, *pull_request.account_of(result), *proof]
    else:
        reason = no_fix_reason(result.reason, START_AGAIN)
        parts = ["# No fix", reason[:1].upper() + reason[1:]]
        parts += [f"- {prose(sentence)}" for sentence in result.learnt]
        if result.suspects:
            parts += ["## Where I suspect the cause", *(f"- {code(p)}" for p in result.suspects)]
        if result.script:
            script = block(result.script, LOG_CHARACTERS, "python")
            parts += [f"## A script that fails on the code as it is\n\n{script}"]
    parts.append(pull_request.answered_by(outcome.accounts))
    parts.append(told(sent, outcome.accounts, served=False))
    if outcome.context is not None:
        seconds = outcome.context_seconds
        parts.append(context_details(outcome.context, outcome.accounts, seconds))
    parts.append(pull_request.cost(outcome.accounts))
    return "\n\n".join(filter(None, parts)) + "\n"
