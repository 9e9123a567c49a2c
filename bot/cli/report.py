"""`report.json`, `report.md` and the edits as files."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import PurePath
from typing import Any, Final, Literal

from bot.cli.stopwatch import BusySeconds
from bot.comments import pull_request
from bot.comments.candidates import render_verdict
from bot.comments.evidence import unproven_title, unseen_sentence
from bot.comments.failures import no_fix_reason, script_headline
from bot.comments.run_details import (
    destinations_note,
    dump_context,
    dump_environment,
    render_context,
    render_environment,
)
from bot.comments.vote_table import render_edits
from bot.data.job import Outcome
from bot.data.marks import UNEDITED
from bot.safe_text import code, prose, script_block
from pipeline.data.suite_reports import Standing, SuiteReport
from pipeline.data.types import (
    Account,
    Candidate,
    CommitSha,
    NoFix,
    RejectedEdit,
    Selection,
    VoteTable,
)
from pipeline.reasons import BlockedHosts, find_blocked_in_selection
from pipeline.select import Choice
from pipeline.selection.verdict import get_votes, name_edits, rank_result, to_letter
from sandbox.frozen import Frozen
from sandbox.program import Execution

FOLDER: Final = "candidates"
_Dump = dict[str, Any]
"""Fields of `report.json`."""


def list_edits(result: Selection | NoFix | Choice) -> dict[str, bytes]:
    """The diffs by their paths below `--out`: the chosen one, and all that a run wrote."""
    if isinstance(result, Choice):
        taken = None if result.no_fix else result.judged.chosen
        return {"patch.diff": _encode(taken.patch.diff)} if taken else {}
    votes = get_votes(result)
    files = {
        f"{FOLDER}/{to_letter(rank)}.diff": _encode(votes.candidates[at].patch.diff)
        for rank, at in enumerate(rank_result(result) if votes else ())
        if votes
    }
    if isinstance(result, Selection) and result.is_shown:
        proof = result.evidence.reproduction
        files["patch.diff"] = _encode(result.candidate.patch.diff)
        if proof.rung != "the edit's own tests":
            files[f"reproduction_test{PurePath(proof.path).suffix}"] = proof.text.encode()
            files["test.diff"] = proof.diff.encode()
    return files


def _encode(diff: str) -> bytes:
    return diff.encode("utf-8", "surrogatepass")


class Report(Frozen):
    """`report.json`. Fields of stages that the run did not reach are null or empty."""

    format: Literal[1] = 1
    capuchin: str
    outcome: Literal["fix", "unproven", "no fix", "out of budget"]
    proven: bool | None = None
    """Whether a test failed without the edit and passed with it, and the tests near the edit ran
    and none broke; null without an edit."""
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
    table: tuple[_Dump, ...] = ()
    """The results of every test, true if it passes: the unedited code first, then the edits, best
    first, with the fields of `Candidate` and `Standing`; null where these are not known."""
    flaky: tuple[int, ...] = ()
    """The columns of flaky tests, from 0."""
    order: tuple[str, ...] = ()
    """The names of the chosen edit and of the alternatives, best first."""
    notes: tuple[str, ...] = ()
    rejected: tuple[RejectedEdit, ...] = ()
    """Edits from outside that do not apply, with git's reason."""
    reproduction: _Dump | None = None
    """Fields of `Reproduction`; the output of its executions is in the bundle."""
    suite: _Dump | None = None
    """Fields of `SuiteReport`, with counts of tests before and after."""
    suite_problem: str = ""
    """Why `suite` is null."""
    environment: _Dump | None = None
    """As in `health.json`; null if nothing ran."""
    blocked: BlockedHosts | None = None
    """The hosts that the tests could not reach, according to their output."""
    context: _Dump | None = None
    accounts: tuple[Account, ...]
    dollars: float
    code_sent_to: tuple[str, ...] | None = None
    """External hosts that received code; empty: none; null: unknown."""
    recorded: bool
    """Whether the answers came from a recording instead of a model."""
    seconds: BusySeconds | None = None
    """What the wall time of the run went into; null for runs of an evaluation."""


def build_report(
    outcome: Outcome[Selection | NoFix | Choice],
    base_commit: CommitSha,
    hosts: tuple[str, ...] | None = None,
    seconds: BusySeconds | None = None,
) -> Report:
    """The report of a finished run; `hosts` are the hosts that received code."""
    match outcome.result:
        case Selection() as chosen:
            found = _dump_selection(chosen)
        case NoFix() as no:
            found = _dump_no_fix(no)
        case Choice() as choice:
            found = _dump_choice(choice)
    return Report(
        capuchin=version("capuchin-bot"),
        base_commit=base_commit,
        image=outcome.image,
        environment=dump_environment(outcome.environment) if outcome.environment else None,
        context=dump_context(outcome.context, outcome.accounts, outcome.context_seconds),
        accounts=outcome.accounts,
        dollars=outcome.dollars,
        code_sent_to=hosts,
        recorded=any(account.model.startswith("recorded") for account in outcome.accounts),
        seconds=seconds,
        **found,
    )


