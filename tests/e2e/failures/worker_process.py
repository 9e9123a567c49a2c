"""`capuchin worker` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from pydantic import SecretStr

from bot.settings import Settings, variable_name


@contextmanager
def run_worker(settings: Settings) -> Generator[subprocess.Popen[bytes]]:
    """A worker for the length of the block, killed at its end."""
    values = {
        variable_name(name): value.get_secret_value()
        if isinstance(value, SecretStr)
        else str(value)
        for name, value in settings
        if value is not None
    }
    path = {"PATH": os.environ["PATH"]}  # noqa: TID251 - git must be found
    process = subprocess.Popen([sys.executable, "-m", "bot", "worker"], env={**path, **values})
    try:
        yield process
    finally:
        process.kill()
        process.wait()
