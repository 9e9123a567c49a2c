"""Who the GitHub App is: its number, its keys, and what it was granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

PERMISSIONS: Mapping[str, str] = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "read",
}
"""What an installation grants unless told otherwise: the App's manifest."""

EVENTS = (
    "check_run",
    "check_suite",
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
    "status",
)
"""What the App subscribes to. `installation*` and `ping` reach every App unasked."""


@dataclass(frozen=True)
class AppIdentity:
    """A GitHub App as its hub knows it, plus the private key that only the bot would hold."""

    app_id: int
    slug: str
    private_key_pem: str = field(repr=False)
    public_key_pem: str = field(repr=False)
    permissions: Mapping[str, str] = field(default_factory=lambda: dict(PERMISSIONS))
    events: tuple[str, ...] = EVENTS

    @property
    def bot_login(self) -> str:
        """The name under which the App writes, for example `capuchin[bot]`."""
        return f"{self.slug}[bot]"


def generate_app(app_id: int = 1, slug: str = "capuchin") -> AppIdentity:
    """A new App with its own 2048-bit RSA key pair, as GitHub makes them."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return AppIdentity(app_id, slug, private.decode(), public.decode())
