"""The stand-ins for GitHub and the model: the one file here that imports what is ours alone."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from capuchin_demo.hub.state import Comment, Pull, Repo
from capuchin_demo.hub.tokens import generate_app
from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from tests.support.github.hub import LocalHub

__all__ = ["Comment", "LocalHub", "Pull", "Repo", "github", "model", "settings"]

RECORDING: Final = Path(__file__).parent / "recording.yml"


@contextmanager
def model() -> Generator[str]:
    """The address of a model that answers from `recording.yml`, served beside the caller."""
    address: Future[str] = Future()
    over = threading.Event()

    async def served() -> list[object]:
        llm = RecordedServer(Recording.load(RECORDING))
        async with llm.serve() as url:
            address.set_result(url)
            await asyncio.to_thread(over.wait)
        return [*llm.unexpected]

    with ThreadPoolExecutor(1) as beside:
        unexpected = beside.submit(lambda: asyncio.run(served()))
        try:
            yield address.result(60)
        finally:
            over.set()
        assert unexpected.result(60) == []


@asynccontextmanager
async def github(folder: Path, secret: str) -> AsyncGenerator[LocalHub]:
    """A GitHub that knows one App, and all requests that are made of it."""
    hub = LocalHub(folder / "hub", secret, generate_app())
    async with hub.serve():
        yield hub
        hub.webhook_url = None
    assert hub.unexpected == []


def settings(hub: LocalHub) -> dict[str, str]:
    """What an App of that GitHub is told in its environment."""
    return {
        "CAPUCHIN_GITHUB_URL": hub.url,
        "CAPUCHIN_GITHUB_APP_ID": str(hub.app.app_id),
        "CAPUCHIN_GITHUB_PRIVATE_KEY": hub.app.private_key_pem,
    }
