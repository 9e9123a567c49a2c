"""The context stage against a real vLLM with a real, tiny model: the wire, not the judgement."""

from pathlib import Path

import httpx

from pipeline.context.finder import ContextFinder
from pipeline.context.scout import SCHEMA
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.models.base import Message, ModelRequest, Reply, ReplyFormat
from pipeline.models.factory import ModelOptions, build_model
from pipeline.models.spec import ModelSpec
from pipeline.models.wrappers import ConcurrencyWindow, ThrottledModel
from pipeline.store import DirStore
from tests.live.server import LENGTH, NAME
from tests.support.data.repositories import make_codebase
from tests.support.fakes import ScriptedModel
from tests.support.recorded_scout import modules

ISSUE = Issue(repository="a/b", title="f1 is wrong", body="m1.py adds one too many, as g200 does.")
"""Random weights find what they like: what is named is shown whatever they say."""


async def test_the_context_stage_runs_on_a_real_vllm(vllm: str, tmp_path: Path) -> None:
    spec = ModelSpec(provider="openai", name=NAME, base_url=f"{vllm}/v1")
    client = build_model(spec, api_key="", options=ModelOptions(window=LENGTH), sdk_retries=0)
    big = "".join(f"def g{n}(x):\n    return x * {n}\n\n\n" for n in range(300))
    codebase = await make_codebase(tmp_path / "r.git", {**modules(12), "big.py": big})
    ranking = "<ranking>\nm1.py\nbig.py\n</ranking>"
    solver = ScriptedModel({f"ranking/{n}": [ranking] for n in range(3)})
    told: list[tuple[int, int]] = []

    async def counted(done: int, total: int) -> None:
        told.append((done, total))

    try:
        asked = ReplyFormat(json_schema=SCHEMA)
        said = await client.complete(
            ModelRequest(
                "", (Message(role="user", text="?"),), call="relevance", max_tokens=40, form=asked
            )
        )
        assert said.text.startswith("{")
        assert (await _thinking(spec)).stopped in ("end", "length")
        finder = ContextFinder(
            solver=solver,
            scout=ThrottledModel(client, ConcurrencyWindow(8)),
            store=DirStore(tmp_path / "store"),
            options=Options(),
            on_progress=counted,
        )
        context = await finder.find(codebase, ISSUE)
    finally:
        await client.aclose()
    assert context is not None
    assert "m1.py" in [file.path for file in context.files]
    assert context.findings is not None
    assert context.findings.read == 13
    assert told[-1] == (13, 13)
    assert await _hits(vllm) > 0


async def _thinking(spec: ModelSpec) -> Reply:
    """This server has no reasoning parser: it declines to limit thinking, and is asked without."""
    wanted = ModelOptions(window=LENGTH, max_output=3000, thinking_tokens=1024)
    client = build_model(spec, api_key="", options=wanted, sdk_retries=0)
    try:
        said = (Message(role="user", text="?"),)
        return await client.complete(ModelRequest("", said, call="testing/0", max_tokens=1100))
    finally:
        await client.aclose()


async def _hits(url: str) -> float:
    async with httpx.AsyncClient(trust_env=False) as client:
        lines = (await client.get(f"{url}/metrics")).text.splitlines()
    named = [line for line in lines if line.startswith("vllm:prefix_cache_hits_total")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in named)
