"""Chromium without a window, over its own protocol (chromedevtools.github.io/devtools-protocol)."""

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

from websockets.asyncio.client import ClientConnection, connect

PROGRAM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or ""
"""Empty where there is none: a test is skipped then."""
PHONE: Final = (390, 844)
DESKTOP: Final = (1280, 900)
_BANNER: Final = "DevTools listening on "
Scheme = Literal["light", "dark"]


class PageError(Exception):
    """The page threw an error, or is gone."""


class Tab:
    """One page."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session = ""
        self.problems: list[str] = []
        """What the browser logged: refused scripts and styles, errors."""

    async def start(self, headers: dict[str, str]) -> None:
        """Open the tab; `headers` go with each request."""
        target = await self.call("Target.createTarget", url="about:blank")
        wanted = {"targetId": target["targetId"], "flatten": True}
        self._session = (await self.call("Target.attachToTarget", **wanted))["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Network.setExtraHTTPHeaders", headers=headers)

    async def show(
        self, url: str, size: tuple[int, int], scheme: Scheme, *, scripts: bool = True
    ) -> None:
        """Load `url`, and wait until it is there."""
        width, height = size
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)
        await self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        await self.call("Page.navigate", url=url)
        there = f"location.href === {json.dumps(url)} && document.readyState === 'complete'"
        await self.wait_for(there, seconds=120)

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise PageError(f"{expression}: {found}")
        return found["result"].get("value")

    async def wait_for(self, expression: str, *, seconds: float = 120) -> None:
        """Wait until the expression is true, also across a reload."""
        async with asyncio.timeout(seconds):
            while True:
                with suppress(PageError):  # between two pages
                    if await self.evaluate(expression):
                        return
                await asyncio.sleep(0.1)

    async def save_picture(self, path: Path) -> None:
        """The whole page as PNG."""
        found = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol."""
        number = next(self._numbers)
        waiting = self._answers[number] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send(json.dumps(message))
        answer = await asyncio.wait_for(waiting, 120)
        if "error" in answer:
            raise PageError(f"{method}: {answer}")
        return answer["result"]

    async def listen(self) -> None:
        """Take what the browser says, until it is gone."""
        while True:
            text = await self._socket.recv()
            message: dict[str, Any] = json.loads(text)
            match message.get("method"):
                case None if waiting := self._answers.pop(message["id"], None):
                    waiting.set_result(message)
                case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                    self.problems.append(message["params"]["entry"]["text"])
                case "Runtime.exceptionThrown":
                    self.problems.append(str(message["params"]["exceptionDetails"]))
                case _:
                    pass


@asynccontextmanager
async def open_tab(headers: dict[str, str] | None = None) -> AsyncGenerator[Tab]:
    """A tab in a browser of its own, which ends with the block."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        browser = await asyncio.create_subprocess_exec(
            PROGRAM,
            "--headless=new",
            "--no-sandbox",  # tests may run as root
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(120):
                address = await _read_address(browser)
            async with connect(address, max_size=64 * 1024 * 1024, proxy=None) as socket:
                tab = Tab(socket)
                listening = asyncio.create_task(tab.listen())
                try:
                    await tab.start(headers or {})
                    yield tab
                finally:
                    listening.cancel()
        finally:
            browser.kill()
            await browser.wait()


async def _read_address(browser: asyncio.subprocess.Process) -> str:
    assert browser.stderr is not None
    async for line in browser.stderr:
        text = line.decode("utf-8", "replace")
        if text.startswith(_BANNER):
            return text.removeprefix(_BANNER).strip()
    raise AssertionError("Chromium did not start")
