"""What a service that answers many questions at once has to offer, and how questions are named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from pipeline.models.base import ModelError, ModelProfile, ModelRequest, Reply

_CALL_LENGTH, _DIGEST_LENGTH = 30, 24
"""Characters of a question's name, of which a service allows 64 with the batch's mark."""
MARK_LENGTH = 8
"""Characters of a batch's own mark."""


class SubmittedBatch(NamedTuple):
    """A batch that the service has."""

    id: str
    at: datetime
    """When it was taken, by the service's clock."""
    requests: int


@runtime_checkable
class BatchService(Protocol):
    """A client of a service that answers many questions at once, later."""

    @property
    def profile(self) -> ModelProfile: ...

    async def submit(self, requests: Mapping[str, ModelRequest]) -> str:
        """Send all in one batch, once; its id. Names have 1 to 64 letters, digits, `_` and `-`.

        Raises:
            ModelUnavailable: it was not taken, or nobody knows. ModelError: it was not taken.
        """
        ...

    async def list_batches(self, since: datetime, until: datetime) -> Sequence[SubmittedBatch]:
        """The batches taken between these times, newest first, of everyone with the same key.

        Raises:
            ModelError: the service cannot be reached.
        """
        ...

    async def fetch_results(self, batch: str) -> dict[str, Reply | ModelError] | None:
        """What came of each question, by name; None while the batch is under way.

        Raises:
            ModelError: the service cannot be reached, or does not know the batch (any more).
        """
        ...


def request_name(request: ModelRequest) -> str:
    """The same for the same question, after a crash too; it begins with the call's name."""
    parts = [request.system, *(f"{m.role}:{m.text}" for m in request.messages)]
    parts += [request.call, str(request.max_tokens)]
    digests = b"".join(hashlib.sha256(t.encode("utf-8", "replace")).digest() for t in parts)
    call = re.sub(r"[^A-Za-z0-9_]", "_", request.call.replace("/", "__"))
    return f"{call[:_CALL_LENGTH]}-{hashlib.sha256(digests).hexdigest()[:_DIGEST_LENGTH]}"


def add_mark(name: str, mark: str) -> str:
    """The name under which a question goes in the batch with this mark."""
    return f"{name}-{mark}"


def remove_mark(sent: str) -> str:
    """`name` of `add_mark(name, mark)`."""
    return "-".join(sent.split("-")[:2])


def call_of(sent: str) -> str:
    """The call that a question's name, marked or not, begins with; of a long one the beginning."""
    return sent.partition("-")[0].replace("__", "/", 1)
