"""The scan of SymPy's source: how busy a scout of fixed speed is kept, and what it costs us."""

from __future__ import annotations

import asyncio
import json
import resource
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from os.path import commonprefix
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.context.files.sources import find_sources
from pipeline.context.scan import scan
from pipeline.data.types import Issue
from pipeline.models.factory import build_model
from pipeline.models.spec import ModelSpec
from pipeline.models.wrappers import ConcurrencyWindow, ThrottledModel
from pipeline.store import DirStore
from tests.benchmarks.sympy_release import release, unpack
from tests.benchmarks.table import Row
from tests.support.recorded.recording import parse_chat_request
from tests.support.recorded.responses import BlockCache

SPEED = 100_000
"""Prompt tokens a second, of four letters each; one prompt after the other."""
ISSUE = Issue(repository="sympy/sympy", title="Integral is wrong", body="It returns 0. " * 300)
_ANSWER = '{"relevant": false, "summary": "Nothing."}'


class FixedSpeed:
    """A chat server that takes `SPEED` prompt tokens a second and remembers when it was busy."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.blocks = BlockCache()
        self.shared = ""
        """What all prompts so far began with."""
        self._free_at = 0.0
        self._clients = 0

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[str]:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0, limit=2**24)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            while self._clients:  # they have hung up, and are about to notice
                await asyncio.sleep(0.01)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.split("content-length:")[1].split("\r\n")[0])
                body = await reader.readexactly(length)
                writer.write(await self._answer(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            self._clients -= 1

    async def _answer(self, body: bytes) -> bytes:
        asked = parse_chat_request(body, {})
        self.blocks.add(asked.model, asked.parts)
        prompt = "".join(part.text for part in asked.parts)
        self.shared = commonprefix([self.shared or prompt, prompt])  # noqa: RUF071 - by letters
        took = len(prompt) / 4 / SPEED
        self.busy += took
        self._free_at = max(self._free_at, time.perf_counter()) + took
        await asyncio.sleep(self._free_at - time.perf_counter())
        base = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": asked.model}
        delta = {"index": 0, "delta": {"content": _ANSWER}, "finish_reason": "stop"}
        event = {**base, "choices": [delta]}
        text = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(text)}"
        return head.encode() + b"\r\n\r\n" + text


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        codebase = await _codebase(folder)
        sources = await find_sources(codebase)
        server = FixedSpeed()
        async with server.serve() as url:
            spec = ModelSpec(provider="openai", name="scout", base_url=f"{url}/v1")
            client = build_model(spec, api_key="", sdk_retries=0)
            scout = ThrottledModel(client, ConcurrencyWindow(64))
            took: list[float] = []
            for run in ("first", "second"):
                began = time.perf_counter()
                store = DirStore(folder / run)
                await scan(sources, sources.files, ISSUE, scout=scout, store=store)
                took.append(time.perf_counter() - began)
            await client.aclose()
    files = len(sources.files)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    blocks = server.blocks
    possible = len(server.shared) // 4 * (files - 1)
    return [
        Row(f"scan of {files} files", took[0], "s", "ideal schedule", server.busy),
        Row("scan again, next run of the issue", took[1], "s", "first scan", took[0]),
        Row(
            "prompt tokens from the prefix cache",
            blocks.hits,
            "tokens",
            "system text and issue",
            possible,
        ),
        Row("memory of client and stand-in", memory, "MB", "allowed", 300),
    ]


async def _codebase(folder: Path) -> Codebase:
    tree = folder / "tree"
    unpack(release(Path("build")), tree)
    git_dir = folder / "r.git"
    await git(None, "init", "-q", "--bare", str(git_dir))
    await git(git_dir, "--work-tree", str(tree), "add", "--all", "--force")
    who = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    written = (await git(git_dir, "write-tree")).decode().strip()
    commit = await git(git_dir, "commit-tree", "-m", "one", written, env=who)
    return await Codebase.open(git_dir, commit.decode().strip())
