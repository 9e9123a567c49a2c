"""Edits of known worth, and what tests said of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from pipeline.evaluation.dataset import BadData, Dataset
from pipeline.selection.normalise.canonical import normalise
from pipeline.types import Frozen

MOST_OF_KIND: Final = 4
"""Right edits, and wrong ones, that run for one instance."""


@dataclass(frozen=True)
class DrawnEdit:
    """One edit for an instance, and its label."""

    member: str
    diff: str
    right: bool


class ExecutedEdit(Frozen):
    """What tests said of one edit."""

    instance_id: str
    repo: str
    member: str
    """One whose edit it is; others may have sent an equal one."""
    right: bool
    """By the labels, whatever ran here."""
    fixed: tuple[bool, ...]
    """Whether each test that the reference edit fixes passes with it; empty: nothing was told."""
    broken: int | None
    """How many of the near tests, as they were before the reference edit, it breaks; None: they
    told nothing."""

    @property
    def halves(self) -> tuple[bool, ...]:
        """Whether all tests of each half pass: stand-ins for two scripts, or one."""
        return tuple(all(half) for half in (self.fixed[::2], self.fixed[1::2]) if half)


def draw_edits(data: Dataset, instance_id: str, most: int = MOST_OF_KIND) -> list[DrawnEdit]:
    """At most `most` right and `most` wrong edits, no two equal after normalisation; right and
    wrong ones by turns. The same each time."""
    found: dict[str, DrawnEdit] = {}
    for member in data.members:
        diff = data.patches[member].get(instance_id, "")
        form = normalise(diff)
        if not form.empty:
            edit = DrawnEdit(member, diff, data.is_right(member, instance_id))
            found.setdefault(form.key, edit)
    edits = list(found.values())
    random.Random(instance_id).shuffle(edits)  # noqa: S311
    right, wrong = ([e for e in edits if e.right is kind][:most] for kind in (True, False))
    return [edit for pair in zip_longest(right, wrong) for edit in pair if edit]


def read_executions(paths: Sequence[Path]) -> list[ExecutedEdit]:
    """The rows of files that `capuchin evaluate --grade DIR` wrote. Raises BadData."""
    rows: list[ExecutedEdit] = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise BadData(f"{path} cannot be read: {error.strerror}.") from None
        for number, line in enumerate(lines, 1):
            try:
                rows.append(ExecutedEdit.model_validate_json(line))
            except ValidationError as error:
                raise BadData(f"{path}, line {number}: {error.errors()[0]['msg']}.") from None
    if not rows:
        raise BadData("There are no executions.")
    return rows
