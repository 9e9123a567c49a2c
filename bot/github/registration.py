"""Exchanges the code of a newly created App for its keys."""

from __future__ import annotations

from pydantic import Field

from bot.github.http import GitHubClient, api_path
from bot.github.models import Fact


class AppRegistration(Fact):
    """The App with its keys, which GitHub sends only once."""

    id: int
    slug: str
    html_url: str
    pem: str = Field(repr=False)
    webhook_secret: str | None = Field(repr=False)
    """None for an App without a webhook."""


class NoCredential:
    """Sends no Authorization header."""

    async def get_header(self) -> str:
        return ""

    def discard(self, value: str) -> bool:  # noqa: ARG002 - there is no other credential
        return False


async def exchange_code(github_url: str, code: str) -> AppRegistration:
    """Exchange a code, which is valid once and for an hour. A failed call is not repeated.

    Raises:
        NotFound: the code was used, or is too old.
        GitHubUnavailable: GitHub does not respond.
        ValidationError: GitHub sent no keys.
    """
    async with GitHubClient(github_url) as client:
        answer = await client.send(
            "POST", api_path("app-manifests", code, "conversions"), NoCredential()
        )
    return AppRegistration.model_validate(answer.data)
