"""Text in and out of a file's bytes without changing what was not touched."""

from __future__ import annotations

import codecs
import io
import tokenize
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A file's text, and how to turn text back into such a file's bytes."""

    text: str
    """With the file's own line endings; without its byte order mark."""
    encoding: str = "utf-8"
    mark: bool = False
    """Whether the file begins with a UTF-8 byte order mark."""

    def encoded(self, text: str) -> bytes:
        """`text` as bytes of the same kind of file.

        Raises:
            UnicodeEncodeError: the file's encoding cannot express it.
        """
        return (codecs.BOM_UTF8 if self.mark else b"") + text.encode(self.encoding)


def decoded(path: str, data: bytes) -> Text | None:
    """`data` as text: UTF-8, or what a Python file declares (PEP 263), or Latin-1.

    None for binary content, known by a NUL among its first 8000 bytes (as git does).
    """
    if b"\0" in data[:8000]:
        return None
    mark = data.startswith(codecs.BOM_UTF8)
    data = data.removeprefix(codecs.BOM_UTF8)
    for encoding in ("utf-8", _declared(path, data), "latin-1"):
        try:
            text = data.decode(encoding)
            if text.encode(encoding) == data:
                return Text(text, encoding, mark)
        except (UnicodeError, LookupError):
            continue
    return None


def _declared(path: str, data: bytes) -> str:
    if not path.endswith((".py", ".pyi")):
        return "latin-1"
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError:
        return "latin-1"


def shortened(text: str, characters: int) -> str:
    """`text`, its middle replaced by a note when it is longer than `characters`."""
    if len(text) <= characters:
        return text
    half = characters // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"
