"""How long a prompt cache should keep what we write: five minutes are cheaper, an hour is safer."""

from __future__ import annotations

from typing import Literal

from pipeline.options import Options

FIVE_MINUTES = 300
HOUR = 3600
REPLY_SECONDS = 90.0
"""Seconds for a long reply, including the wait for a slot."""


def cache_lifetime(options: Options) -> Literal[300, 3600]:
    """Seconds, from the longest pause between two requests of one machine.

    Every read renews the entry, so only the longest pause counts, not the whole run: one script at
    its limit, or the nearby tests without and with an edit at theirs, plus a reply. A batch is a
    far longer pause. Writing for an hour costs 2 times the input price instead of 1.25; missing the
    cache costs 1.25 times instead of 0.1.
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    if options.batch:
        return HOUR
    pause = max(options.execution_seconds, 2 * options.nearby_seconds) + REPLY_SECONDS
    return FIVE_MINUTES if pause <= FIVE_MINUTES else HOUR
