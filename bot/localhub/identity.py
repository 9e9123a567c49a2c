"""The GitHub App's identity: its id, its keys, and its permissions."""

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
"""The permissions that an installation grants by default: those of the App's manifest."""

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
"""The events that the App subscribes to. Every App receives `installation*` and `ping`."""


@dataclass(frozen=True)
class AppIdentity:
    """A GitHub App as its hub knows it, plus the private key, which only the bot would have."""

    app_id: int
    slug: str
    private_key_pem: str = field(repr=False)
    public_key_pem: str = field(repr=False)
    permissions: Mapping[str, str] = field(default_factory=lambda: dict(PERMISSIONS))
    events: tuple[str, ...] = EVENTS

    @property
    def bot_login(self) -> str:
        """The App's account, for example `capuchin[bot]`."""
        return f"{self.slug}[bot]"


def generate_app(app_id: int = 1, slug: str = "capuchin") -> AppIdentity:
    """Create an App with a new 2048-bit RSA key pair, as GitHub does."""
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
