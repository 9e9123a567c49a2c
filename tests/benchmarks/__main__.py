"""`python -m tests.benchmarks [--only NAME,NAME]`: run, print tables, write build/bench.json."""

import argparse
import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path

from tests.benchmarks.bot import flood, pickup, poll, scale, start, webhook
from tests.benchmarks.context import recall
from tests.benchmarks.pipeline import control, explore, filtering, paper_table1, training
from tests.benchmarks.sandbox import languages, matrix
from tests.benchmarks.table import Row, render, write

BENCHMARKS: dict[str, Callable[[], Coroutine[None, None, list[Row]]]] = {
    "start": start.measure,
    "webhook": webhook.measure,
    "flood": flood.measure,
    "pickup": pickup.measure,
    "poll": poll.measure,
    "scale": scale.measure,
    "recall": recall.measure,
    "table1": paper_table1.measure,
    "control": control.measure,
    "explore": explore.measure,
    "filtering": filtering.measure,
    "training": training.measure,
    "languages": languages.measure,
    "matrix": matrix.measure,
}


def _names(text: str) -> list[str]:
    """The benchmarks that `text` names.

    Raises:
        ArgumentTypeError: one of them does not exist.
    """
    names = text.split(",")
    if unknown := [name for name in names if name not in BENCHMARKS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(BENCHMARKS)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", type=_names, default=[*BENCHMARKS], help="names, with commas")
    only: list[str] = parser.parse_args().only
    rows: list[Row] = []
    failed: list[str] = []
    for name in only:
        sys.stderr.write(f"bench: {name}\n")
        try:
            measured = asyncio.run(BENCHMARKS[name]())
        except Exception:  # noqa: BLE001 - the others are measured all the same
            traceback.print_exc()
            failed.append(name)
            continue
        sys.stdout.write(render(measured) + "\n")
        sys.stdout.flush()
        rows += measured
        write(rows, Path("build/bench.json"))
    if failed:
        sys.stderr.write(f"bench: {', '.join(failed)} failed; see above.\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
