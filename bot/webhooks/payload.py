"""Verifies the signature of a delivery, and holds what all payloads share."""

import hashlib
import hmac
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic import AliasPath, BaseModel, Field

from bot.data.request import AnyRequest, StopRequest
from bot.data.run import Login, RepoRef, StopReason
from bot.errors import BotError
from bot.webhooks.labels import BotNames

MAX_BODY_BYTES: Final = 25 * 1024 * 1024  # GitHub sends no larger payload


class InvalidSignature(BotError):
    """The signature is missing, of another kind, or not made with our secret over this body."""


class MalformedPayload(BotError):
    """An event that we handle is not as GitHub documents it; `str(error)` is a sentence."""


def check_form(signature: bytes) -> None:
    """Check the form of `X-Hub-Signature-256` before the body is read.

    Raises:
        InvalidSignature: it is missing or not of GitHub's form.
    """
    if not re.fullmatch(rb"sha256=[0-9a-f]{64}", signature):
        raise InvalidSignature


class SignatureCheck:
    """Hashes a raw body piece by piece: hashing a large one at once would block the event loop."""

    def __init__(self, secrets: Sequence[str]) -> None:
        """Each of `secrets` counts: GitHub changes to a new one at a moment of its own."""
        self._macs = [hmac.new(one.encode(), digestmod=hashlib.sha256) for one in secrets]

    def add(self, part: bytes) -> None:
        for mac in self._macs:
            mac.update(part)

    def finish(self, signature: bytes) -> None:
        """Compare `X-Hub-Signature-256` with ours over what was added, in constant time.

        Raises:
            InvalidSignature: they differ, or `signature` is not of GitHub's form.
        """
        check_form(signature)
        ours = [f"sha256={mac.hexdigest()}".encode() for mac in self._macs]
        equal = [hmac.compare_digest(one, signature) for one in ours]  # each, whichever it is
        if not any(equal):
            raise InvalidSignature


_NAME_PATTERN: Final = r"^[A-Za-z0-9._-]+$"


class RepositoryPart(BaseModel):
    id: int
    name: str = Field(pattern=_NAME_PATTERN)
    owner: Login = Field(pattern=_NAME_PATTERN, validation_alias=AliasPath("owner", "login"))


class AccountPart(BaseModel):
    login: Login
    type: str = "User"

    @property
    def is_bot(self) -> bool:
        return self.type == "Bot"


class Delivery(NamedTuple):
    """What a request takes from elsewhere than the payload."""

    id: str
    """`X-GitHub-Delivery`: the same for every delivery of one event."""
    names: BotNames


class Event(BaseModel):
    """One kind of event."""

    @abstractmethod
    def to_request(self, delivery: Delivery) -> AnyRequest | None:
        """What the event asks for; None for nothing."""


class Payload(Event):
    """One kind of event in a repository; `sender` caused it."""

    repository: RepositoryPart
    installation: int = Field(validation_alias=AliasPath("installation", "id"))
    sender: AccountPart

    @property
    def repo(self) -> RepoRef:
        return RepoRef(
            id=self.repository.id,
            owner=self.repository.owner,
            name=self.repository.name,
            installation=self.installation,
        )


class LabelPayload(Payload):
    """A label is put on, or taken off."""

    label_name: str = Field(default="", validation_alias=AliasPath("label", "name"))
    """GitHub's schema lets it be left out, as when the label is deleted meanwhile."""

    def to_opt_out(self, delivery: Delivery, number: int) -> StopRequest | None:
        """The stop that the opt-out label asks for, no matter who added it; None for other
        labels."""
        if not delivery.names.labels.is_opt_out(self.label_name):
            return None
        return StopRequest(
            repo=self.repo,
            issue=number,
            by=self.sender.login,
            why=StopReason.DISABLED,
            label=self.label_name,
            delivery=delivery.id,
        )
