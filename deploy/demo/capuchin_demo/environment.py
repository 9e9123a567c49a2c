"""The demo's services: GitHub, Redis, a model, a worker."""

import asyncio
import secrets
import shutil
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from pydantic import SecretStr

from bot.bootstrap import build_worker
from bot.server.app import create_app
from bot.server.connections import serve_app
from bot.settings import Settings
from bot.storage.client import UNREACHABLE
from bot.storage.storage import Storage
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.serve_hub import create_app as create_hub
from capuchin_demo.hub.serve_hub import serve_hub
from capuchin_demo.hub.state import Repo, Visitor
from capuchin_demo.hub.tokens import generate_app
from capuchin_demo.package import DemoFailed
from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import MODEL, SCOUT, RecordedServer
from pipeline.data.options import ONLY_FIXED
from sandbox.frozen import replace

_DUMP = "dump.rdb"
_PORTS = range(15_000, 30_000)
"""Below the ports that Linux (from 32768 on) and macOS (49152) choose by themselves."""


@asynccontextmanager
async def run_redis(folder: Path, prefix: str, findings: Path) -> AsyncGenerator[str, None]:
    """Run `redis-server` with its files in `folder` until the block ends; yields its address.

    It starts with what earlier demos learnt about the environment's image, as a bot in use would;
    the file `findings` keeps only that. `prefix` is the prefix of every key.

    Raises:
        DemoFailed: it is not installed or does not start.
    """
    port = find_free_port()
    url = f"redis://127.0.0.1:{port}/0"
    process = await _start(port, folder, findings)
    try:
        yield url
        with suppress(OSError, *UNREACHABLE):  # then the next demo starts without them
            await _keep_findings(url, prefix, folder / _DUMP, findings)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _start(port: int, folder: Path, findings: Path) -> asyncio.subprocess.Process:
    with suppress(OSError):
        await asyncio.to_thread(shutil.copyfile, findings, folder / _DUMP)
    process = await _launch(port, folder)
    if await _is_up(process, port):
        return process
    if process.returncode is not None and await asyncio.to_thread((folder / _DUMP).exists):
        # Perhaps another version of Redis wrote the findings.
        await asyncio.to_thread((folder / _DUMP).unlink)
        process = await _launch(port, folder)
        if await _is_up(process, port):
            return process
    if process.returncode is None:
        process.terminate()
    await process.wait()
    raise DemoFailed("redis-server started but does not respond; try again.")


async def _launch(port: int, folder: Path) -> asyncio.subprocess.Process:
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
            "--appendonly", "no", "--dir", str(folder), "--dbfilename", _DUMP]  # fmt: skip
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C must not stop it: we stop it last
        )
    except FileNotFoundError:
        raise DemoFailed("redis-server is not installed; `make demo` installs it.") from None


async def _keep_findings(url: str, prefix: str, dump: Path, findings: Path) -> None:
    async with Storage.open(url, prefix, timeout=5) as storage:
        await storage.save_only_findings()
    new = findings.with_suffix(".new")
    await asyncio.to_thread(shutil.copyfile, dump, new)
    await asyncio.to_thread(new.replace, findings)


def find_free_port() -> int:
    """A port that is free now, and that the system gives to no program that asks for any port."""
    while True:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


async def _is_up(process: asyncio.subprocess.Process, port: int) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return True
    return False


HOST = "127.0.0.1"
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


@dataclass(frozen=True)
class DemoEnvironment:
    hub: State
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
        findings = base_settings.data_dir / "cache" / "demo.rdb"
        redis = run_redis(folder, base_settings.redis_prefix, findings)
        redis_url = await stack.enter_async_context(redis)
        hub = State(folder / "hub", secret, app)
        await stack.enter_async_context(serve_hub(hub, create_hub(hub), HOST, port))
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
            dashboard_token=SecretStr(secrets.token_hex(8)),
            # A visitor watches, and waits for the answer; no rate limit applies.
            timings=replace(base_settings.timings, status_seconds=1, review_seconds=0),
        )
        recorded = None
        if not settings.anthropic_api_key.get_secret_value():
            recorded = RecordedServer(load_recording())
            url = await stack.enter_async_context(recorded.serve())
            settings = replace(
                settings,
                solver_model=f"anthropic:{MODEL}",
                scout_model=f"openai:{SCOUT}@{url}/v1",
                anthropic_api_key=SecretStr("recorded"),
                anthropic_base_url=url,
                generators=ONLY_FIXED,
            )
        await stack.enter_async_context(serve_app(create_app(settings), HOST, own_port))
        hub.webhooks.url = f"{server}/webhook"
        hub.visitor = Visitor(MAINTAINER, REVIEW)
        repo = hub.add_repo(REPOSITORY, files={**package, ".github/capuchin.yml": CONFIG})
        repo.grant(MAINTAINER, "maintain")
        await stack.enter_async_context(_run_worker(settings))
        yield DemoEnvironment(hub, repo, settings, recorded)


def load_recording() -> Recording:
    """The demo's recorded answers."""
    with as_file(files("capuchin_demo") / "recording.yml") as path:
        return Recording.load(path)


@asynccontextmanager
async def _run_worker(settings: Settings) -> AsyncGenerator[None, None]:
    async with build_worker(settings) as worker:
        task = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await task
