"""`python -m tests.benchmarks.bot.attack PORT PER_SECOND SECONDS`: forged, slow and huge webhooks.

Prints how many had an answer, and the processor time that the attack took.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable

from tests.benchmarks.bot.load import build_head, read_answer, sign

FORGED = "sha256=" + "0" * 64
HUGE = 20 * 1024 * 1024
LARGE_SHARE = 0.02
"""Of the hostile deliveries; each sends 20 MiB, which costs the machine as well."""
PATIENCE = 30


async def attack(port: int, per_second: int, seconds: int) -> int:
    """Start so many hostile connections a second; how many of them got an answer."""
    chance = random.Random(16)
    kinds: list[Callable[[int], Awaitable[int]]] = [_send_forged, _drip_headers, _drip_body]
    tasks: list[asyncio.Task[int]] = []
    for _ in range(per_second * seconds):
        kind = _send_huge if chance.random() < LARGE_SHARE else chance.choice(kinds)
        tasks.append(asyncio.ensure_future(_try(kind, port)))
        await asyncio.sleep(1 / per_second)
    return sum(await asyncio.gather(*tasks))  # noqa: TID251 - none of them fails


async def _try(kind: Callable[[int], Awaitable[int]], port: int) -> int:
    try:
        async with asyncio.timeout(PATIENCE):
            return await kind(port)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return 0


async def _send(port: int, *pieces: bytes, pause: float = 0.0) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        await read_answer(reader)
    finally:
        writer.transport.abort()
    return 1


async def _send_forged(port: int) -> int:
    return await _send(port, build_head(FORGED, 12_000, 0) + b"x" * 12_000)


async def _drip_headers(port: int) -> int:
    return await _send(port, *[b"P", b"O", b"S", b"T", b" "] * 5, pause=1.0)


async def _drip_body(port: int) -> int:
    return await _send(port, build_head(sign(b""), 10_000, 0), *[b"x"] * 25, pause=1.0)


async def _send_huge(port: int) -> int:
    piece = b"x" * (1024 * 1024)
    return await _send(port, build_head(FORGED, HUGE, 0), *[piece] * (HUGE // len(piece)))


def main() -> None:
    port, per_second, seconds = map(int, sys.argv[1:])
    answers = asyncio.run(attack(port, per_second, seconds))
    sys.stdout.write(json.dumps({"answers": answers, "processor_seconds": time.process_time()}))


if __name__ == "__main__":
    main()
