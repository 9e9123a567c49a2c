"""What can end a run early, beside the errors of models and sandbox."""

from __future__ import annotations


class BudgetSpent(Exception):
    """The run has spent its ceiling; no further model call may be made."""

    def __init__(self, spent: float, ceiling: float) -> None:
        super().__init__(f"${spent:.2f} of ${ceiling:.2f} are spent.")
        self.spent = spent
        """US dollars at list prices."""
        self.ceiling = ceiling
        """US dollars."""
