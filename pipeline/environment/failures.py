"""Classifies failures of tests by their runner's output. The output is untrusted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from pipeline.environment.health import OTHER

MOST_BLOCKS: Final = 500
_BLOCK: Final = re.compile(
    r"^(?:_{3,} .{1,300} _{3,}|={3,}\n(?:ERROR|FAIL): .{1,300})$", re.MULTILINE
)
"""The first line of pytest's and unittest's output about one failure."""
_ERROR_LINE: Final = re.compile(
    r"^(?:E {1,8})?(?:[\w.]{1,100}(?:Error|Exception|Warning|Exit)\b.{0,300})", re.M
)
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d+")
LONGEST_ERROR: Final = 200
_PYTEST_ASSERTION: Final = re.compile(r"^E {1,8}assert ", re.MULTILINE)
KINDS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "network",
        re.compile(
            r"Temporary failure in name resolution|Name or service not known|getaddrinfo failed"
            r"|Network is unreachable|Failed to establish a new connection|NewConnectionError"
            r"|ConnectionRefusedError|No address associated with hostname|nodename nor servname"
        ),
    ),
    (
        "display",
        re.compile(
            r"(?i:no display name and no \$DISPLAY|(?:could|ca)n.t connect to display"
            r"|cannot connect to X server|could not connect to display"
            r"|(?:unable to|cannot) open display)|KeyError: 'DISPLAY'"
        ),
    ),
    ("missing module", re.compile(r"ModuleNotFoundError|No module named")),
    ("import error", re.compile(r"ImportError|cannot import name|DistributionNotFound")),
    ("syntax", re.compile(r"SyntaxError|IndentationError")),
    ("fixture or plugin", re.compile(
        r"fixture '.{1,100}' not found|PluginValidationError|unrecognized arguments|INTERNALERROR"
        r"|unknown hook|UsageError|PytestRemovedIn|PytestDeprecationWarning"
    )),
    ("timeout", re.compile(r"Timeout(?:Error|Expired)?\b")),
    ("assertion", re.compile(r"AssertionError|^E {1,8}assert |DID NOT RAISE", re.MULTILINE)),
)  # fmt: skip
"""Kinds by their last error line; the first match counts."""


def count_kinds(output: str) -> dict[str, int]:
    """How many failures of each kind `output` shows; those of no known kind are `OTHER`."""
    found: Counter[str] = Counter()
    for number, block in enumerate(_blocks(output)):
        if number >= MOST_BLOCKS:
            break
        found[kind_of(block)] += 1
    if not found and (kind := kind_of(output)) != OTHER:
        found[kind] = 1
    return dict(found.most_common())


def find_commonest_error(output: str) -> tuple[str, int]:
    """The error that most failures in `output` end with, and how many do; empty and 0 where none is
    told. Untrusted."""
    blocks = islice(_blocks(output), MOST_BLOCKS)
    errors = [error for block in blocks if (error := _last_error(block))]
    alike = Counter(map(_mask_numbers, errors))
    commonest = max(errors, key=lambda error: alike[_mask_numbers(error)], default="")
    return commonest[:LONGEST_ERROR], alike[_mask_numbers(commonest)]


def kind_of(block: str) -> str:
    """The kind of one failure."""
    lines = [match[0] for match in _ERROR_LINE.finditer(block)]
    told = "\n".join([*lines[-6:], *(m[0] for m in _PYTEST_ASSERTION.finditer(block))])
    for kind, pattern in KINDS:
        if pattern.search(told or block):
            return kind
    return OTHER


def _last_error(block: str) -> str:
    """What pytest marks last in `block`, by its first line; else the last line of an error."""
    last, marked_before = "", False
    for line in block.splitlines():
        marked = line.startswith("E  ")
        if marked and not marked_before:
            last = line[1:]
        marked_before = marked
    for match in () if last else _ERROR_LINE.finditer(block):
        last = match[0]
    printed = (char if char.isprintable() else " " for char in last)
    return " ".join("".join(printed).split())


def _mask_numbers(error: str) -> str:
    """`error` without what differs from test to test, such as addresses."""
    return _NUMBER.sub("0", error)


def _blocks(output: str) -> Iterator[str]:
    starts = [match.start() for match in _BLOCK.finditer(output)]
    for start, end in zip(starts, [*starts[1:], len(output)], strict=False):
        yield output[start:end]
