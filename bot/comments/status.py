"""The status comment of an issue: one function per state, with checklist and queue position."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from bot.comments.evidence import describe_minutes
from bot.comments.failures import (
    LABEL_AGAIN,
    failure_reason,
    no_fix_headline,
    no_fix_reason,
    script_headline,
    stop_reason,
    waiting_sentence,
)
from bot.comments.unpublished import HAVE_EDIT, fold_selection, list_kept_ways, list_ways_on
from bot.comments.vote_table import render_edits
from bot.data.failure import Failure
from bot.data.progress import STAGES, Progress, Stage
from bot.data.run import Mode, QueuePosition, Run, RunId, SkippedComments, StopReason
from bot.safe_text import code, details, prose, script_block
from pipeline.data.types import NoFix, Selection
from pipeline.selection.verdict import to_letter
from pipeline.workflows.plan import price_range
from prompts.text import agree, describe_dollars, pluralize
from sandbox.frozen import replace

STAGE_TITLES: Final[dict[Stage, str]] = {
    "environment": "Install the repository",
    "context": "Check the issue and find the code",
    "edits": "Write edits and scripts",
    "choice": "Run the tests and choose",
    "reproduction": "Show the fix with a test",
}


def render_checklist(run: Run, progress: Progress) -> str:
    """The run's stages (if it fixes an issue) with times, its current step, and usual durations."""
    parts: list[str] = []
    if run.mode in (Mode.FIX, Mode.AUTO) and progress.stages:
        parts.append("\n".join(_list_stages(progress)))
    else:
        known = _counts("environment", progress)
        parts += [prose(progress.doing, 500), f"Environment: {known}" if known else ""]
    if progress.heard:
        known = pluralize(progress.heard, "comment")
        are = agree(progress.heard, "is", "are")
        parts.append(f"{known} written since I began {are} known to what began after that.")
    parts.append(_time_sentence(run, progress))
    return "\n\n".join(filter(None, parts))


def _list_stages(progress: Progress) -> Iterator[str]:
    began = progress.stages
    latest = max(began, key=STAGES.index)
    for stage in STAGES:
        title, counts = STAGE_TITLES[stage], _counts(stage, progress)
        if stage == latest:
            doing = " · ".join(filter(None, (prose(progress.doing, 500).rstrip("."), counts)))
            yield f"- ⏳ **{title}**{f': {doing}' if doing else ''}"
        elif STAGES.index(stage) > STAGES.index(latest):
            yield f"- ☐ {title}"
        else:
            seconds = measure_stage(stage, began)
            took = "" if seconds is None else describe_minutes(seconds)
            done = " · ".join(filter(None, (counts, took)))
            yield f"- ✅ {title}{f': {done}' if done else ''}"


def _counts(stage: Stage, progress: Progress) -> str:
    text = describe_counts(stage, progress)
    return prose(text, 500) if stage == "environment" else text


def describe_counts(stage: Stage, progress: Progress) -> str:
    """The counts of a stage so far, in words; those of the environment are untrusted."""
    match stage:
        case "environment":
            return progress.environment
        case "context":
            files = progress.files
            return f"{pluralize(files, 'file')} read" if files else ""
        case "edits":
            edits = f"{pluralize(progress.edits, 'edit')}" if progress.edits else ""
            more = progress.edits_begun - progress.edits
            under_way = f"{more} under way" if more > 0 else ""
            scripts = f"{pluralize(progress.tests, 'script')}" if progress.tests else ""
            return ", ".join(filter(None, (scripts, edits, under_way)))
        case "choice" if progress.suite_tests:
            text = f"{progress.suite_tests:,} of this repository's tests run without an edit"
            if progress.suite_runs:
                runs = pluralize(progress.suite_runs, "further run")
                text += f", {progress.suite_run:,} in {runs}"
            return text
        case _:
            return ""


def measure_stage(stage: Stage, began: dict[Stage, datetime]) -> float | None:
    """The seconds that a stage took, from the times when stages began; None until it is over."""
    later = [began[one] for one in STAGES[STAGES.index(stage) + 1 :] if one in began]
    if stage not in began or not later:
        return None
    return (later[0] - began[stage]).total_seconds()


