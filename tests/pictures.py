"""Pictures of what the demo makes, for the README: `make pictures` (needs Chromium).

Those of a wide window go to `docs/pictures`, where the README shows them; those of a phone go to
`build/pictures`, to be looked at.
"""

import asyncio
import base64
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.browser import DESKTOP, PHONE, PROGRAM, Scheme, Tab, open_tab

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final[dict[tuple[int, int], Path]] = {
    DESKTOP: ROOT / "docs/pictures",
    PHONE: ROOT / "build/pictures",
}
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
MOST_BYTES: Final = 100_000
"""Of one picture: a README that loads slowly is not read."""


async def main() -> None:
    """Run the demo, take its pictures, and end it."""
    if not PROGRAM:
        sys.exit("Chromium is not installed: apt-get install chromium")
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "bot", "demo", "--keep"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        pull, run = await _read_addresses(demo)
        async with open_tab() as tab:
            for size, scheme, (name, url) in _list_views(pull, run):
                await tab.show(url, size, scheme)
                await _take(tab, size, FOLDERS[size] / f"{name}-{scheme}.webp")
    finally:
        demo.send_signal(signal.SIGTERM)
        await demo.communicate()


def _list_views(pull: str, run: str) -> Iterator[tuple[tuple[int, int], Scheme, tuple[str, str]]]:
    for size in FOLDERS:
        for scheme in SCHEMES:
            yield size, scheme, ("pull-request", pull)
            yield size, scheme, ("run", run)


async def _read_addresses(demo: asyncio.subprocess.Process) -> tuple[str, str]:
    assert demo.stdout is not None
    said = ""
    async for line in demo.stdout:
        said += line.decode()
        pull = re.search(r"Pull request: (http\S+?),? ", said)
        run = re.search(r"Run: +(http\S+)\s", said)
        if pull and run:
            return pull[1], run[1]
    sys.exit(f"The demo ended:\n{said}")


async def _take(tab: Tab, size: tuple[int, int], path: Path) -> None:
    """The first screen of a page."""
    width, height = size
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    found = await tab.call("Page.captureScreenshot", format="webp", quality=85, clip=clip)
    picture = base64.b64decode(found["data"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture)
    sys.stdout.write(f"{path.relative_to(ROOT)}: {len(picture):,} bytes\n")
    if len(picture) > MOST_BYTES:
        sys.exit(f"{path.name} is larger than {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    asyncio.run(main())
