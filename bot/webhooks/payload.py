"""Verifies a delivery's signature and size, and reads what all events share."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, TypedDict, TypeVar

from pydantic import BaseModel, Field, ValidationError

from bot.data.run import Login, RepoRef
from bot.errors import BotError
from sandbox.frozen import Frozen

MAX_BODY_BYTES: Final = 25 * 1024 * 1024  # GitHub sends no larger payload

_SIGNATURE: Final = re.compile(rb"sha256=[0-9a-f]{64}")


class InvalidSignature(BotError):
    """The signature is missing, of another kind, or not made with our secret over this body."""


def check_form(signature: bytes) -> None:
    """Look at `X-Hub-Signature-256` before the body is read.

    Raises:
        InvalidSignature: it is missing or not of GitHub's form.
    """
    if not _SIGNATURE.fullmatch(signature):
        raise InvalidSignature


class SignatureCheck:
    """Hashes a raw body piece by piece: a large one at once would block the event loop."""

    def __init__(self, secret: str) -> None:
        self._mac = hmac.new(secret.encode(), digestmod=hashlib.sha256)
        self.add = self._mac.update

    def finish(self, signature: bytes) -> None:
        """Compare `X-Hub-Signature-256` with ours over what was added, in constant time.

        Raises:
            InvalidSignature: they differ, or `signature` is not of GitHub's form.
        """
        check_form(signature)
        ours = "sha256=" + self._mac.hexdigest()
        if not hmac.compare_digest(ours.encode(), signature):
            raise InvalidSignature


M = TypeVar("M", bound=BaseModel)

_DELIVERY_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_NAME_PATTERN: Final = r"^[A-Za-z0-9._-]+$"


class MalformedPayload(BotError):
    """An event that we handle is not as GitHub documents it; `str(error)` is a sentence."""


class RepositoryEvent(Frozen):
    """Somebody did something in a repository."""

    repo: RepoRef
    actor: Login
    """Login of who did it."""
    by_bot: bool
    """The actor is an App, not a person."""
    delivery: str
    """X-GitHub-Delivery: the same for every delivery of this event."""


class EventFields(TypedDict):
    """What every `RepositoryEvent` has, as keyword arguments."""

    repo: RepoRef
    actor: Login
    by_bot: bool
    delivery: str


class Ignored(Frozen):
    """Nothing that we act on."""

    reason: str


Event = RepositoryEvent | Ignored

Reader = Callable[[str, bytes], Event]
"""Reads a delivery's id and raw body. Raises Malformed."""


class OwnerPayload(BaseModel):
    login: Login = Field(pattern=_NAME_PATTERN)


class RepositoryPayload(BaseModel):
    name: str = Field(pattern=_NAME_PATTERN)
    owner: OwnerPayload


class InstallationPayload(BaseModel):
    id: int


class AccountPayload(BaseModel):
    login: Login
    type: str = "User"

    @property
    def is_bot(self) -> bool:
        return self.type == "Bot"


class Payload(BaseModel):
    """What every payload about a repository has."""

    repository: RepositoryPayload
    installation: InstallationPayload
    sender: AccountPayload

    @property
    def repo(self) -> RepoRef:
        return RepoRef(
            owner=self.repository.owner.login,
            name=self.repository.name,
            installation=self.installation.id,
        )

    def event_fields(self, delivery: str) -> EventFields:
        """The fields of a `RepositoryEvent`."""
        return EventFields(
            repo=self.repo,
            actor=self.sender.login,
            by_bot=self.sender.is_bot,
            delivery=delivery,
        )


class _Label(BaseModel):
    name: str


class LabelPayload(Payload):
    """What is put on, or taken off."""

    label: _Label | None = None
    """GitHub's schema lets it be left out, as of a label that is gone meanwhile."""


class _ActionPayload(BaseModel):
    action: str


def read_payload(kind: type[M], name: str, body: bytes) -> M:
    """The payload of an event `name`.

    Raises:
        Malformed: it is not as `kind` says.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        what = f"{where}: {fault['msg']}" if where else fault["msg"]
        article = "an" if name[:1] in "aeiou" else "a"
        raise MalformedPayload(
            f"Not {article} {name} event as GitHub documents it: {what}."
        ) from None


def read_action(name: str, body: bytes) -> str:
    """The payload's `action`. Raises Malformed."""
    return read_payload(_ActionPayload, name, body).action


def check_delivery(delivery: str) -> None:
    """Raises Malformed for what is no id of a delivery."""
    if not _DELIVERY_ID.fullmatch(delivery):
        raise MalformedPayload("X-GitHub-Delivery is missing or not an id.")
