"""Weighs a script that reaches the lines that the chosen edit changes from elsewhere."""

import textwrap
from collections.abc import Sequence

from pipeline.concurrency import gather_all
from pipeline.data.suite_reports import FurtherScript
from pipeline.data.types import NOT_FIXED
from pipeline.resources import Workspace
from pipeline.selection.explain import describe_end
from pipeline.selection.methods import behaving_alike
from pipeline.selection.scoring.confidence import sigmoid, to_log_odds
from pipeline.selection.scoring.standings import load_shipped_ratios
from pipeline.selection.verdict import Judgement, Verdict, name_edits
from pipeline.store import digest, load_or_run
from prompts.text import strip_ansi
from sandbox.frozen import Frozen, replace
from sandbox.program import NO_ENV, Execution, repeat_environment


class ElsewhereRuns(Frozen):
    """How the script ended; saved under `elsewhere/<digest>`."""

    base: Execution
    runs: tuple[Execution, ...]
    """With the chosen edit, then with others."""
    is_steady: bool
    """Whether each ended the same when it was repeated."""


async def weigh_elsewhere(workspace: Workspace, judged: Judgement, script: str) -> Verdict:
    """The verdict with what `script` shows.

    Where it fails with the chosen edit, edits come first in the order that are as well founded, and
    pass it and every further script that the chosen one passes. Where there are none, a note says
    that, and whether the unedited code passes it: then the chosen edit is less likely to be right.
    A note also says where it passes with the chosen edit. A script that does not always end the
    same shows nothing.

    Raises:
        SandboxError: call again to resume.
    """
    verdict, standings, chosen = judged.verdict, judged.standings, judged.verdict.chosen
    if chosen is None or standings is None or verdict.method != "evidence":
        return verdict
    best_first = standings.table.distinct((*verdict.finalists, *verdict.order))
    fit = [c for c in best_first if standings.reproduces(c) and not standings.breaks(c)]
    among = (chosen, *(c for c in fit if c != chosen))
    found = await _run(workspace, script, [judged.table.candidates[c].patch.diff for c in among])
    runs = dict(zip(among, found.runs, strict=True))
    if not found.is_steady or runs[chosen].exit_code not in (0, NOT_FIXED):
        return verdict
    before = verdict.further
    more = FurtherScript(
        text=script, base=found.base, candidates=among, runs=found.runs, after_choice=True
    )
    verdict = replace(verdict, further=(*before, more))
    what = "a script that was written to reach the changed lines from elsewhere"
    name = name_edits(judged.table, verdict.order)[chosen]
    if runs[chosen].passed:
        first = describe_end(found.base)
        note = f"{what.capitalize()} {first} on the original code and passes with edit {name}."
        return replace(verdict, notes=(*verdict.notes, note))
    better = [c for c in among if runs[c].passed and _keeps_up(before, c, chosen)]
    says = f" It prints: “{_quote_expectation(runs[chosen].output)}”"
    if not better:
        lost = found.base.passed
        how = "passes on the original code and fails" if lost else "fails"
        same = (
            "" if lost or found.base.exit_code != NOT_FIXED else ", as it does on the original code"
        )
        note = f"{what.capitalize()} {how} with edit {name}, which was chosen{same}.{says}"
        odds = load_shipped_ratios().ratios.passes.odds(False) if lost else 0.0
        sure = sigmoid(to_log_odds(verdict.confidence) + odds)
        return replace(verdict, notes=(*verdict.notes, note), confidence=sure)
    return replace(
        verdict,
        order=(*better, *(c for c in verdict.order if c not in better)),
        decided_by="evidence",
        reasons=(),
        notes=(*verdict.notes, f"Another edit came first, until {what} failed with it.{says}"),
    )


def find_rival(judged: Judgement) -> str:
    """The diff of the best other edit that behaves like the chosen one and has other code; empty if
    there is none."""
    chosen, standings = judged.verdict.chosen, judged.standings
    if chosen is None or standings is None:
        return ""
    alike = set(behaving_alike(standings, chosen))
    code = standings.entries[chosen].same_as
    others = (
        judged.table.candidates[c].patch.diff
        for c in judged.verdict.order
        if c in alike and standings.entries[c].same_as != code
    )
    return next(others, "")


async def _run(workspace: Workspace, script: str, diffs: Sequence[str]) -> ElsewhereRuns:
    trees = ("", *diffs)

    async def work() -> ElsewhereRuns:
        (base, *runs), again = [
            await gather_all(workspace.run_script(script, diff, env=env) for diff in trees)
            for env in (NO_ENV, repeat_environment(1))
        ]
        first = [run.exit_code for run in (base, *runs)]
        steady = first == [run.exit_code for run in again]
        return ElsewhereRuns(base=base, runs=tuple(runs), is_steady=steady)

    key = f"elsewhere/{digest(script, *trees)}"
    return await load_or_run(workspace.store, key, ElsewhereRuns, work)


def _keeps_up(further: Sequence[FurtherScript], candidate: int, chosen: int) -> bool:
    """Whether `candidate` fails no further script that `chosen` passes."""
    ran = [dict(zip(one.candidates, one.runs, strict=True)) for one in further]
    return all(
        runs[candidate].passed
        for runs in ran
        if candidate in runs and chosen in runs and runs[chosen].passed
    )


def _quote_expectation(output: str) -> str:
    """The last line that names what was expected, or else the last."""
    lines = [line for line in strip_ansi(output).splitlines() if line.strip()]
    named = [line for line in lines if "expect" in line.lower()]
    last = (named or lines or ["it fails, and prints nothing"])[-1]
    return textwrap.shorten(last, 120, placeholder=" …")
