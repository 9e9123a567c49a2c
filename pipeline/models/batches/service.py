"""What a batch API must offer, and how requests are named in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from pipeline.models.base import ModelError, ModelProfile, ModelRequest, Reply

_CALL_LENGTH, _DIGEST_LENGTH = 30, 24
"""Characters of a request's name; services allow 64, including the batch's mark."""
MARK_LENGTH = 8
"""Characters of a batch's own mark."""


class SubmittedBatch(NamedTuple):
    """A batch that the service knows."""

    id: str
    at: datetime
    """When the service accepted it, by the service's clock."""
    requests: int


@runtime_checkable
class BatchService(Protocol):
    """A client of a provider's batch API."""

    @property
    def profile(self) -> ModelProfile: ...

    async def submit(self, requests: Mapping[str, ModelRequest]) -> str:
        """Send all requests in one batch, once, and return its id.

        Names have 1 to 64 letters, digits, `_` and `-`.

        Raises:
            ModelUnavailable: the batch was rejected, or we cannot know.
            ModelError: the batch was rejected.
        """
        ...

    async def list_batches(self, since: datetime, until: datetime) -> Sequence[SubmittedBatch]:
        """The batches accepted between these times, newest first, of all users of the same key.

        Raises:
            ModelError: the service cannot be reached.
        """
        ...

    async def fetch_results(self, batch: str) -> dict[str, Reply | ModelError] | None:
        """The outcome of each request, by name; None while the batch is under way.

        Raises:
            ModelError: the service cannot be reached, or does not know the batch (any more).
        """
        ...


def request_name(request: ModelRequest) -> str:
    """A name that is the same for equal requests, also after a crash; begins with the call's."""
    parts = [request.system, *(f"{m.role}:{m.text}" for m in request.messages)]
    parts += [request.call, str(request.max_tokens)]
    digests = b"".join(hashlib.sha256(t.encode("utf-8", "replace")).digest() for t in parts)
    call = re.sub(r"[^A-Za-z0-9_]", "_", request.call.replace("/", "__"))
    return f"{call[:_CALL_LENGTH]}-{hashlib.sha256(digests).hexdigest()[:_DIGEST_LENGTH]}"


def add_mark(name: str, mark: str) -> str:
    """The name of a request in the batch with this mark."""
    return f"{name}-{mark}"


def remove_mark(sent: str) -> str:
    """The inverse of `add_mark`: the name without the mark."""
    return "-".join(sent.split("-")[:2])


def call_of(sent: str) -> str:
    """The call that a request's name begins with, marked or not; cut if the call is long."""
    return sent.partition("-")[0].replace("__", "/", 1)
