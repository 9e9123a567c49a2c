"""An image registry for tests: the real one, as packaged by Debian."""

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capuchin_demo.environment import find_free_port
from tests.support.serving import wait_for_port

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
        wait_for_port(port)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
