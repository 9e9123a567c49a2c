"""The labels that request runs, the label that excludes an issue, and what a run removes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bot.data.run import Mode, Run

SUFFIXES: Final[Mapping[Mode, str]] = {Mode.FIX: "", Mode.AUTO: ":auto", Mode.PLAN: ":dry-run"}
OPT_OUT_SUFFIX: Final = ":disabled"


@dataclass(frozen=True)
class LabelSet:
    """The bot's labels, derived from the one that the operator configures.

    GitHub ignores case in labels, and so do all comparisons here.
    """

    base: str

    @property
    def modes(self) -> dict[str, Mode]:
        """Each label that requests a run, as the operator spells it, with the run's mode."""
        return {self.base + suffix: mode for mode, suffix in SUFFIXES.items()}

    @property
    def opt_out(self) -> str:
        """The label that keeps the bot away from an issue or from one of its pull requests."""
        return self.base + OPT_OUT_SUFFIX

    def mode_of(self, label: str) -> Mode | None:
        """The mode that `label` requests; None if it requests no run."""
        known = {ours.casefold(): mode for ours, mode in self.modes.items()}
        return known.get(label.casefold())

    def is_opt_out(self, label: str) -> bool:
        return label.casefold() == self.opt_out.casefold()

    def find_opt_out(self, labels: Iterable[str]) -> str | None:
        """The opt-out label as it is spelled among `labels`; None if it is not there."""
        return next(filter(self.is_opt_out, labels), None)

    def label_to_remove(self, run: Run) -> str:
        """The label to remove from the issue when `run` ends; empty for none.

        That is the label that requested the run. A run that a comment requested also answers the
        label that requests the same; any other label still waits for a run of its own.
        """
        if run.label or run.mode not in SUFFIXES:
            return run.label
        return self.base + SUFFIXES[run.mode]


def has_label(labels: Iterable[str], label: str) -> bool:
    """Whether `label` is among `labels`."""
    return label.casefold() in map(str.casefold, labels)
