"""What can end a run early, besides errors of models and of the sandbox."""

from typing import Literal

Ceiling = Literal["run", "repository", "installation", "time"]
"""The scope of a ceiling: one run, one repository in a day, all repositories in a day; or the time
of one run."""


class BudgetSpent(Exception):
    """A ceiling is reached; no further model call may be made."""

    def __init__(self, spent: float, ceiling: float, of: Ceiling = "run") -> None:
        super().__init__(f"${spent:.2f} of ${ceiling:.2f} is spent.")
        self.of: Ceiling = of


class TimeSpent(BudgetSpent):
    """The time of a stage is over; no further model call may be made in it."""

    def __init__(self, minutes: float, stage: str) -> None:
        super().__init__(0.0, 0.0, "time")
        self.minutes = minutes
        self.stage = stage

    def __str__(self) -> str:
        return f"The time for this step, a part of the run's {self.minutes:g} minutes, is over."


class UnreadableRecord(Exception):
    """A saved document cannot be read; `str(error)` is a sentence without anything from it."""


class OtherFormat(UnreadableRecord):
    """Another version of Capuchin saved the document."""

    def __init__(self, name: str, found: int, readable: int) -> None:
        super().__init__(
            f"{name} was saved in format {found}, and this version of Capuchin reads only format "
            f"{readable}: finish it with the version that saved it, or start again."
        )