def _time_sentence(run: Run, progress: Progress) -> str:
    parts: list[str] = []
    if run.started_at is not None:
        seconds = (progress.at - run.started_at).total_seconds()
        parts.append(f"{describe_minutes(seconds)} so far")
    if progress.expected is not None:
        low, high = (max(1, round(seconds / 60)) for seconds in progress.expected)
        span = f"{low} to {high} minutes" if low < high else pluralize(low, "minute")
        parts.append(f"half of the latest runs took {span}")
    if progress.costs and progress.ceiling and run.mode in (Mode.FIX, Mode.AUTO):
        usual, most = price_range(*progress.costs), f"${progress.ceiling:.2f}"
        which = "them" if progress.expected else "the latest runs"
        parts.append(f"half of {which} cost {usual}, and this one costs at most {most}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def tell_spent(run: Run) -> str:
    """What a run that was stopped had cost, as a sentence."""
    if not run.dollars:
        return "I had spent nothing."
    return f"I had spent {describe_dollars(run.dollars)} at list prices."


def status_marker(run_id: RunId) -> str:
    """Identifies the run's one status comment; invisible on GitHub."""
    return f"<!-- capuchin:status run={run_id} -->"


def pull_marker(run_id: RunId) -> str:
    return f"<!-- capuchin:run={run_id} -->"


def find_run(body: str) -> RunId | None:
    found = re.search(r"<!-- capuchin:run=([0-9a-f]{32}) -->", body)
    return RunId(found[1]) if found else None


def render_started(run: Run) -> str:
    return render_status(run, _work_sentence(run))


def render_progress(run: Run, progress: Progress) -> str:
    return render_status(
        replace(run, dollars=max(run.dollars, progress.dollars)),
        f"{_work_sentence(run)}\n\n{render_checklist(run, progress)}",
    )


def render_waiting(run: Run, reason: Failure) -> str:
    more = "I have saved my progress, and will retry and continue from there."
    return render_status(run, f"{_work_sentence(run)}\n\n{waiting_sentence(reason)} {more}")


def _work_sentence(run: Run) -> str:
    asked = f"as @{run.asked_by} asked."
    match run.mode:
        case Mode.PLAN:
            plan = "This is a dry run: I will not open a pull request."
            return f"I am looking into this, {asked} {plan}"
        case Mode.JUDGE:
            pulls = ", ".join(f"#{number}" for number in run.pulls)
            return f"I am comparing {pulls}, {asked} I will not push anything."
        case Mode.USE:
            letter = to_letter(run.candidate - 1)
            return f"I am putting edit {letter} into the pull request, {asked}"
        case _:
            return f"I am looking into this, {asked}"


def render_opened(run: Run, number: int, *, draft: bool, proven: bool = True) -> str:
    if not proven:
        return render_status(
            run,
            f"I opened #{number}, a draft with an **unproven** edit: no test of this repository "
            "shows that it fixes the issue. Please check it before you use it.",
        )
    please = "It is a draft: please review" if draft else "Please review"
    return render_status(
        run,
        f"I opened #{number} with a test that fails without the change and passes with it. "
        f"{please} it before you merge.",
    )


def render_no_fix(run: Run, result: NoFix, name: str = "", *, fixed_by: int | None = None) -> str:
    """The status comment of a run that found no fix.

    `name` is what commands begin with, `fixed_by` the merged pull request that fixed it already.
    """
    text = no_fix_headline(result, fixed_by)
    reasons = "\n".join(f"- {prose(sentence, 600)}" for sentence in result.details[:8])
    if reasons:
        text += f"\n\nWhat I found out:\n\n{reasons}"
    if result.suspects:
        paths = "\n".join(f"- {code(path)}" for path in result.suspects[:10])
        text += f"\n\nI tried changes in these files:\n\n{paths}"
    if result.script:
        script = script_block(result.script, 12_000, result.script_suffix)
        text += f"\n\n{details(script_headline(result), script)}"
    if result.edits:
        text += f"\n\n{render_edits(result.edits, f'/{name} use' if name else '')}"
    return render_status(run, text)


def render_not_judged(run: Run) -> str:
    return render_status(run, f"I cannot compare them: {no_fix_reason('no source files')}")


def render_failed(run: Run) -> str:
    reason = failure_reason(run.failure or Failure.INTERNAL, run.facts)
    return render_status(run, f"I could not work on this: {reason}")


def render_unpublished(run: Run, selection: Selection, name: str) -> str:
    """The status comment of a run that broke off with an edit; `name` begins commands."""
    failure = run.failure or Failure.INTERNAL
    reason = failure_reason(failure, run.facts)
    if failure is not Failure.PUBLISH_REFUSED:
        reason = f"{HAVE_EDIT}: {reason}"
    parts = (reason, list_ways_on(name), fold_selection(selection))
    return render_status(run, "\n\n".join(parts))


def render_stopped(run: Run, name: str, edit: Selection | None = None) -> str:
    """The status comment of a run that somebody stopped, with its cost, and the edit that it had
    by then; `name` begins commands."""
    stop = run.stop
    assert stop is not None
    again = LABEL_AGAIN
    if stop.why is StopReason.DISABLED:
        again = "remove that label and ask again"
    text = f"I stopped {stop_reason(stop)}. {tell_spent(run)} To restart, {again}."
    if edit is not None:
        text += f" {list_kept_ways(name)}\n\n{fold_selection(edit)}"
    return render_status(replace(run, dollars=0.0), text)


def render_late_stop(run: Run, number: int) -> str:
    return render_status(
        run,
        f"I had already opened #{number} when the stop request arrived. Close it if you do not "
        "want it; I will not change it.",
    )


def omissions_note(skipped: SkippedComments) -> str:
    """The parts of the issue that the model did not see; empty if it saw everything."""
    parts: list[str] = []
    if skipped.untrusted:
        comments = pluralize(skipped.untrusted, "comment")
        parts.append(f"{comments} by people without permission to start me")
    if skipped.late:
        comments = pluralize(skipped.late, "comment")
        parts.append(f"{comments} written or edited after the request")
    if skipped.edited:
        parts.append("edits of the issue after the request")
    if skipped.pictures:
        parts.append(pluralize(skipped.pictures, "picture"))
    if skipped.files:
        parts.append(pluralize(skipped.files, "attached file"))
    if skipped.hidden:
        passages = pluralize(skipped.hidden, "hidden passage")
        parts.append(f"{passages} ({pluralize(skipped.hidden_characters, 'character')})")
    if skipped.declared:
        parts.append(f"{pluralize(skipped.declared, 'declaration')} of the issue's form")
    note = f"Not read: {'; '.join(parts)}." if parts else ""
    if skipped.folded:
        note += f" Folded text was read: {pluralize(skipped.folded, 'character')}."
    if skipped.attached:
        note += f" Attached files were read: {', '.join(map(code, skipped.attached))}."
    return note.strip()


def render_status(run: Run, text: str) -> str:
    spent = f" · {describe_dollars(run.dollars)} at list prices" if run.dollars else ""
    page = f" · [run page]({run.page_url})" if run.page_url else ""
    note = omissions_note(run.skipped)
    unread = f" · {note}" if note else ""
    anew = " · Started over after an upgrade" if run.begun_anew else ""
    more = f"{spent}{page}{unread}{anew}"
    return f"{text}\n\n<sub>Run `{run.id}`{more}</sub>\n{status_marker(run.id)}\n"


def render_queued(run: Run, wait: QueuePosition) -> str:
    expected = f" {start_words(wait)}" if wait.expected_seconds is not None else ""
    return render_status(
        run,
        f"I will look into this, as @{run.asked_by} asked. "
        f"The run is {turn_words(wait)}.{expected}",
    )


def render_no_worker(run: Run) -> str:
    return render_status(
        run,
        f"I will look into this, as @{run.asked_by} asked, but none of my workers is running at "
        "the moment. The run starts as soon as one is back. The operator's log says why.",
    )


def turn_words(wait: QueuePosition) -> str:
    ahead = wait.position - 1
    return f"queued behind {pluralize(ahead, 'other run')}" if ahead else "next in the queue"


def start_words(wait: QueuePosition) -> str:
    """A sentence on when the run is expected to start; empty if unknown."""
    if wait.expected_seconds is None:
        return ""
    return f"I expect to start {describe_wait(wait.expected_seconds)}."


def describe_wait(expected_seconds: tuple[float, float]) -> str:
    """The shortest and the longest expected wait, as an estimate in words."""
    shortest, longest = expected_seconds
    if longest < 120:
        return "within two minutes"
    unit, seconds = ("minutes", 60) if longest < 90 * 60 else ("hours", 3600)
    low, high = round(shortest / seconds), max(1, round(longest / seconds))
    if low == 0:
        return f"within {high} {unit}"
    return f"in about {high} {unit}" if low == high else f"in {low}–{high} {unit}"
