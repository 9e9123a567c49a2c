"""Finds secrets in text and files, also where they are encoded, reversed, packed or broken up.

It runs inside build containers too: standard library only.
"""

from __future__ import annotations

import base64
import bz2
import contextlib
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator
from urllib.parse import quote

REDACTED = "***"
_SPACE = re.compile(r"\\[nrt]|\s")
_CHARACTER = re.compile(_SPACE.pattern + "|(.)")
_STARTS = r"(?:H4sI|eJ|eN|eA|eF|Qlpo|/Td6WFo|1f8b08|789c)"
_PACKED = re.compile(_STARTS + r"[A-Za-z0-9+/_=\s-]{16,}")
"""Base64 or hex of gzip, zlib, bz2 and xz."""


def spell(secret: str) -> list[str]:
    """The ways to write `secret` that are recognised, the longest first."""
    found: set[str] = set()
    for text in (secret, secret[::-1]):
        data = text.encode()
        found |= {text, quote(text, safe=""), data.hex(), data.hex().upper()}
        found |= {"".join(f"%{byte:02x}" for byte in data), "".join(f"%{b:02X}" for b in data)}
        for start in range(3):
            whole = base64.b64encode(bytes(start) + data).decode()
            # Without the characters that also hold bits of the neighbours.
            inner = whole[-(-start * 8 // 6) : (start + len(data)) * 8 // 6]
            found |= {inner, inner.replace("+", "-").replace("/", "_")}
    return sorted(found, key=len, reverse=True)


class SecretFinder:
    """Finds any of some secrets; each has at least a few characters."""

    def __init__(self, secrets: Iterable[str]) -> None:
        ways = {"".join(way.split()) for secret in secrets if secret for way in spell(secret)}
        self.spellings = sorted(filter(None, ways), key=len, reverse=True)

    def redact(self, text: str, by: str = REDACTED) -> str:
        """`text` without the secrets, also those with white space or line ends between."""
        if not self.spellings:
            return text
        close = _SPACE.sub("", text)
        if not any(way in close for way in self.spellings) and not _PACKED.search(text):
            return text
        at = [match.start() for match in _CHARACTER.finditer(text) if match[1]]
        spans: list[tuple[int, int]] = []
        for way in self.spellings:
            found = close.find(way)
            while found >= 0:
                spans.append((at[found], at[found + len(way) - 1] + 1))
                found = close.find(way, found + len(way))
        spans += [m.span() for m in _PACKED.finditer(text) if self._is_packed(m[0])]
        parts: list[str] = []
        end = 0
        for first, last in sorted(spans):
            if first >= end:
                parts += [text[end:first], by]
            end = max(end, last)
        return "".join([*parts, text[end:]])

    def finds(self, data: bytes) -> bool:
        """Whether `data` holds a secret."""
        return self._finds_plain(data) or any(map(self._finds_plain, unpack(data)))

    def holds_packed(self, data: bytes) -> bool:
        """Whether `data` holds a secret in packed and encoded text."""
        text = data.decode("latin-1")
        return any(self._is_packed(match[0]) for match in _PACKED.finditer(text))

    def _finds_plain(self, data: bytes) -> bool:
        close = b"".join(data.split())
        return any(way.encode() in data or way.encode() in close for way in self.spellings)

    def _is_packed(self, text: str) -> bool:
        close = "".join(text.split())
        for number, start in enumerate(re.finditer(_STARTS, close)):
            if number >= 500:
                return True
            for data in _decode(close[start.start() :][:100_000]):
                if any(map(self._finds_plain, unpack(data))):
                    return True
        return False


def _decode(text: str) -> Iterator[bytes]:
    digits = len(text) - len(text.lstrip("0123456789abcdefABCDEF"))
    yield bytes.fromhex(text[: digits // 2 * 2])
    text = text.replace("-", "+").replace("_", "/").rstrip("=")
    with contextlib.suppress(ValueError):
        yield base64.b64decode(text[: len(text) // 4 * 4])


def unpack(data: bytes) -> Iterator[bytes]:
    """The beginning of what `data` holds if it is packed."""
    packers = (
        (b"\x1f\x8b", lambda: zlib.decompressobj(31)),
        (b"\x78", zlib.decompressobj),
        (b"BZh", bz2.BZ2Decompressor),
        (b"\xfd7zXZ", lambda: lzma.LZMADecompressor(memlimit=64 << 20)),
    )
    for magic, make in packers:
        if data.startswith(magic):
            try:
                yield make().decompress(data, 1 << 20)
            except (zlib.error, OSError, lzma.LZMAError, EOFError, ValueError):
                continue
