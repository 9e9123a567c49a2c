"""The demo's services in one process: GitHub, Redis, a model service, a server, a worker."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from pydantic import SecretStr

from bot.bootstrap import build_worker
from bot.demo.redis_server import find_free_port, run_redis
from bot.localhub import LocalHub, Repo, generate_app
from bot.localhub.forms import Visitor
from bot.localhub.serve import serve_app
from bot.recorded.recording import Recording
from bot.recorded.server import RecordedServer
from bot.server.app import create_app
from bot.settings import Settings
from bot.types import replace
from pipeline.options import ONLY_FIXED

HOST = "127.0.0.1"
FINDINGS = "demo.rdb"
STATUS_SECONDS = 1.0
"""A person watches, and nobody limits the rate."""
REPOSITORY = "marshmallow-code/marshmallow"
MAINTAINER = "alice"
REPORTER = "bob"
REVIEW = "Please add a comment that says why `self.root` is used."
"""The review that the recording has an answer to."""
RUN_BUDGET = 5.0
CONFIG = f"""\
version: 1
samples: 3
budget:
  run: {RUN_BUDGET}
"""
RECORDED_SOLVER = "anthropic:recorded-claude-sonnet-4-6"
RECORDED_SCOUT = "recorded-qwen2.5-coder-32b-instruct"


@dataclass(frozen=True)
class DemoEnvironment:
    hub: LocalHub
    repo: Repo
    settings: Settings
    recorded: RecordedServer | None
    """None if the real service is used."""


@asynccontextmanager
async def run_environment(
    folder: Path, base_settings: Settings, package: Mapping[str, bytes], port: int = 0
) -> AsyncGenerator[DemoEnvironment, None]:
    """Run all services until the block ends, with their files in `folder` and the hub at `port`.

    Raises:
        DemoFailed: Redis does not start.
        OSError: the port is taken.
    """
    secret = secrets.token_hex(16)
    app = generate_app(slug="capuchin")
    async with AsyncExitStack() as stack:
        findings = base_settings.data_dir / "cache" / FINDINGS
        redis = run_redis(folder, base_settings.redis_prefix, findings)
        redis_url = await stack.enter_async_context(redis)
        hub = LocalHub(folder / "hub", secret, app)
        await stack.enter_async_context(hub.serve(port))
        own_port = find_free_port()
        server = f"http://{HOST}:{own_port}"
        settings = replace(
            base_settings,
            webhook_secret=SecretStr(secret),
            github_url=hub.url,
            github_app_id=str(app.app_id),
            github_private_key=SecretStr(app.private_key_pem),
            redis_url=redis_url,
            data_dir=folder,
            public_url=server,
            review_seconds=0,  # the visitor waits for the answer
            timings=replace(base_settings.timings, status_seconds=STATUS_SECONDS),
        )
        recorded = None
        if not settings.anthropic_api_key.get_secret_value():
            recorded = RecordedServer(load_recording())
            url = await stack.enter_async_context(recorded.serve())
            settings = with_recorded_models(settings, url)
        await stack.enter_async_context(serve_app(create_app(settings), HOST, own_port))
        hub.webhook_url = f"{server}/webhook"
        hub.visitor = Visitor(MAINTAINER, REVIEW)
        repo = hub.add_repo(REPOSITORY, files={**package, ".github/capuchin.yml": CONFIG})
        repo.grant(MAINTAINER, "maintain")
        await stack.enter_async_context(_run_worker(settings))
        yield DemoEnvironment(hub, repo, settings, recorded)


def load_recording() -> Recording:
    """The demo's recorded answers."""
    with as_file(files("bot.demo") / "recording.yml") as path:
        return Recording.load(path)


def with_recorded_models(settings: Settings, url: str) -> Settings:
    """`settings` with the recorded service at `url` as both models."""
    return replace(
        settings,
        solver_model=RECORDED_SOLVER,
        scout_model=f"openai:{RECORDED_SCOUT}@{url}/v1",
        anthropic_api_key=SecretStr("recorded"),
        anthropic_base_url=url,
        generators=ONLY_FIXED,
    )


@asynccontextmanager
async def _run_worker(settings: Settings) -> AsyncGenerator[None, None]:
    async with build_worker(settings) as worker:
        task = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await task
