"""A label that was put on an issue: answered once, whatever brings the news of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from bot.triggers.requests import Start

SWEEP: Final = "sweep-"
"""How the delivery of a run begins that was found without a webhook."""
NOT_PUT_ON: Final = ("",) * 5


class PutOn(NamedTuple):
    """A label on an issue, or "" for an assignment, as a webhook or the sweep tells of it.

    Two webhooks are two of them, unless they have the same delivery. The sweep knows no delivery:
    what it finds is the same as what was told of up to that second, and the other way round.
    """

    label: str
    at: int
    """Since when; seconds since the epoch, by GitHub's clock."""
    swept: bool

    @classmethod
    def of(cls, wish: Start) -> PutOn | None:
        """None where nobody knows since when."""
        if wish.at is None:
            return None
        swept = wish.delivery.startswith(SWEEP)
        return cls(wish.label.casefold(), int(wish.at.timestamp()), swept)

    @property
    def kept_as(self) -> str:
        return f"{'swept' if self.swept else 'heard'} {self.label}"

    @property
    def until(self) -> int:
        """A webhook's word for the moment may be a second later than that of the sweep."""
        return self.at + self.swept

    @property
    def answered_as(self) -> tuple[str, str]:
        """What says that it is dealt with."""
        return ("heard " if self.swept else "swept ") + self.label, f"swept {self.label}"

    @property
    def args(self) -> tuple[str, int, int, str, str]:
        return self.kept_as, self.at, self.until, *self.answered_as
