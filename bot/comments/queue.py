"""What people read of a run that waits for its turn."""

from __future__ import annotations

from bot.comments.status import render_status
from bot.types import QueuePosition, Run
from pipeline.codebase.text import pluralize


def render_queued(run: Run, wait: QueuePosition) -> str:
    """The status comment of a run that waits for a free worker."""
    expected = f" {start_words(wait)}" if wait.expected_seconds is not None else ""
    return render_status(
        run,
        f"I will look into this, as @{run.asked_by} asked. "
        f"The run is {turn_words(wait)}.{expected}",
    )


def render_no_worker(run: Run) -> str:
    """The status comment of a run while no worker lives."""
    return render_status(
        run,
        f"I will look into this, as @{run.asked_by} asked, but none of my workers is running at the"
        " moment. I start by myself as soon as one is back. My operator finds the reason in the"
        " log.",
    )


def turn_words(wait: QueuePosition) -> str:
    """The place in the queue, as the end of a sentence."""
    ahead = wait.position - 1
    return f"queued behind {pluralize(ahead, 'other run')}" if ahead else "next in the queue"


def start_words(wait: QueuePosition) -> str:
    """A sentence on when the run is expected to start; empty where nothing is known."""
    if wait.expected_seconds is None:
        return ""
    return f"I expect to start {describe_wait(*wait.expected_seconds)}."


def describe_wait(shortest: float, longest: float) -> str:
    """Two times from now in seconds, as roughly as they are known."""
    if longest < 120:
        return "within two minutes"
    unit, seconds = ("minutes", 60) if longest < 90 * 60 else ("hours", 3600)
    low, high = round(shortest / seconds), max(1, round(longest / seconds))
    if low == 0:
        return f"within {high} {unit}"
    return f"in about {high} {unit}" if low == high else f"in {low}–{high} {unit}"
