"""Fuzz parsers: `python -m tests.fuzz [--only NAME,NAME] [--seconds 60] [--jobs 2] [--seed N]`.

Each target has a process of its own, in which atheris (libFuzzer for Python) looks for inputs that
reach new code. A failure is an exception that the parser does not document, more than
`Target.seconds` of processor time, or more than 256 MiB; its input stays in build/fuzz. Inputs that
are slow under the fuzzer's instrumentation are timed again without it; `--allow-slow` shows them
without failing, for a machine that others use too. `--seed` draws the same inputs again; without
it they are others each time. Exits 1 after a failure, and 2 where atheris is not installed: then
nothing was fuzzed.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Final

from tests.fuzz.target import CORPUS

FOUND: Final = Path("build/fuzz")
NAMES: Final = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
START_SECONDS: Final = 120
_RUNS: Final = re.compile(r"Done (\d+) runs in")


@dataclass(frozen=True)
class Report:
    name: str
    seconds: float
    runs: int
    failure: str = ""
    """The last lines of what the fuzzer printed."""
    slow: str = ""
    """What an input that took too long says of itself."""


def fuzz(name: str, seconds: int, seed: int) -> Report:
    """Fuzz one target, then time its slow inputs without instrumentation."""
    folder = FOUND / name
    folder.mkdir(parents=True, exist_ok=True)
    for slow in folder.glob("slow-*"):
        slow.unlink()
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.one", name, str(seconds), str(seed), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds + START_SECONDS,
            check=False,
        )
        output, code = done.stdout.decode("utf-8", "replace"), done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = (error.stdout or b"").decode("utf-8", "replace") + "\nit hung", 1
    counted = _RUNS.search(output)
    failure = "" if code == 0 and counted else "\n".join(output.splitlines()[-40:])
    paths = sorted(folder.glob("slow-*"))
    slow = replay(name, paths) if paths and not failure else ""
    runs = int(counted[1]) if counted else 0
    return Report(name, time.monotonic() - began, runs, failure, slow)


def replay(name: str, paths: list[Path]) -> str:
    """What is wrong with these inputs, each parsed once without a fuzzer; empty if nothing is."""
    argv = [sys.executable, "-m", "tests.fuzz.one", "--replay", name, *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--only", type=lambda text: text.split(","), default=NAMES)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--allow-slow", action="store_true")
    options = parser.parse_args()
    names: list[str] = options.only
    seconds: int = options.seconds
    seed: int = options.seed
    if unknown := set(names) - set(NAMES):
        parser.error(f"{', '.join(sorted(unknown))} is not one of {', '.join(NAMES)}")
    if importlib.util.find_spec("atheris") is None:
        sys.stderr.write("fuzz: NOT RUN: atheris has no wheel for this machine.\n")
        return 2
    told: list[Report] = []
    failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        for report in pool.map(fuzz, names, repeat(seconds), repeat(seed)):
            fails = report.failure or (report.slow and not options.allow_slow)
            state = "FAILED" if fails else "slow" if report.slow else "ok"
            figures = f"{report.runs:>9,} runs {report.seconds:>6.1f} s"
            sys.stdout.write(f"{report.name:<12} {figures}  {state}\n")
            sys.stdout.flush()
            if report.failure or report.slow:
                told.append(report)
            failed = failed or bool(fails)
    for report in told:
        why = report.failure or report.slow
        sys.stdout.write(f"\n{report.name}: inputs are in {FOUND / report.name}\n{why}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
