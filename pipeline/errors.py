"""What can end a run of the pipeline besides an answer.

    BudgetSpent   the operator's ceiling in dollars; `solve` turns it into a NoFix
    GitFailed     git said no; its words are in the error

A model's and the sandbox's errors are theirs: `pipeline.models.base`, `sandbox.base`.
"""

from __future__ import annotations


class BudgetSpent(Exception):
    """The next model call could pass the ceiling. Raised before the call; nothing was asked."""

    def __init__(self, spent: float, ceiling: float) -> None:
        super().__init__(f"spent ${spent:.2f} of ${ceiling:.2f}")
        self.spent = spent
        """US dollars so far."""
        self.ceiling = ceiling
        """US dollars."""


class GitFailed(Exception):
    """git ended with a status that was not expected; `words` is what it printed as error."""

    def __init__(self, command: str, status: int, words: str) -> None:
        super().__init__(f"git {command} ended with status {status}: {words}")
        self.command = command
        self.status = status
        self.words = words
