"""Honest webhooks from a process of its own, whose cost is not the server's latency.

`python -m tests.benchmarks.bot.send` reads a `Timetable` and prints the `Load`, both JSON.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tests.benchmarks.bot.load import Load, build_delivery, send_on_timetable


@dataclass(frozen=True)
class Timetable:
    """Deliveries by number, so many a second; see `send_on_timetable`."""

    port: int
    numbers: Sequence[int]
    per_second: float


async def send_apart(port: int, numbers: Sequence[int], per_second: float) -> Load:
    """`send_on_timetable` in another process.

    Raises:
        RuntimeError: that process failed.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.bot.send", stdin=pipe, stdout=pipe
    )
    asked = json.dumps(asdict(Timetable(port, list(numbers), per_second))).encode()
    out, _ = await process.communicate(asked)
    if process.returncode:
        raise RuntimeError(f"the sender ended with {process.returncode}")
    found = json.loads(out)
    statuses = {int(status): count for status, count in found.pop("statuses").items()}
    return Load(statuses=statuses, **found)


async def _send(timetable: Timetable) -> Load:
    deliveries = [build_delivery(number) for number in timetable.numbers]
    began = time.process_time()
    load = await send_on_timetable(timetable.port, deliveries, timetable.per_second)
    load.processor_seconds = time.process_time() - began
    return load


def main() -> None:
    load = asyncio.run(_send(Timetable(**json.load(sys.stdin))))
    json.dump(asdict(load), sys.stdout)


if __name__ == "__main__":
    main()
