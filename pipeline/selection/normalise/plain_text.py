"""Logical lines, and how to split text of a kind without a grammar."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HASH_COMMENTS = re.compile(
    r"(?:^|/)(?:Makefile|Dockerfile)$|\.(?:sh|ya?ml|toml|cfg|ini|pl|r|mk|cmake)$"
)
"""Files in which a line that begins with `#` is a comment."""


@dataclass(frozen=True)
class LogicalLine:
    """One logical line."""

    tokens: tuple[str, ...]
    """Where indentation matters, the first token is a NUL followed by its width."""
    lines: tuple[int, ...] = field(compare=False)
    """The physical line of each token, from 0."""


def split_plain_text(text: str, path: str) -> tuple[LogicalLine, ...]:
    """Split files of a kind without a grammar into lines of words."""
    hashed = bool(_HASH_COMMENTS.search(path))
    units: list[LogicalLine] = []
    for number, line in enumerate(text.split("\n")):
        words = line.split()
        if not words or (hashed and words[0].startswith("#") and not words[0].startswith("#!")):
            continue
        width = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        tokens = (f"\0{width}", *words)
        units.append(LogicalLine(tokens, (number,) * len(tokens)))
    return tuple(units)
