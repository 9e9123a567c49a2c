"""A fork does what a new process does."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import run_process
from tests.support.fork_server import is_program
from tests.support.forked_python import ENVIRONMENT, run_forked
from tests.support.proc import read_links

Run = Callable[
    [Sequence[str], Path, float, Mapping[str, str]], Coroutine[Any, Any, tuple[int, bytes]]
]
FILES = {
    "test_a.py": "def test_a():\n    print(__file__)\n    assert 1 == 2\n",
    "script.py": "import sys\nprint(sys.argv, __file__, sys.path[0], __name__)\n1 / 0\n",
}
NESTED = """\
import subprocess, sys
print("before")
child = subprocess.Popen([sys.executable, "-m", "pytest", "-q"], start_new_session=True)
sys.exit(child.wait() + 10)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", "import sys; print(sys.argv, sys.path, __name__); sys.exit(3)", "x"),
        ("-I", "-c", "import os, sys; print(sys.path, sorted(os.environ)); sys.exit('words')"),
        ("-c", "import atexit; atexit.register(print, 'bye'); 1 / 0"),
        ("-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
        ("-I", "-c", "import sys; print(sys.orig_argv)", "x"),
        ("script.py", "x"),
        ("-m", "missing"),
        ("-c", NESTED),
    ],
    ids=lambda arguments: " ".join(arguments)[:24],
)
async def test_a_fork_does_what_a_new_process_does(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    found: list[tuple[int, str]] = []
    for run in (run_process, run_forked):
        folder = tmp_path / run.__name__
        folder.mkdir()
        for name, text in FILES.items():
            (folder / name).write_text(text)
        env = {**ENVIRONMENT, "PYTHONPATH": str(folder)}
        code, output = await run([sys.executable, *arguments], folder, 100, env)
        text = output.decode().replace(str(folder), "FOLDER")
        found.append((code, re.sub(r"in \d+\.\d+s", "in a moment", text)))
    assert found[1] == found[0]


async def test_a_fork_is_killed_with_all_that_it_started_when_its_time_is_over(
    tmp_path: Path,
) -> None:
    sleep = "import time; print('began', flush=True); time.sleep(1000)"
    start = f"subprocess.Popen([sys.executable, '-c', {sleep!r}], start_new_session=True)"
    program = f"import subprocess, sys; {start}; {sleep}"
    with pytest.raises(TimeoutError):
        await run_forked([sys.executable, "-c", program], tmp_path, 0.2, ENVIRONMENT)
    assert str(tmp_path) not in {folder for _, folder in read_links("cwd")}


def test_what_python_reads_at_its_start_needs_a_new_process() -> None:
    assert is_program(["python", "-I", "-c", "1"], ENVIRONMENT)
    assert is_program(("python", "-I", "-c", "1"), ENVIRONMENT)
    assert not is_program(["python", "-S", "-c", "1"], ENVIRONMENT)
    assert not is_program(["python", "-c", "1"], {**ENVIRONMENT, "PYTHONHASHSEED": "1"})
    assert not is_program(["python", "-c", "1"], {**ENVIRONMENT, "PYTHONUTF8": "0"})


@pytest.mark.parametrize("run", [run_process, run_forked])
async def test_a_cancelled_call_leaves_no_process(tmp_path: Path, run: Run) -> None:
    program = (
        "import os, time\nopen('new', 'w').write(str(os.getpid()))\nos.rename('new', 'pid')\n"
        "time.sleep(1000)\n"
    )
    call = asyncio.create_task(run([sys.executable, "-c", program], tmp_path, 900, ENVIRONMENT))
    async with asyncio.timeout(120):
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


@pytest.mark.parametrize("run", [run_process, run_forked])
async def test_a_call_that_is_cancelled_early_leaves_no_process(tmp_path: Path, run: Run) -> None:
    for steps in range(12):
        argv = [sys.executable, "-c", "import time; time.sleep(1000)"]
        call = asyncio.create_task(run(argv, tmp_path, 900, ENVIRONMENT))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await asyncio.sleep(0.5)  # what was not killed would have started by now
    assert str(tmp_path) not in {folder for _, folder in read_links("cwd")}
