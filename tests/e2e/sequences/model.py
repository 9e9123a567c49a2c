"""What must be true once a sequence is over and the sweep has run, whatever came in which order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bot.localhub import Comment, Issue
from bot.types import Run, RunStatus, StopReason
from tests.e2e.sequences.world import World
from tests.hub import ref_of

MARKER: Final = re.compile(r"<!-- (capuchin:[^>]*) -->")
BEGINS: Final = frozenset({"fix", "plan", "retry"})
TELLS: Final = frozenset({"status", "help", "fxi"})


@dataclass
class Said:
    """A command that somebody gave."""

    issue: Issue
    comment: Comment
    word: str
    who: str
    at: datetime
    edited: bool = False
    lost: bool = False


@dataclass
class Labelled:
    """A label of ours that somebody put on."""

    issue: Issue
    guid: str
    label: str
    who: str
    at: datetime


@dataclass
class History:
    """What people did in a sequence."""

    said: list[Said] = field(default_factory=list[Said])
    labelled: list[Labelled] = field(default_factory=list[Labelled])
    unlabelled: list[tuple[Issue, datetime]] = field(default_factory=list[tuple[Issue, datetime]])
    halted: list[tuple[Issue, datetime]] = field(default_factory=list[tuple[Issue, datetime]])
    """Each moment at which all work on an issue was to end: a stop, or its closing."""
    deleted: set[int] = field(default_factory=set[int])
    """Comments of ours that somebody deleted."""


async def problems(world: World, history: History) -> list[str]:
    """Everything that is not as it must be, as sentences."""
    runs = await world.ended()
    found = list(world.faults)
    if await world.runs.active() or await world.inbox.waiting():
        found.append("something is still under way")
    found += world.hub.unexpected
    found += _duplicate_runs(runs, history)
    for issue in world.issues:
        of = [r for r in runs if _is_of(r, issue)]
        found += _comments(issue, of, world, history)
        found += _pulls(issue, of)
        found += _stopped_for_nothing(issue, of, history)
        found += _forgotten_label(issue, of)
    found += [p for said in history.said for p in _forgotten_command(said, runs, world, history)]
    return found


def _is_of(run: Run, issue: Issue) -> bool:
    return (run.repo, run.issue) == (ref_of(issue.repo), issue.number)


def _duplicate_runs(runs: list[Run], history: History) -> Iterator[str]:
    """Each run is the answer to one thing that was asked for, and no other run is."""
    answered = Counter(_asked(run, history) for run in runs)
    for ask, count in answered.items():
        if ask is None:
            yield f"{count} runs that nobody asked for"
        elif count > 1:
            yield f"{count} runs for {ask}"


def _asked(run: Run, history: History) -> str | None:
    delivery = run.delivery.removeprefix("start-")
    for each in history.labelled:
        swept = f"sweep-{run.repo.full_name}-{run.issue}-{each.at.timestamp():.0f}"
        waited = f"{run.repo.full_name}-{run.issue}-{each.label}-{each.at.timestamp():.0f}"
        if _is_of(run, each.issue) and delivery in (each.guid, swept, waited):
            return f"label {each.label} on #{run.issue} at {each.at}"
    for said in history.said:
        if delivery == f"comment-{said.comment.id}":
            return f"/{said.word} on #{run.issue} at {said.at}"
    return None


def _comments(issue: Issue, runs: list[Run], world: World, history: History) -> Iterator[str]:
    ours = [c for c in issue.comments if c.author is world.hub.bot]
    for comment in ours:
        if len(MARKER.findall(comment.body)) != 1:
            yield f"a comment without its marker: {comment.body[:80]!r}"
    for marker, count in Counter(m for c in ours for m in MARKER.findall(c.body)).items():
        if count > 1:
            yield f"{count} comments {marker} on #{issue.number}"
    known = {comment.id: comment.body for comment in ours} | dict.fromkeys(history.deleted, "")
    for run in runs:
        if run.comment_id is not None and run.comment_id not in known:
            yield f"the status comment of a run of #{issue.number} is missing"
        elif "I am looking into this" in known.get(run.comment_id or 0, ""):
            yield f"the status comment of a run of #{issue.number} was not brought to an end"


def _pulls(issue: Issue, runs: list[Run]) -> Iterator[str]:
    for run in runs:
        pulls = [p for p in issue.repo.pulls if f"capuchin:run={run.id} " in (p.body or "")]
        opened = run.status is RunStatus.OPENED_PULL_REQUEST
        if len(pulls) != int(opened):
            yield f"{len(pulls)} pull requests of a run of #{issue.number} that is {run.status}"


def _stopped_for_nothing(issue: Issue, runs: list[Run], history: History) -> Iterator[str]:
    """What ends a run has happened after somebody asked for it."""
    ends = [at for one, at in (*history.halted, *history.unlabelled) if one is issue]
    for run in runs:
        stop, asked = run.stop, run.asked_at
        if stop is None or stop.why is StopReason.CLOSED or asked is None:
            continue
        if not any(at >= asked for at in ends):
            yield f"a run of #{issue.number} was stopped by what had been before"


def _forgotten_label(issue: Issue, runs: list[Run]) -> Iterator[str]:
    """A label that stays on an open issue has been answered by a run that failed."""
    ours = [label for label in issue.labels if label.startswith("capuchin")]
    if issue.state == "open" and ours and not any(r.status is RunStatus.FAILED for r in runs):
        yield f"#{issue.number} still wears {ours}"


def _forgotten_command(
    said: Said, runs: list[Run], world: World, history: History
) -> Iterator[str]:
    if said.edited:  # the sweep lets be what may once have been no command
        return
    name = f"/{said.word} by {said.who} on #{said.issue.number}"
    began = any(run.delivery == f"comment-{said.comment.id}" for run in runs)
    if said.who != "alice":
        if began:
            yield f"{name} began a run"
        if not _holds(said.issue, "capuchin:refus", world):
            yield f"{name} was not refused"
        return
    halted = any(i is said.issue and at >= said.at for i, at in history.halted)
    if said.word in BEGINS and not began and not halted:
        yield f"{name} was forgotten"
    if said.word in TELLS and not _holds(said.issue, f"reply to=comment-{said.comment.id} ", world):
        yield f"{name} was not answered"


def _holds(issue: Issue, marker: str, world: World) -> bool:
    return any(marker in c.body for c in issue.comments if c.author is world.hub.bot)
