"""Secrets are found however they are written."""

import base64
import bz2
import gzip
import lzma
import textwrap
import time
import zlib
from collections.abc import Callable
from urllib.parse import quote

import pytest

from sandbox.guest.spellings import SecretFinder

SECRET = "hunter2-+/9f3c?€"
DATA = SECRET.encode()
FINDER = SecretFinder([SECRET])


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


WAYS: dict[str, Callable[[], str]] = {
    "plain": lambda: SECRET,
    "reversed": lambda: SECRET[::-1],
    "base64": lambda: b64(DATA),
    "base64 among other text": lambda: b64(b"the token: " + DATA + b" is here"),
    "base64 one on": lambda: b64(b"12" + DATA + b"1"),
    "url-safe": lambda: base64.urlsafe_b64encode(b"1" + DATA).decode(),
    "hex": lambda: DATA.hex(),
    "HEX": lambda: DATA.hex().upper(),
    "percent": lambda: quote(SECRET, safe=""),
    "percent all": lambda: "".join(f"%{byte:02X}" for byte in DATA),
    "gzip": lambda: b64(gzip.compress(b"x" * 50 + DATA)),
    "gzip in hex": lambda: gzip.compress(DATA).hex(),
    "zlib": lambda: b64(zlib.compress(b"words " + DATA)),
    "bz2": lambda: b64(bz2.compress(DATA)),
    "xz": lambda: b64(lzma.compress(DATA)),
    "a line each": lambda: "\n".join(SECRET),
    "escaped lines": lambda: "\\n".join(textwrap.wrap(SECRET, 3)),
    "wrapped base64": lambda: "\n".join(textwrap.wrap(b64(b"some text before " + DATA), 7)),
    "wrapped gzip": lambda: "\n".join(textwrap.wrap(b64(gzip.compress(DATA)), 20)),
    "gzip behind a decoy": lambda: "eJ eN H4sI " + b64(gzip.compress(DATA)),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_redacted_and_found(way: str) -> None:
    text = WAYS[way]()
    shown = FINDER.redact(f"before <{text}> after")
    assert "***" in shown
    assert shown.startswith("before <")
    assert shown.endswith("> after")
    for part in (text, SECRET, DATA.hex()):
        assert part not in shown
    held = text.encode()
    assert FINDER.finds(held) or FINDER.holds_packed(held) or way == "escaped lines"


def test_a_packed_file_is_looked_into() -> None:
    assert FINDER.finds(gzip.compress(b"x" * 1000 + DATA))
    assert not FINDER.finds(gzip.compress(b"x" * 1000))


def test_other_text_stays() -> None:
    text = f"Collecting eJ eNvironment {b64(gzip.compress(b'harmless' * 10))}\n\nno secret\t!"
    assert FINDER.redact(text) == text
    assert SecretFinder([]).redact(SECRET) == SECRET


def test_a_megabyte_of_decoys_costs_little() -> None:
    began = time.thread_time()
    for unit in ("eJ", "h ", "h\\n", "H4sIAAAA", "%68"):
        FINDER.redact(unit * (1_000_000 // len(unit)))
    assert time.thread_time() - began < 60
