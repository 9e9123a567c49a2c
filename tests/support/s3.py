"""An object store that speaks S3, on a real socket."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from capuchin_demo.environment import find_free_port
from tests.support.serving import wait_for_port

KEY: Final = "capuchin"
SECRET: Final = "not-a-secret"


class S3Server:
    """Serves the folders in `folder` as buckets, to `KEY` alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        self._process = subprocess.Popen(
            [
                Path(sys.executable).with_name("rclone"),
                *("serve", "s3", f"--addr=127.0.0.1:{self.port}", f"--auth-key={KEY},{SECRET}"),
                # With 0, rclone reads a folder until no time has passed since: it may never end.
                *("--config=", "--dir-cache-time=10ms", f":local:{self.folder}"),
            ],
            env={"HOME": str(self.folder.parent)},
            stderr=subprocess.DEVNULL,
        )
        wait_for_port(self.port)

    def stop(self) -> None:
        """Stop at once; what is written stays."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def list_objects(self) -> list[str]:
        """The paths of all objects, with their buckets, in order."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in files)


@contextmanager
def run_s3(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[S3Server]:
    """A server with the bucket `old`; the standard variables name it and the right keys."""
    (folder / "old").mkdir(parents=True)
    server = S3Server(folder)
    server.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    try:
        yield server
    finally:
        server.stop()