def _dump_no_fix(no: NoFix) -> _Dump:
    spent = no.reason in ("out of budget", "out of time")
    found: _Dump = {
        "outcome": "out of budget" if spent else "no fix",
        "learnt": no.details,
        **no.model_dump(include={"reason", "suspects", "script"}),
    }
    if edits := no.edits:
        found |= edits.model_dump(include={"method", "confidence", "suite_problem"})
        found |= _dump_table(edits.votes, edits.standings, edits.order)
        found |= {"flaky": edits.votes.flaky, "suite": _dump_suite(edits.suite)}
    return found


def _dump_choice(choice: Choice) -> _Dump:
    judged, no = choice.judged, choice.no_fix
    verdict, table, taken = judged.verdict, judged.table, None if no else judged.chosen
    found = _dump_no_fix(no or NoFix(reason="no edit"))
    found |= verdict.model_dump(include={"method", "flaky", "notes"})
    found |= _dump_table(table, verdict.standings, verdict.order, taken)
    found["rejected"] = table.rejected
    if taken is not None:
        found |= {"outcome": "fix", "reason": "", "title": taken.name}
        found |= verdict.model_dump(include={"decided_by", "confidence", "why", "suite_problem"})
        found["suite"] = _dump_suite(verdict.suite)
    return found


def _dump_selection(chosen: Selection) -> _Dump:
    proof, run = chosen.evidence, {"exit_code", "ending", "seconds"}
    same = {"unproven", "title", "cause", "change", "why", "method", "notes", "suite_problem"}
    tested = {"rung": True, "path": True, "command": True, "before": run, "after": run}
    return {
        "outcome": "fix" if chosen.is_shown else "unproven",
        "proven": chosen.is_proven,
        "learnt": (proof.cut_short,) if proof.cut_short else (),
        **proof.model_dump(include=same),
        **chosen.model_dump(include={"decided_by", "confidence"}),
        **_dump_table(proof.votes, proof.standings, proof.order, chosen.candidate),
        "flaky": proof.votes.flaky,
        "reproduction": proof.reproduction.model_dump(mode="json", include=tested),
        "suite": _dump_suite(proof.suite),
        "blocked": find_blocked_in_selection(chosen),
    }


def _dump_table(
    votes: VoteTable,
    standings: Sequence[Standing],
    order: Sequence[int],
    chosen: Candidate | None = None,
) -> _Dump:
    """`table`, the unedited code first, then the edits in `order`; and the names in `order`."""

    def row(name: str, runs: Sequence[Execution], at: int | None = None) -> _Dump:
        edit = None if at is None else votes.candidates[at]
        stands = standings[at] if at is not None and standings else None
        results = [run.passed for run in runs]
        written, known = ("machine", "model", "summary"), ("support", "broken", "reward", "score")
        return {
            "name": name,
            "chosen": edit is not None and edit == chosen,
            "passes": sum(results),
            "results": results,
            **{field: getattr(edit, field, "") for field in written},
            **{field: getattr(stands, field, None) for field in known},
        }

    names = name_edits(votes, order)
    every = (*order, *(at for at in range(len(names)) if at not in order))
    edits = [row(names[at], votes.runs[at], at) for at in every]
    return {"table": [row(UNEDITED, votes.base), *edits], "order": tuple(names[c] for c in order)}


def _dump_suite(suite: SuiteReport | None) -> _Dump | None:
    if suite is None:
        return None
    found = suite.model_dump(
        mode="json", include={"command", "failing", "flaky", "whole", "chosen"}
    )
    found["broken"] = suite.broken
    for when, run in (("before", suite.before), ("after", suite.after)):
        found[f"passed_{when}"], found[f"failed_{when}"] = len(run.passed), len(run.failed)
        found[f"cut_{when}"] = run.cut
    return found


LOG_CHARACTERS: Final = 20_000


def render_report(
    outcome: Outcome[Selection | NoFix | Choice], hosts: tuple[str, ...] | None = None
) -> str:
    """`report.md`; `hosts` are the hosts that received code."""
    result = outcome.result
    if isinstance(result, Choice):
        return f"# Verdict\n\n{render_verdict(outcome.with_result(result))}\n"
    if isinstance(result, Selection):
        title = result.evidence.title
        heading = f"# {prose(title if result.is_shown else unproven_title(title), 200)}"
        proof = pull_request.evidence_sections(result, LOG_CHARACTERS, commits=False)
        parts = [heading, unseen_sentence(result)]
        parts += [*pull_request.explanation_sections(result), *proof]
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
