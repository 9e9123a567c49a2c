"""Whether a delivery is GitHub's: its size and its signature."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

from bot.errors import BotError

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
