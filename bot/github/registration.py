"""A freshly created App: its keys, in exchange for the code that its creation left."""

from __future__ import annotations

from pydantic import Field

from bot.github.http import GitHubClient, api_path
from bot.github.models import Fact


class AppRegistration(Fact):
    """The App as GitHub hands it over, once."""

    id: int
    slug: str
    html_url: str
    pem: str = Field(repr=False)
    webhook_secret: str = Field(repr=False)


class NoCredential:
    """Signs nothing: the code is the credential."""

    async def get_header(self) -> str:
        return ""

    def discard(self, value: str) -> bool:  # noqa: ARG002 - there is no other
        return False


async def exchange_code(github_url: str, code: str) -> AppRegistration:
    """The App of a code, which is good once and for an hour. Not repeated when it fails.

    Raises:
        NotFound: the code was used, or is too old. GitHubUnavailable. ValidationError: GitHub
        made no secret for the webhook.
    """
    async with GitHubClient(github_url) as client:
        answer = await client.send(
            "POST", api_path("app-manifests", code, "conversions"), NoCredential()
        )
    return AppRegistration.model_validate(answer.data)
