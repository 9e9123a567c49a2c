"""`capuchin worker` as a process."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from pydantic import SecretStr, TypeAdapter

from bot.settings import Settings, variable_fields, variable_name
from pipeline.data.options import Generator as EditGenerator

_WITH_TIMINGS = """
import sys

from bot import settings
from bot.cli import main

timings = settings.Timings.model_validate_json(sys.argv[1])
read = settings.Settings.from_env
settings.Settings.from_env = lambda: read().model_copy(update={"timings": timings})
sys.exit(main(["worker"]))
"""
"""`capuchin worker`; no variable sets the timings."""


def _to_text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):  # `generators`
        generators = cast("tuple[EditGenerator, ...]", value)
        return TypeAdapter(tuple[EditGenerator, ...]).dump_json(generators).decode()
    return str(value)


def worker_environment(settings: Settings) -> dict[str, str]:
    """The environment of a process of Capuchin with these settings."""
    known = {name: getattr(settings, name) for name in variable_fields()}
    values = {variable_name(name): _to_text(v) for name, v in known.items() if v is not None}
    return {"PATH": os.environ["PATH"], **values}  # noqa: TID251 - git must be found


@contextmanager
def run_worker(settings: Settings) -> Generator[subprocess.Popen[bytes]]:
    """A worker for the length of the block, killed at its end. It has the timings, too."""
    argv = [sys.executable, "-c", _WITH_TIMINGS, settings.timings.model_dump_json()]
    process = subprocess.Popen(argv, env=worker_environment(settings))
    try:
        yield process
    finally:
        process.kill()
        process.wait()
