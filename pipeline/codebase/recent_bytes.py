"""Bytes that were used not long ago."""

from collections import OrderedDict


class RecentBytes:
    """The values that were added or asked for last, up to `most` bytes in all.

    A value above a sixteenth of that is not kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def get(self, key: str) -> bytes | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def add(self, key: str, value: bytes) -> None:
        if key in self._values or len(value) > self._most // 16:
            return
        self._values[key] = value
        self._size += len(value)
        while self._size > self._most:
            self._size -= len(self._values.popitem(last=False)[1])
