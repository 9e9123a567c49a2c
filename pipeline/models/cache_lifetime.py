"""How long a prompt cache should keep what we write: five minutes are cheaper, an hour is safer."""

from __future__ import annotations

from typing import Literal

from pipeline.options import Options

FIVE_MINUTES = 300
HOUR = 3600
REPLY_SECONDS = 90.0
"""What a long reply takes, the wait for a slot included."""


def cache_lifetime(options: Options) -> Literal[300, 3600]:
    """Seconds, by the longest time between two questions of one machine.

    Every read renews what is read, so that only the longest pause counts, not the whole run: one
    script at its limit, or the near tests without and with an edit at theirs, and a reply. A batch
    is a longer pause by far. A write
    for an hour costs 2 times the input price instead of 1.25, a lost cache 1.25 instead of 0.1.
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    if options.batch:
        return HOUR
    pause = max(options.execution_seconds, 2 * options.nearby_seconds) + REPLY_SECONDS
    return FIVE_MINUTES if pause <= FIVE_MINUTES else HOUR
