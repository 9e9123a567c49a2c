"""What a pull request of ours has held: by this we know our own commits from everybody else's."""

from __future__ import annotations

from bot.types import Frozen, Run
from pipeline.types import Selection


class Content(Frozen):
    """One state of the branch."""

    head: str
    """Full SHA of the last commit."""
    candidate: int
    """Which edit: 1 for the one that was chosen, 2 for the next best."""
    run: str
    """The id of the run that pushed it."""


class Contents(Frozen):
    """Oldest first. A state is noted before it is pushed, so the last may never have been."""

    states: tuple[Content, ...]

    @classmethod
    def of(cls, run: Run) -> Contents:
        """As `run` opened the pull request."""
        return cls(states=(Content(head=run.head_commit, candidate=1, run=run.id),))

    def at(self, head: str) -> Content | None:
        """The state that ends with this commit; None for a commit of somebody else."""
        return next((state for state in reversed(self.states) if state.head == head), None)

    def plus(self, state: Content) -> Contents:
        return Contents(states=(*self.states, state))


def order_of(selection: Selection) -> tuple[int, ...]:
    """The edits by which `use` counts them: the chosen one, then the runners-up, best first."""
    votes, order = selection.evidence.votes, selection.evidence.order
    return order or (votes.candidates.index(selection.candidate),)
