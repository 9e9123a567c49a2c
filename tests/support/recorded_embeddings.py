"""A real client of a recorded embedding model over a real socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from bot.runner.models import build_ranker
from bot.settings import Settings
from pipeline.context.retrieval.embeddings import EmbeddingRanker
from tests.support.recorded.recording import Recording
from tests.support.recorded.server import RecordedServer


@asynccontextmanager
async def served(
    *answers: Mapping[str, Any], files: int = 3000, key: str = ""
) -> AsyncGenerator[tuple[EmbeddingRanker, RecordedServer]]:
    written = [{"call": "embedding", **a} for a in answers] or [{"call": "*", "reply": "Hello."}]
    recording = {"version": 1, "note": "Made up.", "answers": written}
    server = RecordedServer(Recording.model_validate(recording), key=key or None)
    async with server.serve() as url, AsyncExitStack() as stack:
        settings = Settings.model_validate(
            {
                "embedding_model": f"openai:mini@{url}/v1",
                "model_api_key": key,
            }
        )
        meaning = build_ranker(stack, settings)
        assert meaning is not None
        yield replace(meaning, files=files), server
