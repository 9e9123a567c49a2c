"""A label that was put on an issue: answered once, even if webhook and sweep both report it."""

from __future__ import annotations

from typing import Final, NamedTuple

from bot.triggers.requests import RunRequest

SWEEP_PREFIX: Final = "sweep-"
"""How the delivery of a run begins that was found without a webhook."""
NO_LABEL_EVENT: Final = ("",) * 5


class LabelEvent(NamedTuple):
    """A label on an issue, or "" for an assignment, as a webhook or the sweep reports it.

    Two webhooks are two of them, unless they have the same delivery. The sweep knows no delivery:
    what it finds is the same as what was reported up to that second, and the other way round.
    """

    label: str
    at: int
    """Since when; seconds since the epoch, by GitHub's clock."""
    from_sweep: bool

    @classmethod
    def from_request(cls, request: RunRequest) -> LabelEvent | None:
        """None where nobody knows since when."""
        if request.at is None:
            return None
        swept = request.delivery.startswith(SWEEP_PREFIX)
        return cls(request.label.casefold(), int(request.at.timestamp()), swept)

    @property
    def hash_field(self) -> str:
        return f"{'swept' if self.from_sweep else 'heard'} {self.label}"

    @property
    def until(self) -> int:
        """A webhook's word for the moment may be a second later than that of the sweep."""
        return self.at + self.from_sweep

    @property
    def covering_fields(self) -> tuple[str, str]:
        """What says that it is dealt with."""
        return ("heard " if self.from_sweep else "swept ") + self.label, f"swept {self.label}"

    @property
    def script_args(self) -> tuple[str, int, int, str, str]:
        return self.hash_field, self.at, self.until, *self.covering_fields
