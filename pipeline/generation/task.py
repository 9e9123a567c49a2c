"""What a sample's machine is asked to edit, and what it starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pipeline.generation.diversity import Direction, to_template_values
from pipeline.shown import Habits
from pipeline.types import Context, Issue, SuiteReport, TestScript
from sandbox.base import Execution

_INDEPENDENT = Direction()
_NO_HABITS = Habits()


class OwnTests(Protocol):
    """Runs some of the repository's own tests without and with a diff."""

    async def compare(self, diff: str) -> SuiteReport | None: ...


@dataclass(frozen=True)
class EditTask:
    """One sample's task: the same for a machine with a fixed context and for one that explores."""

    issue: Issue
    context: Context
    sample: int
    seed: tuple[TestScript, Execution] | None = None
    """The sample's test with its run on the unedited code; only an exploring machine does without.
    """
    own_tests: OwnTests | None = None
    direction: Direction = _INDEPENDENT
    habits: Habits = _NO_HABITS

    @property
    def approach(self) -> str:
        """The approach that counts as this sample's; empty where others' edits were shown."""
        return "" if self.direction.others else self.direction.approach

    @property
    def informed_by(self) -> tuple[int, ...]:
        """The samples whose edits were shown."""
        return tuple(other.sample for other in self.direction.others)

    def to_template_values(self) -> dict[str, Any]:
        """What the question says beside the test."""
        direction = self.direction
        return {
            "approach": direction.approach,
            "located": direction.located,
            "others": to_template_values(direction.others),
            "agree": direction.agree,
        }
