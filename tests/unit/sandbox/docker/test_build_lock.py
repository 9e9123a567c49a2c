"""The lock of a build, between threads and between processes."""

import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from sandbox.docker.build_lock import hold_build_lock
from sandbox.execution.cancellation import Stopped

HOLD: Final = """\
import sys, tempfile
from sandbox.docker.build_lock import hold_build_lock
tempfile.tempdir = sys.argv[1]
with hold_build_lock("one"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def is_free(name: str) -> bool:
    """Whether another thread gets the lock."""

    def attempt() -> None:
        with hold_build_lock(name, stop):
            pass

    stop = threading.Event()
    stop.set()
    with ThreadPoolExecutor(1) as pool:
        tried: Future[None] = pool.submit(attempt)
        return not isinstance(tried.exception(), Stopped)


def test_one_holder_at_a_time() -> None:
    with hold_build_lock("one"):
        assert not is_free("one")
        assert is_free("two")
    assert is_free("one")


def test_the_lock_of_a_process_that_is_killed_is_free(folder: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"held\n"
            assert not is_free("one")
        finally:
            process.kill()
            process.wait()
    assert is_free("one")
