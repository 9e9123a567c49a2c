"""The labels that ask for runs, and which of them a run answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bot.types import Mode, Run

SUFFIXES: Final[Mapping[Mode, str]] = {Mode.FIX: "", Mode.AUTO: ":auto", Mode.PLAN: ":dry-run"}


OPT_OUT: Final = ":disabled"
"""With this behind it the label keeps us away from an issue, or a pull request of ours."""


def label_to_remove(run: Run, label: str) -> str:
    """What is to come off the issue at the run's end; empty: nothing.

    That is the label that began it. A run that a comment began also answers a label that asks for
    the same; another one still waits for a run of its own. `label` is ours without a suffix.
    """
    if run.label or run.mode not in SUFFIXES:
        return run.label
    return label + SUFFIXES[run.mode]
