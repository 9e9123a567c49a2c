"""Why a run was stopped, for comments on the issue and on our pull request."""

from __future__ import annotations

from bot.markdown import code
from bot.types import Stop, StopReason


def stop_reason(stop: Stop) -> str:
    """Completes "I stopped …"; names the person who did it."""
    because = {
        StopReason.COMMAND: "as requested",
        StopReason.UNLABELED: "because the label was removed",
        StopReason.CLOSED: "because the issue was closed",
        StopReason.GONE: "because the issue no longer exists",
        StopReason.DISABLED: f"because the label {code(stop.label)} was added",
    }
    return because[stop.why] + (f" (@{stop.by})" if stop.by else "")
