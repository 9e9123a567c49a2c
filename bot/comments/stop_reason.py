"""Why a run was stopped, in words, on the issue and on our pull request."""

from __future__ import annotations

from bot.markdown import code
from bot.types import Stop, StopReason


def stop_reason(stop: Stop) -> str:
    """As in "I stopped, …", with whoever did it."""
    because = {
        StopReason.COMMAND: "as asked",
        StopReason.UNLABELED: "since the label was taken off",
        StopReason.CLOSED: "since the issue was closed",
        StopReason.GONE: "since the issue is gone",
        StopReason.DISABLED: f"since the label {code(stop.label)} was put on",
    }
    return because[stop.why] + (f" (@{stop.by})" if stop.by else "")
