"""What must be true once a sequence is over and the sweep has run, whatever came in which order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from bot.labels import SUFFIXES
from bot.localhub import Comment, Issue
from bot.localhub.state import Pull, Review, ReviewComment
from bot.types import Run, RunStatus, StopReason
from tests.e2e.sequences.world import World
from tests.hub import ref_of

MARKER: Final = re.compile(r"<!-- (capuchin:[^>]*) -->")
OF_RUN: Final = re.compile(r"<!-- capuchin:run=(\w+) ")
KINDS: Final = {suffix: mode for mode, suffix in SUFFIXES.items()}
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
    deleted: bool = False


class Told(NamedTuple):
    """A command in the conversation of a pull request of ours."""

    pull: Pull
    comment: Comment
    word: str
    who: str


class Reviewed(NamedTuple):
    pull: Pull
    review: Review
    who: str


@dataclass
class Labelled:
    """A label of ours that somebody put on."""

    issue: Issue
    guid: str
    label: str
    who: str
    at: datetime
    on_closed: bool = False
    """The issue was closed: nothing is done there, and nobody looks for it."""


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
    gone: list[Issue] = field(default_factory=list[Issue])
    """Deleted or transferred."""
    cut: set[str] = field(default_factory=set[str])
    """Repositories that the App was taken off, if only for a while."""
    told: list[Told] = field(default_factory=list[Told])
    reviewed: list[Reviewed] = field(default_factory=list[Reviewed])
    pushed: dict[int, str] = field(default_factory=dict[int, str])
    """What somebody pushed last to a pull request of ours, by its id."""


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
        found += _comments_twice(issue, world)
        found += _pulls_twice(issue, of)
        if issue in history.gone or issue.repo.full_name in history.cut:
            continue  # there is nobody to be told, or was not when it was time
        found += _comments(issue, of, world, history)
        found += _pulls(issue, of)
        found += _stopped_for_nothing(issue, of, world, history)
        found += _forgotten_label(issue, of)
        found += _unanswered_labels(issue, of, history)
    for said in history.said:
        if said.issue not in history.gone and said.issue.repo.full_name not in history.cut:
            found += _forgotten_command(said, runs, world, history)
    return found + [problem async for problem in pull_problems(world, history)]


def _is_of(run: Run, issue: Issue) -> bool:
    return (run.repo.full_name, run.issue) == (issue.repo.full_name, issue.number)


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


def _comments_twice(issue: Issue, world: World) -> Iterator[str]:
    ours = [c for c in issue.comments if c.author is world.hub.bot]
    for comment in ours:
        if not MARKER.findall(comment.body):
            yield f"a comment without its marker: {comment.body[:80]!r}"
    for marker, count in Counter(m for c in ours for m in MARKER.findall(c.body)).items():
        if count > 1:
            yield f"{count} comments {marker} on #{issue.number}"


def _comments(issue: Issue, runs: list[Run], world: World, history: History) -> Iterator[str]:
    ours = [c for c in issue.comments if c.author is world.hub.bot]
    known = {comment.id: comment.body for comment in ours} | dict.fromkeys(history.deleted, "")
    for run in runs:
        if run.comment_id is not None and run.comment_id not in known:
            yield f"the status comment of a run of #{issue.number} is missing"
        elif "I am looking into this" in known.get(run.comment_id or 0, ""):
            yield f"the status comment of a run of #{issue.number} was not brought to an end"


def _pulls_twice(issue: Issue, runs: list[Run]) -> Iterator[str]:
    for run in runs:
        if (count := len(_opened_by(run, issue))) > 1:
            yield f"{count} pull requests of a run of #{issue.number}"


def _pulls(issue: Issue, runs: list[Run]) -> Iterator[str]:
    for run in runs:
        count = len(_opened_by(run, issue))
        if count != int(run.status is RunStatus.OPENED_PULL_REQUEST):
            yield f"{count} pull requests of a run of #{issue.number} that is {run.status}"


def _opened_by(run: Run, issue: Issue) -> list[Pull]:
    return [p for p in issue.repo.pulls if f"capuchin:run={run.id} " in (p.body or "")]


def _stopped_for_nothing(
    issue: Issue, runs: list[Run], world: World, history: History
) -> Iterator[str]:
    """What ends a run has happened after somebody asked for it.

    A label that we took off at the end of another run was answered by that one: what its late
    webhook began ends without a word.
    """
    ends = [at for one, at in (*history.halted, *history.unlabelled) if one is issue]
    ours = [
        each.at
        for each in issue.timeline
        if each.event == "unlabeled" and each.actor is world.hub.bot
    ]
    for run in runs:
        stop, asked = run.stop, run.asked_at
        if stop is None or stop.why is StopReason.CLOSED or asked is None:
            continue
        silent = run.comment_id is None and stop.why is StopReason.UNLABELED
        if not any(at >= asked for at in (*ends, *(ours if silent else ()))):
            yield f"a run of #{issue.number} was stopped by what had been before"


def _forgotten_label(issue: Issue, runs: list[Run]) -> Iterator[str]:
    """A label that stays on an open issue has been answered by a run that failed."""
    ours = [label for label in issue.labels if label.startswith("capuchin")]
    if issue.state == "open" and ours and not any(r.status is RunStatus.FAILED for r in runs):
        yield f"#{issue.number} still wears {ours}"


def _unanswered_labels(issue: Issue, runs: list[Run], history: History) -> Iterator[str]:
    """Who puts a label on hears of a run of its kind, unless somebody ended that first."""
    ends = [at for one, at in (*history.halted, *history.unlabelled) if one is issue]
    for put in history.labelled:
        if put.issue is not issue or put.on_closed or any(at >= put.at for at in ends):
            continue
        mode = KINDS[put.label.removeprefix("capuchin")]
        told = [
            run
            for run in runs
            if run.mode is mode
            and run.finished_at is not None
            and run.finished_at >= put.at
            and (run.comment_id is not None or run.status is RunStatus.REFUSED)
        ]
        if not told:
            yield f"{put.label} by {put.who} on #{issue.number} at {put.at} was not answered"


def _forgotten_command(
    said: Said, runs: list[Run], world: World, history: History
) -> Iterator[str]:
    if said.edited or said.deleted:  # the sweep lets be what may have been no command
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


async def pull_problems(world: World, history: History) -> AsyncIterator[str]:
    """What is not as it must be with our pull requests."""
    for pull in world.pulls:
        name = f"our pull request #{pull.number}"
        for problem in _comments_twice(pull, world):
            yield problem
        answers = [c for r in pull.reviews if r.author is world.hub.bot for c in r.comments]
        for marker, count in Counter(m for c in answers for m in MARKER.findall(c.body)).items():
            if count > 1:
                yield f"{count} answers {marker} on {name}"
        checks = [c.external_id for c in pull.repo.check_runs if c.head_sha == pull.head_sha]
        if any(each and count > 1 for each, count in Counter(checks).items()):
            yield f"evidence twice on {name}"
        if pull.id in history.pushed and pull.head_sha != history.pushed[pull.id]:
            yield f"{name} was pushed to after a person had"
        if pull.repo.full_name in history.cut:
            continue
        record = await world.records.get(ref_of(pull.repo), pull.number)
        if pull.state == "closed":
            if record is not None:
                yield f"{name} is closed and still looked after"
            continue
        if record is None:
            yield f"{name} is looked after by nobody"
        issue = await _fixed_by(pull, world)
        if issue is None:
            yield f"{name} is of no issue: {pull.body!r:.300}"
            continue
        if issue.state == "closed" and issue not in history.gone:
            yield f"{name} is open, though its issue is closed"
        if pull.id in history.pushed and not _holds(pull, "capuchin:handed-over", world):
            yield f"{name} was taken over by a person without a word"
        if not checks:
            yield f"{name} has no evidence on its head"
        if pull.id not in history.pushed:
            for problem in _unanswered(pull, answers, world, history):
                yield problem


async def _fixed_by(pull: Pull, world: World) -> Issue | None:
    made = OF_RUN.search(pull.body or "")
    run = await world.runs.get(made[1]) if made else None
    return next((i for i in world.issues if run and _is_of(run, i)), None)


def _unanswered(
    pull: Pull, answers: list[ReviewComment], world: World, history: History
) -> Iterator[str]:
    said = "\n".join(
        [c.body for c in pull.comments if c.author is world.hub.bot] + [c.body for c in answers]
    )
    for each in history.reviewed:
        if each.pull is not pull:
            continue
        ids = [f"line-{comment.id}" for comment in each.review.comments]
        if each.review.state == "CHANGES_REQUESTED":
            ids.append(f"review-{each.review.id}")
        for one in ids:
            if (f"answer to={one} " in said) != (each.who == "alice"):
                yield f"{one} by {each.who} on #{pull.number}: answered or not, the wrong way"
    for told in history.told:
        if told.pull is pull and told.word == "fix" and told.who == "alice":
            if f"answer to=comment-{told.comment.id} " not in said:
                yield f"/fix by alice on our pull request #{pull.number} was forgotten"
