"""Decodes a file's bytes and back; glob patterns of paths."""

import codecs
import io
import re
import tokenize
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import translate

_BOMS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}


@dataclass(frozen=True)
class Text:
    """A file's text, and how to encode it again."""

    text: str
    """With the file's own line endings; without its byte order mark."""
    encoding: str = "utf-8"
    bom: bool = False
    """Whether the file begins with the byte order mark of its encoding."""

    def encode(self, text: str) -> bytes:
        """Encode `text` for the same kind of file.

        Raises:
            UnicodeEncodeError: the file's encoding cannot express it.
        """
        return (_BOMS[self.encoding] if self.bom else b"") + text.encode(self.encoding)


def decode_text(path: str, data: bytes) -> Text | None:
    """Decode `data`: UTF-8, UTF-16 with a mark, a Python file's declared encoding (PEP 263), or
    Latin-1.

    None for binary content: a NUL among the first 8000 bytes, which is git's rule.
    """
    for encoding, mark in _BOMS.items():
        rest = data.removeprefix(mark)
        if rest != data and (text := _decode_as(encoding, rest, mark=True)):
            return text
    if b"\0" in data[:8000]:
        return None
    for encoding in ("utf-8", _encoding_of(path, data), "latin-1"):
        if text := _decode_as(encoding, data, mark=False):
            return text
    return None


def decode_texts(contents: Mapping[str, bytes]) -> dict[str, str]:
    """The texts of those contents that are not binary, by path."""
    texts = {path: decode_text(path, data) for path, data in contents.items()}
    return {path: text.text for path, text in texts.items() if text}


def _decode_as(encoding: str, data: bytes, *, mark: bool) -> Text | None:
    """None unless `data` decodes and encodes back to the same bytes."""
    try:
        text = data.decode(encoding)
        whole = text.encode(encoding) == data and not (mark and "\0" in text[:8000])
    except (UnicodeError, LookupError):
        return None
    return Text(text, encoding, mark) if whole else None


def _encoding_of(path: str, data: bytes) -> str:
    with suppress(SyntaxError):
        if path.endswith((".py", ".pyi")):
            return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    return "latin-1"


class Globs:
    """`*` matches slashes, a folder's pattern covers its contents, and case does not matter."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._compiled = [(pattern, _compile(pattern)) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def first_match(self, path: str) -> str | None:
        """The first pattern that covers `path`, in its original form."""
        folded = path.casefold()
        return next((text for text, regex in self._compiled if regex.fullmatch(folded)), None)


class Wildcards:
    """Shell patterns of a repository's settings, as `fnmatch` reads them, in one expression."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._regex = re.compile("|".join(map(translate, patterns)) or r"(?!)")

    def match(self, name: str) -> bool:
        return self._regex.match(name) is not None


class Places:
    """Files and folders that a repository's settings name, with wildcards."""

    def __init__(self, patterns: Iterable[str]) -> None:
        by_depth: dict[int, list[str]] = {}
        for pattern in (one.removeprefix("./").rstrip("/") for one in patterns):
            depth = pattern.count("/") + 1 if pattern not in (".", "") else 0
            by_depth.setdefault(depth, []).append(pattern if depth else "")
        self._by_depth = {depth: Wildcards(some) for depth, some in by_depth.items()}

    def hold(self, path: str) -> bool:
        """Whether one of them is `path` or a folder above it."""
        parts = path.split("/")
        return any(one.match("/".join(parts[:depth])) for depth, one in self._by_depth.items())


def _compile(pattern: str) -> re.Pattern[str]:
    pattern = pattern.casefold().removeprefix("./").removeprefix("/").rstrip("/")
    forms = (pattern, f"{pattern}/*", pattern.replace("**/", ""))
    # An empty pattern covers nothing, like an empty line of a .gitignore.
    return re.compile("|".join(translate(form) for form in forms if pattern and form) or r"(?!)")
