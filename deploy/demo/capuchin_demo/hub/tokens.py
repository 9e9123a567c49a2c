"""The App's identity, and who a request comes from."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from capuchin_demo.hub.github_errors import Refusal
from capuchin_demo.hub.state import AppInstallation, Repo, User, now

PERMISSIONS: Mapping[str, str] = {
    "actions": "write",
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
    "repository",
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


CLOCK_SLACK_S = 60

LEVELS = ("none", "read", "write", "admin")


@dataclass(eq=False)
class Token:
    """A token and its permissions. `repos` is None for all repositories of its owner."""

    value: str = field(repr=False)
    actor: User
    expires_at: datetime
    installation: AppInstallation | None = None
    repos: tuple[Repo, ...] | None = None
    permissions: dict[str, str] = field(default_factory=dict[str, str])

    def can_see(self, repo: Repo) -> bool:
        """Whether the repository exists for this token."""
        if self.installation is None:
            return repo.role_of(self.actor) != "none"
        chosen = self.installation.repos if self.repos is None else self.repos
        return repo in chosen and repo.installation is self.installation

    def level(self, repo: Repo, permission: str) -> str:
        """`none`, `read`, `write` or `admin` for one permission such as `issues`."""
        if self.installation is not None:
            return self.permissions.get(permission, "none")
        role = repo.role_of(self.actor)
        if permission == "issues" and role == "triage":
            return "write"
        return {"none": "none", "read": "read", "triage": "read"}.get(role, "write")

    def is_allowed(self, repo: Repo, needs: str) -> bool:
        """Whether the token has one of the permissions in `needs`, such as `issues:write`.

        `needs` may list alternatives, separated by `|`.
        """
        return any(
            LEVELS.index(self.level(repo, name)) >= LEVELS.index(level)
            for name, _, level in (one.partition(":") for one in needs.split("|"))
        )


class Tokens:
    """All tokens. An expired token is treated like an unknown one."""

    def __init__(self, app: AppIdentity) -> None:
        self._app = app
        self._key = cast(
            "RSAPublicKey", serialization.load_pem_public_key(app.public_key_pem.encode())
        )
        self._tokens: dict[str, Token] = {}

    def create_for_installation(
        self,
        installation: AppInstallation,
        bot: User,
        repos: tuple[Repo, ...] | None,
        permissions: dict[str, str],
    ) -> Token:
        """Create an installation token that is valid for one hour."""
        value = "ghs_" + secrets.token_hex(18)
        token = Token(value, bot, now() + timedelta(hours=1), installation, repos, permissions)
        self._tokens[value] = token
        return token

    def create_for_person(self, user: User) -> Token:
        """Create a personal access token that is valid for a year."""
        value = "ghp_" + secrets.token_hex(18)
        token = Token(value, user, now() + timedelta(days=365))
        self._tokens[value] = token
        return token

    def expire(self) -> None:
        """Invalidate all installation tokens."""
        self._tokens = {v: t for v, t in self._tokens.items() if t.installation is None}

    def revoke(self, installation: AppInstallation) -> None:
        """Invalidate the tokens of a deleted installation."""
        self._tokens = {v: t for v, t in self._tokens.items() if t.installation is not installation}

    def find(self, value: str) -> Token | None:
        """The token if it is valid, else None."""
        token = self._tokens.get(value)
        return token if token is not None and token.expires_at > now() else None

    def verify_app_jwt(self, value: str) -> None:
        """Check that `value` is a valid JWT of this App.

        Raises:
            Refusal: it is not (401).
        """
        try:
            claims = jwt.decode(
                value,
                self._key,
                algorithms=["RS256"],
                leeway=CLOCK_SLACK_S,
                options={"require": ["exp", "iat", "iss"], "verify_iss": False},
            )
        except jwt.ExpiredSignatureError:
            raise Refusal(
                401, "'Expiration time' claim ('exp') must be a numeric value in the future"
            ) from None
        except jwt.InvalidTokenError:
            raise Refusal(401, "A JSON web token could not be decoded") from None
        if str(claims["iss"]) != str(self._app.app_id):
            raise Refusal(401, "Integration not found")
        if claims["exp"] - now().timestamp() > 600 + CLOCK_SLACK_S:
            raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")
