"""Fuzz parsers: `python -m tests.fuzz [--only NAME,NAME] [--seconds 60] [--jobs 2] [--seed N]`.

Each target has a process of its own, in which atheris (libFuzzer for Python) looks for inputs that
reach new code. All are forks of one that has instrumented the parsers. A failure is an exception
that the parser does not document, more than `Target.seconds` of processor time, or more than
256 MiB; its input stays in build/fuzz. Inputs that are slow under the fuzzer's instrumentation are
timed again without it. `--seed` draws the same inputs again, and begins with the kept ones;
without it they are others each time, and begin with what earlier runs found. `--quick` is for a
change under test: a second for each target or, without `--seconds`, 500 inputs if that is less;
seed 1, inputs of at most 16 KiB; slow ones are shown without failing, as the machine may be busy.
Exits 1 after a failure, and 2 where atheris is not installed: then nothing was fuzzed.
"""

import argparse
import ctypes
import importlib.util
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final

from tests.fuzz.one import Plan
from tests.fuzz.one import fuzz as fuzz_in_child
from tests.fuzz.target import CORPUS

FOUND: Final = Path("build/fuzz")
NAMES: Final = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
START_SECONDS: Final = 120
QUICK_BYTES: Final = 16 * 1024
QUICK_RUNS: Final = 500
_NO_RANDOM_ADDRESSES: Final = 0x0040000
"""ADDR_NO_RANDOMIZE of <sys/personality.h>."""
_RUNS: Final = re.compile(r"Done (\d+) runs in")


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    names: list[str]
    seconds: int
    jobs: int
    seed: int
    quick: bool
    runs: int = -1
    """Inputs for each target; -1: as many as the time allows."""


@dataclass(frozen=True)
class Report:
    name: str
    seconds: float
    runs: int
    failure: str = ""
    """The last lines of what the fuzzer printed."""
    slow: str = ""
    """What an input that took too long says of itself."""


def fuzz(name: str, options: Options, context: ForkServerContext) -> Report:
    """Fuzz one target, then time its slow inputs without instrumentation."""
    plan = prepare(name, options)
    child = context.Process(target=fuzz_in_child, args=(plan,))
    child.start()  # the first ones wait here for the instrumentation
    began = time.monotonic()
    child.join(options.seconds + START_SECONDS)
    hung = child.is_alive()
    if hung:
        child.kill()
        child.join()
    output = plan.output.read_text("utf-8", "replace") + ("\nit hung" if hung else "")
    counted = _RUNS.search(output)
    passed = child.exitcode == 0 and counted
    failure = "" if passed else "\n".join(output.splitlines()[-40:])
    paths = sorted(plan.folder.glob("slow-*"))
    slow = replay(name, paths) if paths and not failure else ""
    runs = int(counted[1]) if counted else 0
    return Report(name, time.monotonic() - began, runs, failure, slow)


def prepare(name: str, options: Options) -> Plan:
    """Make the target's folder, without what an earlier run would add to this one."""
    folder = FOUND / name
    folder.mkdir(parents=True, exist_ok=True)
    for slow in folder.glob("slow-*"):
        slow.unlink()
    grown = folder / ("seeded" if options.seed else "corpus")
    if options.seed:  # what an earlier run found would lead to other inputs
        shutil.rmtree(grown, ignore_errors=True)
    grown.mkdir(exist_ok=True)
    output = folder / "output"
    output.write_bytes(b"")
    most = QUICK_BYTES if options.quick else sys.maxsize
    return Plan(name, options.seconds, options.runs, options.seed, most, folder, grown, output)


def replay(name: str, paths: list[Path]) -> str:
    """What is wrong with these inputs, each parsed once without a fuzzer; empty if nothing is."""
    argv = [sys.executable, "-m", "tests.fuzz.one", name, *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def read_options(argv: list[str]) -> Options:
    """What `argv` asks for; exits if it names no target."""
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--only", type=lambda text: text.split(","), default=NAMES)
    parser.add_argument("--seconds", type=int, help="for each target: 60, with --quick 1")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, help="without it another one each time; --quick: 1")
    parser.add_argument("--quick", action="store_true", help="the same short inputs each time")
    given = parser.parse_args(argv)
    names: list[str] = given.only
    if unknown := set(names) - set(NAMES):
        parser.error(f"{', '.join(sorted(unknown))} is not one of {', '.join(NAMES)}")
    quick: bool = given.quick
    seconds: int = given.seconds or (1 if quick else 60)
    runs = QUICK_RUNS if quick and not given.seconds else -1
    return Options(names, seconds, given.jobs, given.seed or int(quick), quick, runs)


def start_server(options: Options) -> ForkServerContext:
    """The process that instruments the parsers and forks; it has no threads, unlike this one."""
    if options.seed:
        leave_nothing_to_chance(options.seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.fuzz.instrumented"])
    return context


def leave_nothing_to_chance(seed: int) -> None:
    """Fix the order of sets and the addresses of objects for what this process starts.

    Both lead to other inputs. Some containers forbid the second; then most inputs are the same.
    """
    os.environ["PYTHONHASHSEED"] = str(seed)  # noqa: TID251 - of the process that forks
    ctypes.CDLL(None).personality(_NO_RANDOM_ADDRESSES)


def show(report: Report, failed: bool) -> None:
    """Print a target's line."""
    state = "FAILED" if failed else "slow" if report.slow else "ok"
    figures = f"{report.runs:>9,} runs {report.seconds:>6.1f} s"
    sys.stdout.write(f"{report.name:<12} {figures}  {state}\n")
    sys.stdout.flush()


def main() -> int:
    options = read_options(sys.argv[1:])
    if importlib.util.find_spec("atheris") is None:
        sys.stderr.write("fuzz: NOT RUN: atheris has no wheel for this machine.\n")
        return 2
    context = start_server(options)
    told: list[Report] = []
    any_failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        for report in pool.map(fuzz, options.names, repeat(options), repeat(context)):
            failed = bool(report.failure or (report.slow and not options.quick))
            show(report, failed)
            if report.failure or report.slow:
                told.append(report)
            any_failed = any_failed or failed
    for report in told:
        why = report.failure or report.slow
        sys.stdout.write(f"\n{report.name}: inputs are in {FOUND / report.name}\n{why}\n")
    return 1 if any_failed else 0


if __name__ == "__main__":
    sys.exit(main())
