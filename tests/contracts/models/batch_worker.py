"""A worker that asks two questions in a batch; as a process: `-m`, an address and a folder."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

from pipeline.concurrency import gather_all
from pipeline.models.base import ModelRequest
from pipeline.models.batches import BatchModel, BatchService
from pipeline.models.providers.anthropic import AnthropicModel
from pipeline.models.providers.provider_http import Endpoint
from pipeline.store import DirStore
from tests.contracts.models.clients import KEY, profile, user

LINGER = 0.5
"""Longer than a busy machine stands still between two questions that are asked at once."""


async def ask_two(url: str, root: Path, kind: type[AnthropicModel] = AnthropicModel) -> list[str]:
    async with aclosing(kind(profile("anthropic"), Endpoint(url, KEY, sdk_retries=0))) as service:
        return await ask_in_batch(service, root)


async def ask_in_batch(service: BatchService, root: Path) -> list[str]:
    async with aclosing(BatchModel(service, DirStore(root), linger=LINGER, poll=0)) as batching:
        replies = await gather_all(
            batching.complete(ModelRequest("Brief.", (user("Hi"),), call=f"testing/{n}"))
            for n in range(2)
        )
    return [reply.text for reply in replies]


if __name__ == "__main__":
    asyncio.run(ask_two(sys.argv[1], Path(sys.argv[2])))
