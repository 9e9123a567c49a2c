"""Both real clients, each over a real socket to the recorded service."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.models.base import Message, ModelProfile, ModelRequest, Reply
from pipeline.models.providers.provider_http import Endpoint
from pipeline.models.spec import ModelSpec, look_up

if TYPE_CHECKING:
    from pipeline.models.providers.anthropic import AnthropicModel
    from pipeline.models.providers.openai_chat import OpenAIChatModel

    Client = AnthropicModel | OpenAIChatModel

Kind = Literal["anthropic", "openai"]

KEY = "sk-recorded-0123456789"
NAME = "claude-haiku-4-5"


class Serving(NamedTuple):
    """A client and the service at its other end."""

    model: Client
    server: RecordedServer
    url: str

    async def ask(self, text: str = "Hello?", *, call: str = "testing/0", **options: Any) -> Reply:
        return await self.model.complete(
            ModelRequest("Be brief.", (user(text),), call=call, **options)
        )


def user(text: str) -> Message:
    return Message(role="user", text=text)


def assistant(text: str) -> Message:
    return Message(role="assistant", text=text)


def recording(*answers: dict[str, Any]) -> Recording:
    written = [{"call": "*", **answer} for answer in answers]
    return Recording.model_validate({"version": 1, "note": "Made up.", "answers": written})


def profile(kind: Kind) -> ModelProfile:
    return look_up(ModelSpec(provider=kind, name=NAME, base_url="http://127.0.0.1/v1")).profile


def client(kind: Kind, url: str, *, api_key: str = KEY, **options: Any) -> Client:
    """A client of the service at `url`, which does not end in `/v1`."""
    # Each SDK takes a second to import: only where a client is wanted, not where one collects.
    if kind == "anthropic":
        from pipeline.models.providers.anthropic import AnthropicModel

        return AnthropicModel(profile(kind), Endpoint(url, api_key, **options))
    from pipeline.models.providers.openai_chat import OpenAIChatModel

    return OpenAIChatModel(profile(kind), Endpoint(f"{url}/v1", api_key, **options))


@asynccontextmanager
async def serving(kind: Kind, *answers: dict[str, Any], **options: Any) -> AsyncGenerator[Serving]:
    """The client `kind` against a service that gives `answers` to any call."""
    server = RecordedServer(recording(*answers), key=KEY)
    async with server.serve() as url:
        model = client(kind, url, **options)
        try:
            yield Serving(model, server, url)
        finally:
            await model.aclose()
