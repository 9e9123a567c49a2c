"""What a person or a program outside has: a command, an environment, a shell, a web client."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from capuchin_demo.environment import find_free_port
from tests.support.command_line import Ended
from tests.support.serving import wait_for_port

ROOT: Final = Path(__file__).parents[2]
EXPECTED: Final = Path(__file__).parent / "expected"
SECONDS: Final = 120
"""Longer than any command here takes on a busy machine."""
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
"""For networks with an authority of their own."""
NOTHING: Mapping[str, str] = {}


def environment(given: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """This process's environment without any of our settings, and those `given`."""
    ours = ("CAPUCHIN_", "ANTHROPIC_", "COV_")
    usual = {k: v for k, v in os.environ.items() if not k.startswith(ours)}  # noqa: TID251 - the command's own environment
    return {**usual, "PYTHONPATH": str(ROOT), **given}


def capuchin(*words: str, cwd: Path = ROOT, env: Mapping[str, str] = NOTHING) -> Ended:
    """`python -m bot` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bot", *words],
        cwd=cwd,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@contextmanager
def running(command: Sequence[str], env: Mapping[str, str], log: Path) -> Generator[int]:
    """A process that runs until the block is left, by its id; what it says goes to `log`.

    It has a session of its own, as a service has.
    """
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command,
            cwd=log.parent,
            env=environment(env),
            stdout=file,
            stderr=file,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def redis(folder: Path) -> Generator[str]:
    """A Redis with nothing in it; its address."""
    port = find_free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with running(words, {}, folder / "redis.log"):
        wait_for_port(port)
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def serve(folder: Path, env: Mapping[str, str]) -> Generator[str]:
    """`capuchin serve` with settings from the environment; its address."""
    port = find_free_port()
    words = [sys.executable, "-m", "bot", "serve", f"--port={port}"]
    with running(words, env, folder / "serve.log"):
        wait_for_port(port)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def worker(folder: Path, env: Mapping[str, str], *words: str) -> Generator[int]:
    """`capuchin worker`; the id of its process."""
    command = [sys.executable, "-m", "bot", "worker", *words]
    with running(command, env, folder / "worker.log") as process:
        yield process


def recorded(url: str) -> dict[str, str]:
    """Settings that ask the recorded model at `url`."""
    return {
        "CAPUCHIN_SOLVER_MODEL": "anthropic:recorded-claude-sonnet-4-6",
        "CAPUCHIN_GENERATORS": "[{}]",
        "ANTHROPIC_API_KEY": "recorded",
        "ANTHROPIC_BASE_URL": url,
        "CAPUCHIN_BUILD_CA_BUNDLE": str(CERTIFICATES) if CERTIFICATES.is_file() else "",
    }


def assert_expected(name: str, found: object) -> None:
    """`found` is what `expected/NAME.json` holds, which is made where there is none."""
    file = EXPECTED / f"{name}.json"
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if not file.exists():
        EXPECTED.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        raise AssertionError(f"{file.name} was made: read it, and run the test again")
    assert found == expected(name)


def expected(name: str) -> Any:
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def shape(value: object) -> object:
    """A JSON document with the kind of each value in its place; a list has that of its items."""
    if isinstance(value, dict):
        fields = cast(dict[str, object], value)
        return {name: shape(each) for name, each in fields.items()}
    if isinstance(value, list):
        kinds = [shape(each) for each in cast(list[object], value)]
        return [kind for i, kind in enumerate(kinds) if kind not in kinds[:i]]
    if value is None:
        return "null"
    kinds_of = {str: "text", bool: "boolean", int: "number", float: "number"}
    return next(name for kind, name in kinds_of.items() if isinstance(value, kind))


def quoted(message: str) -> list[str]:
    """The words in double quotes, which stay when a sentence is worded anew."""
    return re.findall(r'"([^"]*)"', message)
