"""Starts the vLLM server of these tests."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

NAME = "tiny"
LENGTH = 4096
_START_SECONDS = 1200
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


@asynccontextmanager
async def serve_vllm(python: str, model: Path, folder: Path, *options: str) -> AsyncGenerator[str]:
    """The address, without `/v1`, of a server on this machine's CPU; its log is in `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "vllm.log"
    with log.open("wb") as file:
        server = await asyncio.create_subprocess_exec(
            python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
            "--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port),
            "--max-model-len", str(LENGTH), "--enforce-eager", "--enable-prefix-caching",
            "--enable-prompt-tokens-details", *options,
            env={**os.environ, **_OFFLINE}, stdout=file, stderr=file,  # noqa: TID251 - handed on
        )  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        try:
            await _healthy(url, server, log)
            yield url
        finally:
            if server.returncode is None:
                server.terminate()
            await server.wait()


async def _healthy(url: str, server: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(_START_SECONDS), httpx.AsyncClient(trust_env=False) as client:
        while True:
            assert server.returncode is None, log.read_text()[-4000:]
            try:
                if (await client.get(f"{url}/health")).status_code == 200:
                    return
            except httpx.TransportError:
                await asyncio.sleep(1)
