"""A real client of a recorded scout over a real socket, and codebases for it to read."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from os.path import commonprefix
from pathlib import Path
from typing import Any

from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.context.files.sources import find_sources
from pipeline.context.scan import OnScanProgress, scan
from pipeline.context.scout import RelevanceVerdict
from pipeline.context.tokens import ESTIMATOR, TokenCounter
from pipeline.data.types import Issue
from pipeline.models.factory import ModelOptions, build_model
from pipeline.models.spec import ModelSpec
from pipeline.models.wrappers import ConcurrencyWindow, ThrottledModel
from pipeline.store import DirStore, Store
from tests.support.data.repositories import make_codebase

ISSUE = Issue(repository="a/b", title="total() subtracts", body="It should add. " * 40)
YES = '{"relevant": true, "summary": "It adds."}'
NO = '{"relevant": false, "summary": "Nothing."}'
MODULE = "def f{n}(x):\n    return x + {n}\n"


def modules(count: int) -> dict[str, str]:
    return {f"m{n}.py": MODULE.format(n=n) for n in range(count)}


@asynccontextmanager
async def scouted(
    *answers: Mapping[str, Any],
    window: int = 32_000,
    max_output: int | None = None,
    forms: bool = True,
) -> AsyncGenerator[tuple[ThrottledModel, RecordedServer]]:
    written = [{"call": "*", **answer} for answer in answers]
    recording = {"version": 1, "note": "Made up.", "answers": written}
    server = RecordedServer(Recording.model_validate(recording), extensions=forms)
    async with server.serve() as url:
        spec = ModelSpec(provider="openai", name="scout", base_url=f"{url}/v1")
        options = ModelOptions(window=window, max_output=max_output)
        client = build_model(spec, api_key="", options=options, sdk_retries=0)
        try:
            yield ThrottledModel(client, ConcurrencyWindow(8), waits=(0, 0)), server
        finally:
            await client.aclose()


async def scanned(
    folder: Path,
    files: Mapping[str, str],
    scout: ThrottledModel,
    *,
    store: Store | None = None,
    counted: OnScanProgress | None = None,
    counter: TokenCounter = ESTIMATOR,
) -> dict[str, RelevanceVerdict]:
    """The verdicts by path; a second call in one folder is a later run on the same mirror."""
    git_dir = folder / "r.git"
    codebase = await make_codebase(git_dir, files)
    sources = await find_sources(codebase)
    verdicts = await scan(
        sources,
        sources.files,
        ISSUE,
        scout=scout,
        store=store or DirStore(folder / f"store-{os.urandom(4).hex()}"),
        on_progress=counted,
        counter=counter,
    )
    return {verdict.path: verdict for verdict in verdicts}


def shared_prefix(prompts: Sequence[str]) -> str:
    return commonprefix(list(prompts))  # noqa: RUF071 - letters are meant, not folders
