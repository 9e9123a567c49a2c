"""Headers and raw body of a webhook to one small event of our own; only fields that are read.

GitHub's documents: "Validating webhook deliveries" and "Webhook events and payloads".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final, TypeVar

from pydantic import BaseModel, Field, ValidationError

from bot.types import Frozen, RepoRef

M = TypeVar("M", bound=BaseModel)

LARGEST_BYTES: Final = 25 * 1024 * 1024  # GitHub sends no larger payload

_SIGNATURE: Final = re.compile(rb"sha256=[0-9a-f]{64}")
_DELIVERY: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_NAME: Final = r"^[A-Za-z0-9._-]+$"


class NotSigned(Exception):
    """The signature is missing, of another kind, or not made with our secret over this body."""


class Malformed(Exception):
    """An event that we handle is not as GitHub documents it; `str(error)` is a sentence."""


class IssueLabeled(Frozen):
    """Somebody put a label on an issue."""

    repo: RepoRef
    issue: int
    label: str
    actor: str
    """Login of who put it on."""
    by_bot: bool
    """The actor is an App, not a person."""
    delivery: str


class Ignored(Frozen):
    """Nothing that we act on."""

    reason: str


Event = IssueLabeled | Ignored


def check_signature(secret: str, body: bytes, signature: bytes | None) -> None:
    """Compare `X-Hub-Signature-256` with ours over the raw body, in constant time.

    Raises:
        NotSigned: they differ, or `signature` is None or not of that form.
    """
    if signature is None or not _SIGNATURE.fullmatch(signature):
        raise NotSigned
    ours = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(ours.encode(), signature):
        raise NotSigned


def parse(name: str, delivery: str, body: bytes) -> Event:
    """The event in a body whose signature was checked.

    `name` is `X-GitHub-Event`, `delivery` is `X-GitHub-Delivery`.

    Raises:
        Malformed: the body of an event that is handled here lacks what GitHub documents.
    """
    if name != "issues":
        return Ignored(reason=f"event {name[:50]}")
    if not _DELIVERY.fullmatch(delivery):
        raise Malformed("X-GitHub-Delivery is missing or not an id.")
    if _read(_Action, body).action != "labeled":
        return Ignored(reason="action")
    facts = _read(_IssueLabeled, body)
    return IssueLabeled(
        repo=RepoRef(
            owner=facts.repository.owner.login,
            name=facts.repository.name,
            installation=facts.installation.id,
        ),
        issue=facts.issue.number,
        label=facts.label.name,
        actor=facts.sender.login,
        by_bot=facts.sender.type == "Bot",
        delivery=delivery,
    )


class _Action(BaseModel):
    action: str


class _Owner(BaseModel):
    login: str = Field(pattern=_NAME)


class _Repository(BaseModel):
    name: str = Field(pattern=_NAME)
    owner: _Owner


class _Installation(BaseModel):
    id: int


class _Issue(BaseModel):
    number: int = Field(gt=0)


class _Label(BaseModel):
    name: str


class _Sender(BaseModel):
    login: str
    type: str


class _IssueLabeled(BaseModel):
    repository: _Repository
    installation: _Installation
    issue: _Issue
    label: _Label
    sender: _Sender


def _read(kind: type[M], body: bytes) -> M:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        what = f"{where}: {fault['msg']}" if where else fault["msg"]
        raise Malformed(f"Not an issues event as GitHub documents it: {what}.") from None
