"""Pictures reach a service in its own form."""

import pytest

from pipeline.data.types import Picture
from pipeline.models.base import Message, ModelRequest
from tests.contracts.models.clients import Kind, serving

DOT = Picture(media_type="image/gif", base64="R0lGODlhAQABAAAAACwAAAAAAQABAAA=")


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_picture_comes_before_the_text(kind: Kind) -> None:
    asked = Message(role="user", text="What is this?", pictures=(DOT,))
    async with serving(kind, {"reply": "A dot."}) as at:
        reply = await at.model.complete(ModelRequest("Be brief.", (asked,), call="pictures/0"))
    assert (reply.text, at.server.requests[0].messages) == ("A dot.", (asked,))
