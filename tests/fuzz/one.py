"""One target in this process, with a fuzzer or without.

`python -m tests.fuzz.one NAME FILE…` parses these inputs once each, without a fuzzer.
"""

import ctypes
import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fuzz.mutate import mutate
from tests.fuzz.target import CORPUS, MOST_GROWTH, Growth, Stall, Target, check, peak_kib, run_once

MOST_SLOW: Final = 5


@dataclass(frozen=True)
class Plan:
    """How to fuzz one target."""

    name: str
    seconds: int
    runs: int
    """As in `Options`."""
    seed: int
    """0: another one each time."""
    most: int
    """Bytes of an input, where the target permits more."""
    folder: Path
    """For inputs that fail or are slow."""
    grown: Path
    """Inputs that reached new code: read at the start, then added to."""
    output: Path


def replay(name: str, paths: list[str]) -> None:
    """Parse these inputs once each; exit with what is wrong with one."""
    from tests.fuzz.targets import TARGETS

    for path in paths:
        try:
            check(TARGETS[name], Path(path).read_bytes())
        except (Stall, Growth) as error:
            sys.exit(f"{path}: {type(error).__name__}: {error}")


def fuzz(plan: Plan) -> None:
    """Fuzz until time or runs are over, then end this process; 0 only if no input failed."""
    _print_to(plan.output)
    from tests.fuzz.instrumented import FUZZER, INSTRUMENTED

    target = INSTRUMENTED[plan.name]
    for path in (CORPUS / plan.name).iterdir():  # so that caches and imports do not count as growth
        run_once(target, path.read_bytes())

    def custom_mutator(data: bytes, most: int, seed: int) -> bytes:
        return mutate(data, most, seed, FUZZER.Mutate)

    argv = [
        "fuzz", str(plan.grown), str(CORPUS / plan.name), f"-max_total_time={plan.seconds}",
        f"-runs={plan.runs}", f"-seed={plan.seed}", f"-max_len={min(plan.most, target.largest)}",
        "-len_control=0", "-reload=0", "-timeout=60", "-rss_limit_mb=4096",
        f"-artifact_prefix={plan.folder}/", "-print_final_stats=0",
    ]  # fmt: skip
    FUZZER.Setup(argv, _make_test(target, plan.folder), custom_mutator=custom_mutator)
    try:
        FUZZER.Fuzz()
    except SystemExit:  # after an exception of the parser
        # libFuzzer keeps the input when C's exit calls it; multiprocessing would not call that.
        sys.stdout.flush()
        ctypes.PyDLL(None).exit(1)


def _print_to(path: Path) -> None:
    """Send all output there: the fuzzer writes to the descriptors, not to Python's streams."""
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def _make_test(target: Target, folder: Path) -> Callable[[bytes], None]:
    """What the fuzzer calls for each input; it keeps slow ones in `folder`."""
    first, slow = peak_kib(), 0

    def test_one_input(data: bytes) -> None:
        nonlocal slow
        taken = run_once(target, data)
        if taken > target.seconds and slow < MOST_SLOW:
            slow += 1
            folder.joinpath(f"slow-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
        if peak_kib() - first > MOST_GROWTH:
            raise Growth(f"{(peak_kib() - first) // 1024} MiB")

    return test_one_input


if __name__ == "__main__":
    replay(sys.argv[1], sys.argv[2:])
