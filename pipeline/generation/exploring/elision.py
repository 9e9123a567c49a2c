"""Leaves old results out of a long conversation, in blocks, so that its cached prefix lasts."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pipeline.models.base import Message
from pipeline.types import replace

MOST_CHARACTERS = 100_000
"""Of the results shown together; less with a small window."""
SHORT = 400
"""A result of no more characters always stays."""
LEFT_OUT = "[The result of this turn was left out to save room. Run the command again to see it.]\n"


def elide(messages: Sequence[Message], *, opening: int, most: int) -> list[Message]:
    """`messages` as they are sent.

    The rule: once the results together exceed `most` characters, the oldest are left out until half
    of that remains; the newest always stays. So the beginning of the conversation changes rarely,
    and in between every request repeats the one before as its prefix. `opening` messages come
    before the first result. What is left out depends only on the messages so far: a conversation
    that is resumed or replayed is sent as it was.
    """
    shown: deque[int] = deque()
    total = 0
    left_out: set[int] = set()
    for i, message in enumerate(messages):
        if i < opening or message.role != "user" or len(message.text) <= SHORT:
            continue
        shown.append(i)
        total += len(message.text)
        if total <= most:
            continue
        while total > most // 2 and len(shown) > 1:
            oldest = shown.popleft()
            left_out.add(oldest)
            total -= len(messages[oldest].text)
    return [
        replace(message, text=LEFT_OUT) if i in left_out else message
        for i, message in enumerate(messages)
    ]
