"""The output of a program that may print without end: its head and tail, and its size."""

from __future__ import annotations

LEFT_OUT = " bytes of output left out here ...]"
LONGEST_MARKED = 200
"""Bytes of a marked line."""


class Output:
    """Collects bytes; keeps at most `kept` of them in memory, half from each end."""

    def __init__(self, kept: int) -> None:
        self.total = 0
        self._head_size = (kept + 1) // 2
        self._tail_size = kept // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        # Trimmed at twice the size, so that many small writes do not move the tail each time.
        if len(self._tail) > 2 * self._tail_size:
            self._trim()

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_size)]

    def text(self) -> str:
        """Decoded as UTF-8 with replacement; a sentence replaces the middle that was cut.

        The cut is between lines where there are any.
        """
        self._trim()
        if self.total == len(self._head) + len(self._tail):
            return (self._head + self._tail).decode("utf-8", "replace")
        head = self._head[: self._head.rfind(b"\n") + 1] or self._head
        tail = self._tail[self._tail.find(b"\n") + 1 :] or self._tail
        left_out = self.total - len(head) - len(tail)
        first = head.decode("utf-8", "replace").removesuffix("\n")
        last = tail.decode("utf-8", "replace")
        return f"{first}\n[... {left_out}{LEFT_OUT}\n{last}"


class MarkedLines:
    """Finds lines that begin with a mark in output that comes in pieces."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._rest = b""

    def find_latest(self, data: bytes) -> str:
        """The end of the latest whole line in `data` that begins with the mark; else empty."""
        text = self._rest + data
        self._rest = text[-LONGEST_MARKED:]
        start = text.rfind(b"\n" + self._mark)
        end = text.find(b"\n", start + 1)
        if start < 0 or not 0 < end - start <= LONGEST_MARKED:
            return ""
        self._rest = text[end:][-LONGEST_MARKED:]
        return text[start + 1 + len(self._mark) : end].decode("ascii", "replace")
