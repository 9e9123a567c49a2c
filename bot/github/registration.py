"""A freshly created App: its keys, in exchange for the code that its creation left."""

from __future__ import annotations

from pydantic import Field

from bot.github.http import Wire, path
from bot.github.models import Fact


class Registered(Fact):
    """The App as GitHub hands it over, once."""

    id: int
    slug: str
    html_url: str
    pem: str = Field(repr=False)
    webhook_secret: str = Field(repr=False)


class Nobody:
    """Signs nothing: the code is the credential."""

    async def value(self) -> str:
        return ""

    def rejected(self, value: str) -> bool:  # noqa: ARG002 - there is no other
        return False


async def convert(github_url: str, code: str) -> Registered:
    """The App of a code, which is good once and for an hour. Not repeated when it fails.

    Raises:
        NotFound: the code was used, or is too old. GitHubUnavailable. ValidationError: GitHub
        made no secret for the webhook.
    """
    async with Wire(github_url) as wire:
        answer = await wire.send("POST", path("app-manifests", code, "conversions"), Nobody())
    return Registered.model_validate(answer.data)
