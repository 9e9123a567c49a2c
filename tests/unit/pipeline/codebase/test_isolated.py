"""Text that brings its parser down costs only its own reading, and sees no key of ours."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline.codebase.isolated import IsolatedProcess, call_isolated
from pipeline.context.outline import Outline, outline_of
from pipeline.selection.scoring.canonical import normalise
from pipeline.selection.scoring.lexing import lex, lex_in_process, split_plain_text
from tests.support.data.diffs import diff_of

BOMB = "a=>" * 2_500
"""7.5 KB of C for which tree-sitter takes two gigabytes, in one step; for 60 KB, a hundred."""
HONEST = json.dumps(["a = 1 # one\n", "a.py", None]).encode()


@pytest.fixture
def reader() -> Generator[IsolatedProcess]:
    made = IsolatedProcess(cpu_seconds=1)
    yield made
    made.close()


def ask(data: bytes) -> bytes:
    """Answers in the process: its number, its environment, its limit, or nothing at all."""
    if data == b"stop":
        os.abort()
    if data == b"fill":
        return bytes(64 * 1024**3)
    if data == b"loop":
        while True:
            pass
    environment = Path("/proc/self/environ").read_text(encoding="utf-8")
    return json.dumps([os.getpid(), environment]).encode()


def wait(data: bytes) -> bytes:
    """Write the process's number to the file that `data` names, and answer nothing."""
    scratch = Path(data.decode() + ".new")
    scratch.write_text(str(os.getpid()), encoding="utf-8")
    scratch.rename(data.decode())
    time.sleep(60)
    return b""


@pytest.mark.parametrize("text", [b"stop", b"fill", b"loop"])
def test_one_that_takes_too_much_has_no_answer_and_the_next_has(
    reader: IsolatedProcess, text: bytes
) -> None:
    assert reader.call(lex_in_process, HONEST)
    assert reader.call(ask, text) is None
    assert reader.call(lex_in_process, HONEST)


async def test_a_process_of_its_own_ends_with_its_call() -> None:
    numbers = [
        json.loads(await call_isolated(ask, text, seconds=9) or b"")[0] for text in (b"", b" ")
    ]
    assert numbers[0] != numbers[1]
    assert not any(Path(f"/proc/{number}").exists() for number in numbers)
    again = json.loads(await call_isolated(ask, b"", seconds=9) or b"")[0]
    assert again == numbers[0], "recent results are kept"
    assert await call_isolated(ask, b"stop", seconds=9) is None


async def test_a_call_that_is_cancelled_before_its_process_begins_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin: Any = subprocess.Popen
    asked, started = threading.Event(), threading.Event()
    begun: list[subprocess.Popen[bytes]] = []

    def begin_late(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        asked.set()
        started.wait(60)
        begun.append(begin(*args, **kwargs))
        return begun[0]

    monkeypatch.setattr(subprocess, "Popen", begin_late)
    call = asyncio.create_task(call_isolated(ask, b"number", seconds=5))
    await asyncio.to_thread(asked.wait, 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    started.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert begun[0].returncode is not None


async def test_a_call_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    began = tmp_path / "began"
    call = asyncio.create_task(call_isolated(wait, str(began).encode(), seconds=60))
    while not (number := began.read_text() if began.exists() else ""):
        await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.wait([call])
    for _ in range(500):
        if not Path(f"/proc/{number}").exists():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it still runs")


def test_a_process_that_the_machine_ended_is_replaced(reader: IsolatedProcess) -> None:
    number = json.loads(reader.call(ask, b"") or b"")[0]
    os.kill(number, signal.SIGKILL)
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
    assert reader.call(lex_in_process, HONEST)


def test_it_is_one_process_without_our_environment(
    reader: IsolatedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a secret")
    answers = [reader.call(ask, b"") for _ in range(2)]
    assert answers[0] == answers[1]
    number, environment = json.loads(answers[0] or b"")
    assert number != os.getpid()
    assert environment == ""


def test_threads_take_turns(reader: IsolatedProcess) -> None:
    texts = [json.dumps([f"a = {n}\n" * 2_000, "a.py", None]).encode() for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(partial(reader.call, lex_in_process), texts)]
    assert answers == [*map(lex_in_process, texts)]


def test_a_fork_starts_a_process_of_its_own(reader: IsolatedProcess) -> None:
    before = json.loads(reader.call(ask, b"") or b"")[0]
    read, write = os.pipe()
    if os.fork() == 0:
        reader.forget()
        os.write(write, reader.call(ask, b"") or b"[0]")
        reader.close()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        other = json.loads(answer.read())[0]
    os.wait()
    assert other not in (0, before)
    assert json.loads(reader.call(ask, b"") or b"")[0] == before


def test_code_that_takes_gigabytes_to_parse_is_split_as_plain_text() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = lex(BOMB, "a.c")
    assert found.unread
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 * 1024
    assert found.units == split_plain_text(BOMB, "a.c")
    assert outline_of("a.c", BOMB) == Outline()


def test_an_edit_of_many_such_files_is_compared_as_text_and_by_its_text() -> None:
    def edit(word: str) -> str:
        return "".join(diff_of("x\n", BOMB + f"{word}{n}\n", f"src/{n}.c") for n in range(12))

    one = normalise(edit("a"))
    assert len(one.files) == 12
    assert one.key == normalise(edit("a")).key != normalise(edit("b")).key
