"""What goes wrong on request: failing calls, slow calls, rate limits. All of it is state."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.localhub.errors import Refusal


@dataclass(frozen=True)
class Fault:
    """How one call fails. `after_effect`: the work is done, only the answer is lost."""

    method: str
    path: str
    status: int | None
    after_effect: bool = False
    message: str = "Server Error"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0

    def matches(self, method: str, path: str) -> bool:
        return method == self.method and fnmatch.fnmatchcase(path, self.path)

    def refusal(self) -> Refusal | None:
        """The answer to give instead; None for a call that is only slow."""
        if self.status is None:
            return None
        return Refusal(self.status, self.message, headers=self.headers)


class Faults:
    """Faults that wait for their call. Each strikes once, in the order given.

    While `down`, every call is answered 503.
    """

    def __init__(self) -> None:
        self.down = False
        self._waiting: list[Fault] = []

    def fail_next(
        self,
        method: str,
        path: str,
        *,
        status: int | None = 502,
        after_effect: bool = False,
        times: int = 1,
        message: str = "Server Error",
        headers: dict[str, str] | None = None,
        delay_s: float = 0.0,
    ) -> None:
        """The next `times` calls of `method` on `path` (no `/api/v3`; `*` matches) fail.

        `status=None` with `delay_s` makes them slow only. Works for git's paths too
        (`/acme/shop.git/git-receive-pack`).
        """
        fault = Fault(method, path, status, after_effect, message, headers or {}, delay_s)
        self._waiting.extend([fault] * times)

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that strikes this call, which is then spent."""
        if self.down:
            return Fault(method, path, 503, message="Service unavailable")
        fault = next((fault for fault in self._waiting if fault.matches(method, path)), None)
        if fault is not None:
            self._waiting.remove(fault)
        return fault

    @property
    def pending(self) -> list[Fault]:
        """Faults that no call has met yet."""
        return list(self._waiting)


class RateLimit:
    """GitHub's two limits: the hourly budget, and the secondary one that asks for a pause."""

    limit = 5000

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        """Seconds since the epoch."""
        self.remaining = self.limit
        self.reset_at = self.clock() + 3600
        self._secondary: str | None = None

    def allow(self, requests: int, reset_in: float, *, secondary: bool = False) -> None:
        """After `requests` more calls, refuse until `reset_in` seconds from now."""
        self.remaining = requests
        self.reset_at = self.clock() + reset_in
        self._secondary = str(max(1, round(reset_in))) if secondary else None

    def spend(self) -> None:
        """Counts a call. Raises Refusal (403; 429 for the secondary limit) when none is left."""
        if self.clock() >= self.reset_at:
            self.remaining, self.reset_at, self._secondary = self.limit, self.clock() + 3600, None
        if self.remaining > 0:
            self.remaining -= 1
            return
        if self._secondary is not None:
            raise Refusal(
                429,
                "You have exceeded a secondary rate limit. Please wait a few minutes before you "
                "try again.",
                headers={"retry-after": self._secondary},
            )
        raise Refusal(403, "API rate limit exceeded for installation.")

    def refund(self) -> None:
        """A call that turned out to cost nothing."""
        self.remaining = min(self.remaining + 1, self.limit)

    def summary(self) -> dict[str, int]:
        """As `GET /rate_limit` shows it."""
        return {
            "limit": self.limit,
            "remaining": self.remaining,
            "reset": int(self.reset_at) + 1,
            "used": self.limit - self.remaining,
        }

    def headers(self) -> dict[str, str]:
        """On every answer of the REST API."""
        facts = {f"x-ratelimit-{key}": str(value) for key, value in self.summary().items()}
        return {**facts, "x-ratelimit-resource": "core"}
