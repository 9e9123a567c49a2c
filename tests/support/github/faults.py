"""Failures and limits on request."""

import asyncio
import fnmatch
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from capuchin_demo.hub.github_errors import QueryFailed, Refusal


@dataclass(frozen=True)
class Fault:
    """How one call fails. With `after_effect` the call takes effect, but its response is lost."""

    method: str
    path: str
    status: int | None
    after_effect: bool = False
    message: str = "Server Error"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0

    def matches(self, method: str, path: str) -> bool:
        return method == self.method and fnmatch.fnmatchcase(path, self.path)


class Faults:
    """Pending faults. Each applies to one call, in the order of their creation.

    While `down` is set, every call gets 503.
    """

    def __init__(self) -> None:
        self.down = False
        self._waiting: list[Fault] = []
        self._queries: list[QueryFailed] = []

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
        """Let the next `times` calls of `method` on `path` fail (no `/api/v3`; `*` matches).

        `status=None` with `delay_s` only slows them down. It works for git's paths too
        (`/acme/shop.git/git-receive-pack`).
        """
        fault = Fault(method, path, status, after_effect, message, headers or {}, delay_s)
        self._waiting.extend([fault] * times)

    def fail_next_queries(
        self, kind: str, message: str, *, times: int = 1, headers: Mapping[str, str] | None = None
    ) -> None:
        """Let the next `times` GraphQL queries get an error with status 200."""
        self._queries.extend([QueryFailed(kind, message, headers)] * times)

    def fail_query(self) -> None:
        """Raise the next error of a GraphQL query, if one waits."""
        if self._queries:
            raise self._queries.pop(0)

    @asynccontextmanager
    async def apply(self, method: str, path: str) -> AsyncGenerator[None]:
        """Let the call in the block fail, before or after it takes effect, if a fault waits for it.

        Raises:
            Refusal: the fault's response.
        """
        fault = self._take(method, path)
        if fault is None:
            yield
            return
        await asyncio.sleep(fault.delay_s)
        if fault.after_effect or fault.status is None:
            yield
        if fault.status is not None:
            raise Refusal(fault.status, fault.message, headers=fault.headers)

    def _take(self, method: str, path: str) -> Fault | None:
        if self.down:
            return Fault(method, path, 503, message="Service unavailable")
        fault = next((fault for fault in self._waiting if fault.matches(method, path)), None)
        if fault is not None:
            self._waiting.remove(fault)
        return fault

    def clear(self) -> None:
        """Let no further call fail."""
        self._waiting.clear()

    @property
    def pending(self) -> list[Fault]:
        """Faults that have not applied to a call yet."""
        return list(self._waiting)

    @property
    def pending_queries(self) -> int:
        """Errors that no GraphQL query has got yet."""
        return len(self._queries)


class RateLimit:
    """GitHub's rate limits: the hourly budget, and the secondary limit with `Retry-After`."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        *,
        limit: int = 5000,
        window: float = 3600,
        resource: str = "core",
    ) -> None:
        self.limit, self.window, self.resource = limit, window, resource
        self.clock = clock
        """Seconds since the epoch."""
        self.remaining = self.limit
        self.reset_at = self.clock() + window
        self._secondary: str | None = None

    def allow(self, requests: int, reset_in: float, *, secondary: bool = False) -> None:
        """Allow `requests` more calls, then refuse until `reset_in` seconds from now."""
        self.remaining = requests
        self.reset_at = self.clock() + reset_in
        self._secondary = str(max(1, round(reset_in))) if secondary else None

    def spend(self) -> None:
        """Count a call.

        Raises:
            Refusal: no call is left (403, or 429 for the secondary limit).
        """
        if self.clock() >= self.reset_at:
            self.remaining, self._secondary = self.limit, None
            self.reset_at = self.clock() + self.window
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
        """Undo the count of a call that turned out to be free."""
        self.remaining = min(self.remaining + 1, self.limit)

    def summary(self) -> dict[str, int]:
        """The JSON of `GET /rate_limit`."""
        return {
            "limit": self.limit,
            "remaining": self.remaining,
            "reset": int(self.reset_at) + 1,
            "used": self.limit - self.remaining,
        }

    def headers(self) -> dict[str, str]:
        """The headers of every REST response."""
        facts = {f"x-ratelimit-{key}": str(value) for key, value in self.summary().items()}
        return {**facts, "x-ratelimit-resource": self.resource}


@dataclass
class ContentLimit:
    """GitHub's secondary limit: at most `most` writes, then 403 with `retry-after` for a while.

    https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
    """

    most: int
    seconds: int
    written: int = 0
    refused: int = 0
    """Writes that came in spite of the limit."""
