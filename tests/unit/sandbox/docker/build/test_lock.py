"""The lock of a build, between threads and between processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from sandbox.docker.build_lock import BuildLock

HOLD: Final = """\
import sys
from sandbox.docker.build_lock import BuildLock
assert BuildLock(sys.argv[1]).acquire(timeout=120)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def hold_elsewhere(name: str) -> Generator[subprocess.Popen[bytes]]:
    """Another process holds the lock."""
    command = [sys.executable, "-c", HOLD, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def test_one_of_several_holders_at_a_time() -> None:
    name = uuid4().hex
    one, two, other = BuildLock(name), BuildLock(name), BuildLock(uuid4().hex)
    assert one.acquire(timeout=0)
    assert not two.acquire(timeout=0.01)
    assert other.acquire(timeout=0)
    other.release()
    one.release()
    assert two.acquire(timeout=0)
    two.release()
    with two.hold():
        assert not one.acquire(timeout=0.01)
    assert one.acquire(timeout=0)
    one.release()


def test_a_lock_of_a_process_that_is_killed_is_free() -> None:
    name = uuid4().hex
    with hold_elsewhere(name) as process:
        lock = BuildLock(name)
        assert not lock.acquire(timeout=0.1)
        assert BuildLock(uuid4().hex).acquire(timeout=0)
        process.kill()
        assert lock.acquire(timeout=120)
        lock.release()
