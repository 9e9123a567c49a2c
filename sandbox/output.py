"""The output of a program that may print without end: its head and tail, and its size."""

from __future__ import annotations


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
        """Decoded as UTF-8 with replacement; a sentence replaces the middle that was cut."""
        self._trim()
        left_out = self.total - len(self._head) - len(self._tail)
        if not left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head = self._head.decode("utf-8", "replace")
        tail = self._tail.decode("utf-8", "replace")
        return f"{head}\n[... {left_out} bytes of output left out here ...]\n{tail}"
