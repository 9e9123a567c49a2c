"""What a pull request of ours has held: by this we know our own commits from everybody else's."""

from __future__ import annotations

from bot.types import Frozen, Run
from pipeline.types import Selection


class BranchState(Frozen):
    """One state of the branch."""

    head: str
    """Full SHA of the last commit."""
    candidate: int
    """Which edit: 1 for the one that was chosen, 2 for the next best."""
    run: str
    """The id of the run that pushed it."""


class BranchHistory(Frozen):
    """Oldest first. A state is noted before it is pushed, so the last may never have been."""

    states: tuple[BranchState, ...]

    @classmethod
    def from_run(cls, run: Run) -> BranchHistory:
        """As `run` opened the pull request."""
        return cls(states=(BranchState(head=run.head_commit, candidate=1, run=run.id),))

    def state_at(self, head: str) -> BranchState | None:
        """The state that ends with this commit; None for a commit of somebody else."""
        return next((state for state in reversed(self.states) if state.head == head), None)

    def with_state(self, state: BranchState) -> BranchHistory:
        return BranchHistory(states=(*self.states, state))


def rank_candidates(selection: Selection) -> tuple[int, ...]:
    """The edits by which `use` counts them: the chosen one, then the runners-up, best first."""
    votes, order = selection.evidence.votes, selection.evidence.order
    return order or (votes.candidates.index(selection.candidate),)
