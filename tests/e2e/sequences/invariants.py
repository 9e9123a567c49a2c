"""What must hold after any sequence."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

from bot.data.run import Run, RunId, RunStatus, StopReason
from bot.webhooks.labels import SUFFIXES
from capuchin_demo.hub.state import Issue, Pull, ReviewComment
from tests.e2e.sequences.people import History, Said
from tests.e2e.sequences.simulation import World
from tests.support.hub import ref_of

KINDS: Final = {suffix: mode for mode, suffix in SUFFIXES.items()}
BEGINS: Final = frozenset({"fix", "plan", "retry"})
TELLS: Final = frozenset({"status", "help", "fxi"})


async def problems(world: World, history: History) -> list[str]:
    """Everything that is not as it must be, as sentences."""
    runs = await world.ended()
    found = [*world.faults, *world.workers.faults, *world.bugs.found]
    if await world.runs.list_active() or await world.inbox.count_requests():
        found.append("something is still under way")
    found += world.hub.unexpected
    found += _duplicate_runs(runs, history)
    for issue in world.issues:
        of = [r for r in runs if is_of(r, issue)]
        found += comments_twice(issue, world)
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
        swept = f"sweep-{run.repo.id}-{run.issue}-{each.at.timestamp():.0f}"
        waited = f"{run.repo.id}-{run.issue}-{each.label}-{each.at.timestamp():.0f}"
        if is_of(run, each.issue) and delivery in (each.guid, swept, waited):
            return f"label {each.label} on #{run.issue} at {each.at}"
    for said in history.said:
        if re.fullmatch(rf"comment-{said.comment.id}(-\d+)?", delivery):  # or an edit of it
            return f"/{said.word} on #{run.issue} at {said.at}: {delivery}"
    return None


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
        yield f"#{issue.number} still has the label {ours}"


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
        heard = f"capuchin:refused login={said.who} "
        repo = said.issue.repo
        once = [*repo.issues.values(), *(i for i in world.gone if i.repo is repo)]
        if not any(holds(each, heard, world) for each in once):
            yield f"{name} was not refused"
        return
    halted = any(i is said.issue and at >= said.at for i, at in history.halted)
    if said.word in BEGINS and not began and not halted:
        yield f"{name} was forgotten"
    if said.word in TELLS and not holds(said.issue, f"reply to=comment-{said.comment.id} ", world):
        yield f"{name} was not answered"


OF_RUN: Final = re.compile(r"<!-- capuchin:run=(\w+) ")


async def pull_problems(world: World, history: History) -> AsyncIterator[str]:
    """What is not as it must be."""
    for pull in world.pulls:
        for problem in _twice(pull, world, history):
            yield problem
        if pull.repo.full_name not in history.cut:
            for problem in await _forgotten(pull, world, history):
                yield problem


def _name(pull: Pull) -> str:
    return f"our pull request #{pull.number}"


def _answers(pull: Pull, world: World) -> list[ReviewComment]:
    return [c for r in pull.reviews if r.author is world.hub.bot for c in r.comments]


def _twice(pull: Pull, world: World, history: History) -> Iterator[str]:
    yield from comments_twice(pull, world)
    answers = [m for c in _answers(pull, world) for m in MARKER.findall(c.body)]
    for marker, count in Counter(answers).items():
        if count > 1:
            yield f"{count} answers {marker} on {_name(pull)}"
    if any(each and count > 1 for each, count in Counter(_checks(pull)).items()):
        yield f"evidence twice on {_name(pull)}"
    if pull.id in history.pushed and pull.head_sha != history.pushed[pull.id]:
        yield f"{_name(pull)} was pushed to after a person had"


def _checks(pull: Pull) -> list[str]:
    return [check.external_id for check in pull.repo.check_runs if check.head_sha == pull.head_sha]


async def _forgotten(pull: Pull, world: World, history: History) -> list[str]:
    record = await world.records.get(ref_of(pull.repo), pull.number)
    if pull.state == "closed":
        return [] if record is None else [f"{_name(pull)} is closed and still looked after"]
    found: list[str] = []
    if record is None:
        found.append(f"{_name(pull)} is looked after by nobody")
    issue = await _fixed_by(pull, world)
    if issue is None:
        found.append(f"{_name(pull)} is of no issue: {pull.body!r:.300}")
    elif issue.state == "closed" and issue not in history.gone:
        found.append(f"{_name(pull)} is open, though its issue is closed")
    if not any(each for each in _checks(pull)):
        found.append(f"{_name(pull)} has no evidence on its head")
    if pull.id not in history.pushed:
        return [*found, *_unanswered(pull, world, history)]
    if not holds(pull, "capuchin:handed-over", world):
        found.append(f"{_name(pull)} was taken over by a person without a word")
    return found


async def _fixed_by(pull: Pull, world: World) -> Issue | None:
    made = OF_RUN.search(pull.body or "")
    run = await world.runs.get(RunId(made[1])) if made else None
    return next((issue for issue in world.issues if run and is_of(run, issue)), None)


def _unanswered(pull: Pull, world: World, history: History) -> Iterator[str]:
    ours = [comment for comment in pull.comments if comment.author is world.hub.bot]
    said = "\n".join([c.body for c in ours] + [c.body for c in _answers(pull, world)])
    wanted: dict[str, str] = {}
    for _, review, who in [each for each in history.reviewed if each.pull is pull]:
        wanted |= {f"line-{comment.id}": who for comment in review.comments}
        if review.state == "CHANGES_REQUESTED":
            wanted[f"review-{review.id}"] = who
    for one, who in wanted.items():
        if (f"answer to={one} " in said) != (who == "alice"):
            yield f"{one} by {who} on {_name(pull)}: answered or not, the wrong way"
    for told in history.told:
        mine = told.pull is pull and told.word == "fix" and told.who == "alice"
        if mine and f"answer to=comment-{told.comment.id} " not in said:
            yield f"/fix by alice on {_name(pull)} was forgotten"


MARKER: Final = re.compile(r"<!-- (capuchin:[^>]*) -->")


def is_of(run: Run, issue: Issue) -> bool:
    return (run.repo.full_name, run.issue) == (issue.repo.full_name, issue.number)


def comments_twice(issue: Issue, world: World) -> Iterator[str]:
    """Each comment of ours has its marker, and no marker stands twice."""
    ours = [c for c in issue.comments if c.author is world.hub.bot]
    for comment in ours:
        if not MARKER.findall(comment.body):
            yield f"a comment without its marker: {comment.body[:80]!r}"
    for marker, count in Counter(m for c in ours for m in MARKER.findall(c.body)).items():
        if count > 1:
            yield f"{count} comments {marker} on #{issue.number}"


def holds(issue: Issue, marker: str, world: World) -> bool:
    """Whether we said something that holds `marker`."""
    return any(marker in c.body for c in issue.comments if c.author is world.hub.bot)
