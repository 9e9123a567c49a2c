"""What Redis was asked: commands, those inside scripts among them, and bytes either way."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis


@dataclass
class Traffic:
    """Filled in when the block ends."""

    commands: int = 0
    sent: int = 0
    answered: int = 0

    @property
    def kilobytes(self) -> float:
        return (self.sent + self.answered) / 1000


@asynccontextmanager
async def count_traffic(redis: Redis) -> AsyncGenerator[Traffic]:
    """Count what the block asks of the server, which nobody else may use meanwhile."""
    before, traffic = await _read(redis), Traffic()
    yield traffic
    after, again = await _read(redis), await _read(redis)
    counts = [
        # Less what one look costs.
        (after[part] - before[part]) - (again[part] - after[part])
        for part in ("total_commands_processed", "total_net_input_bytes", "total_net_output_bytes")
    ]
    traffic.commands, traffic.sent, traffic.answered = counts


async def _read(redis: Redis) -> dict[str, int]:
    facts = await redis.info("stats")
    return {name: int(value) for name, value in facts.items() if name.startswith("total_")}
