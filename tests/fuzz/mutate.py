"""Mutations that libFuzzer lacks: long repetitions, where slow parsers show, and words."""

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

_WORD: Final = re.compile(rb"[A-Za-z_]+|[^\w\s]+|\s+|\d+")
_HOSTILE: Final = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xae", b"9" * 5_000, b"-1", b"1e999", b"NaN",
    b"\\u", b"null", b"[", b"{", b"\"", b"'", b"\n", b"\r\n", b"\t", b" ", b"../", b"/dev/null",
    b"<", b"&",
)  # fmt: skip
_LONG: Final = 4096
Mutate = Callable[[bytes, int], bytes]


def mutate(data: bytes, most: int, seed: int, plain: Mutate) -> bytes:
    """`data` changed once, at most `most` bytes of it. `plain` is libFuzzer's own mutation."""
    chance = random.Random(seed)
    if len(data) > _LONG and chance.random() < 0.8:  # long inputs take the time of many short ones
        begin = chance.randrange(len(data) - _LONG)
        data = data[begin : begin + _LONG]
    kind = chance.randrange(8)
    if kind == 0:
        return _repeat(data, most, chance)
    if kind in (1, 2) and data:
        return _swap_words(data, chance)[:most]
    if kind == 3:
        at = chance.randrange(len(data) + 1)
        return (data[:at] + chance.choice(_HOSTILE) + data[at:])[:most]
    return plain(data, most)


def _repeat(data: bytes, most: int, chance: random.Random) -> bytes:
    """Repeat a piece a few or very many times."""
    begin = chance.randrange(len(data) + 1)
    piece = data[begin : begin + chance.choice((1, 1, 2, 4, 16, 64, 400))] or b" "
    room = max(1, (most - len(data)) // len(piece))
    times = min(room, chance.choice((2, 2, 30, 30, 1_000, room)))
    return (data[:begin] + piece * times + data[begin:])[:most]


def _swap_words(data: bytes, chance: random.Random) -> bytes:
    """Replace one word of the input by another, or leave one out."""
    start = chance.randrange(max(1, len(data) - 2_000))
    words: Sequence[re.Match[bytes]] = list(_WORD.finditer(data, start, start + 2_000))
    if not words:
        return data
    old, new = chance.choice(words), chance.choice(words)
    put = b"" if chance.random() < 0.3 else new[0]
    return data[: old.start()] + put + data[old.end() :]
