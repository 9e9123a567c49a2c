"""How far a run has come, as a checklist: the same in the status comment and for `status`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from bot.comments.evidence.opening import describe_minutes
from bot.markdown import prose
from bot.storage.progress import STAGES, Progress, Stage
from bot.types import Mode, Run
from pipeline.codebase.text import pluralize

STAGE_TITLES: Final[dict[Stage, str]] = {
    "environment": "Install the repository",
    "context": "Find the code that matters",
    "edits": "Write edits and scripts",
    "choice": "Run the tests and choose",
    "reproduction": "Show the fix with a test",
}


def render_checklist(run: Run, progress: Progress) -> str:
    """The stages of a run with their times, what it does now, and how long runs take.

    Without the stages for a run that does not fix an issue.
    """
    parts: list[str] = []
    if run.mode is Mode.FIX and progress.stages:
        parts.append("\n".join(_lines(progress)))
    else:
        known = _counts("environment", progress)
        parts += [prose(progress.doing, 500), f"Environment: {known}" if known else ""]
    parts.append(_time_sentence(run, progress))
    return "\n\n".join(filter(None, parts))


def _lines(progress: Progress) -> Iterator[str]:
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
    """What a stage has counted so far, in words; of the environment untrusted."""
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
        case "choice":
            return _suite_counts(progress)
        case _:
            return ""


def _suite_counts(progress: Progress) -> str:
    if not progress.suite_tests:
        return ""
    base = f"{progress.suite_tests:,} of this repository's tests run without an edit"
    if not progress.suite_runs:
        return base
    return f"{base}, {progress.suite_run:,} in {pluralize(progress.suite_runs, 'further run')}"


def measure_stage(stage: Stage, began: dict[Stage, datetime]) -> float | None:
    """How many seconds a stage took, by when each began; None until it is over."""
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
        parts.append(f"most recent runs took {span}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
