"""What must be true of our own pull requests once a sequence is over."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

from bot.data.run import RunId
from capuchin_demo.hub.state import Issue, Pull, ReviewComment
from tests.e2e.sequences.history import History
from tests.e2e.sequences.markers import MARKER, comments_twice, holds, is_of
from tests.e2e.sequences.simulation import World
from tests.support.hub import ref_of

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
