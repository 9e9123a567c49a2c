"""What makes one sample try something else than the others: an approach, or their edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from pipeline.errors import BudgetSpent
from pipeline.models.base import ContextTooLong, Message, Model, ModelRefused, ModelRequest
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.store import Store
from pipeline.types import Frozen, Issue
from prompts import render, shorten
from sandbox.base import Execution

APPROACHES_KEY = "approaches"
_LONGEST = 400
"""Characters of one approach."""
_MOST_OTHERS = 6
"""Edits of finished samples that an informed one is shown."""
_DIFF = 3000
"""Characters of each of them."""
_BULLETS = "0123456789.-*•) \t"


class Approaches(Frozen):
    """Ways to solve the issue, one for each sample from the first on; perhaps fewer, or none."""

    lines: tuple[str, ...] = ()


class TriedEdit(Frozen):
    """What a finished sample came to."""

    sample: int
    diff: str
    how: str
    """How its edit fared, as a sentence."""


class Direction(Frozen):
    """Where one editing machine is sent, after the opening that all of them share."""

    approach: str = ""
    others: tuple[TriedEdit, ...] = Field(default=())
    """Empty for an independent sample."""

    def find_repetition(self, diff: str) -> str:
        """That `diff` is one of the others' edits, as a sentence; else nothing."""
        if all(other.diff != diff for other in self.others):
            return ""
        return "This is one of the edits you were shown. Send one that differs in what it does."


async def draw_approaches(model: Model, issue: Issue, count: int, store: Store) -> Approaches:
    """Up to `count` different approaches from the issue alone, in one call that is saved.

    None at all when the answer is malformed, refused or too dear: samples then differ by chance.
    """
    saved = await store.load(APPROACHES_KEY, Approaches)
    if saved:
        return saved
    question = Message(role="user", text=render("approaches/write", issue=issue, count=count))
    try:
        reply = await model.complete(
            ModelRequest(render("approaches/system"), (question,), call="approaches")
        )
    except BudgetSpent:
        return Approaches()
    except (ModelRefused, ContextTooLong):
        drawn = Approaches()
    else:
        drawn = Approaches(lines=_parse_lines(reply.text)[:count])
    await store.save(APPROACHES_KEY, drawn)
    return drawn


def _parse_lines(reply: str) -> tuple[str, ...]:
    match only_tag(reply, "approaches"):
        case Malformed():
            return ()
        case Tag(_, body):
            bare = (line.strip().lstrip(_BULLETS) for line in body.splitlines())
            return tuple(dict.fromkeys(line[:_LONGEST] for line in bare if line))


def is_informed(sample: int, share: float) -> bool:
    """Whether a sample sees what others tried: `share` of the samples, evenly, never the first."""
    # Rounded down, so that a share of 0.3 makes one of four and three of ten.
    return int(share * (sample + 1) + 1e-9) > int(share * sample + 1e-9) and sample > 0


class FinishedSample(NamedTuple):
    sample: int
    diff: str
    run: Execution | None
    """Its script with its edit, as both ended."""
    broken: int
    """Tests of the repository that the edit was seen to break."""


def to_tried_edits(finished: Sequence[FinishedSample]) -> tuple[TriedEdit, ...]:
    """What informed samples are shown of finished ones; of equal edits the first."""
    distinct: dict[str, TriedEdit] = {}
    for sample, diff, run, broken in finished:
        how = _describe_run(run)
        if broken:
            how += f" Tests of the repository that it breaks: {broken}."
        distinct.setdefault(diff, TriedEdit(sample=sample, diff=diff, how=how))
    return tuple(distinct.values())[:_MOST_OTHERS]


def to_template_values(others: Sequence[TriedEdit]) -> list[dict[str, str]]:
    """For the template."""
    return [{"diff": shorten(other.diff, _DIFF), "how": other.how} for other in others]


def _describe_run(run: Execution | None) -> str:
    if run is None:
        return "It was not run."
    if run.exit_code is None:
        return "With it, its script did not end by itself."
    meaning = {0: "the issue is fixed", 2: "the issue is not fixed"}
    outcome = meaning.get(run.exit_code, "the script is broken")
    return f"With it, its script exits with code {run.exit_code}: {outcome}."
