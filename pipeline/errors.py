"""What can end a run early, beside the errors of models and sandbox."""

from __future__ import annotations

from typing import Literal

Ceiling = Literal["run", "repository", "installation"]
"""Of one run; of all runs of a repository in one day; of all runs of all repositories in one."""


class BudgetSpent(Exception):
    """A ceiling is reached; no further model call may be made."""

    def __init__(self, spent: float, ceiling: float, of: Ceiling = "run") -> None:
        super().__init__(f"${spent:.2f} of ${ceiling:.2f} are spent.")
        self.spent = spent
        """US dollars at list prices."""
        self.ceiling = ceiling
        """US dollars."""
        self.of: Ceiling = of
        """Whose ceiling it is."""
