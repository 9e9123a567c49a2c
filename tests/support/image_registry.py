"""An image registry for tests: the real one, as packaged by Debian."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from capuchin_demo.environment import find_free_port

PROGRAM = shutil.which("docker-registry")


@contextmanager
def local_registry(folder: Path, program: str | Path | None = PROGRAM) -> Generator[str]:
    """Its address, which Docker trusts without TLS because it is this machine's."""
    if program is None:
        pytest.skip("docker-registry is not here; install it to run this")
    port = find_free_port()
    config = folder / "registry.yml"
    config.write_text(
        "version: 0.1\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/images}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log)
    try:
        wait_until_answering(f"http://127.0.0.1:{port}/v2/")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait_until_answering(url: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            httpx.get(url)
        except httpx.HTTPError:
            assert time.monotonic() < deadline, f"nothing answers at {url}"
            time.sleep(0.02)
        else:
            return
