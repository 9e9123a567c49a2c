"""What a fuzzer calls, what counts as a failure, and where its inputs are kept."""

import gc
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
MOST_SECONDS: Final = 1.0
"""Of processor time for one input: a parser that takes longer stalls the others."""
MOST_GROWTH: Final = 256 * 1024
"""KiB by which one process may grow."""


class Stall(Exception):
    """An input took longer than its target permits."""


class Growth(Exception):
    """The process grew beyond `MOST_GROWTH`."""


@dataclass(frozen=True)
class Target:
    """One parser, or several of one format."""

    parse: Callable[[bytes], object]
    """Raises nothing: `parse` itself catches the errors that its parser documents."""
    largest: int = 64 * 1024
    """Bytes of an input; the product reads no larger ones, or cuts them before."""
    seconds: float = MOST_SECONDS
    """More for parsers that run in a process of their own, with a limit."""


def run_once(target: Target, data: bytes) -> float:
    """Seconds of processor time that `target` takes for `data`. Whatever it raises is a defect."""
    began = time.thread_time()
    target.parse(data[: target.largest])
    return time.thread_time() - began


def check(target: Target, data: bytes) -> None:
    """Parse `data` once.

    Raises:
        Stall, Growth: it took too long or too much.
        Exception: the parser's undocumented error.
    """
    before = peak_kib()
    seconds = run_once(target, data)
    if seconds > target.seconds:
        gc.collect()
        # Another try: the collector or the machine may have taken the time.
        seconds = run_once(target, data)
    if seconds > target.seconds:
        raise Stall(f"{seconds:.1f} s for {len(data):,} bytes")
    if (grown := peak_kib() - before) > MOST_GROWTH:
        raise Growth(f"{grown // 1024} MiB for {len(data):,} bytes")


def peak_kib() -> int:
    """The most memory that this process has held, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def list_inputs(name: str) -> list[Path]:
    """The kept inputs of one target."""
    return sorted(path for path in (CORPUS / name).iterdir() if path.is_file())


def split_files(data: bytes) -> dict[str, str]:
    """Several files in one input, each after a line `--- path`."""
    files: dict[str, list[str]] = {}
    path = ""
    for line in data.decode("utf-8", "replace").splitlines(keepends=True):
        if line.startswith("--- "):
            path = line[4:].strip()
            files[path] = []
        elif path:
            files[path].append(line)
    return {path: "".join(lines) for path, lines in files.items()}
