"""Requirement files of the checkout, flat."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandbox.guest.installer.index import normalise_name

MAX_DEPTH = 10
MAX_BYTES = 1024 * 1024
NESTED = re.compile(r"(?:-r|--requirement)[\s=]*(\S+)$")
EDITABLE = re.compile(r"(?:-e|--editable)[\s=]*(\S+)$")
OWN = re.compile(r"(?:(?:-e|--editable)[\s=]*)?\./?\[([\w.,\s-]+)\]$", re.ASCII)


def name_of(requirement: str) -> str:
    """The normalised name in front of a requirement."""
    return normalise_name(re.split(r"[<>=!~;\[\s@(]", requirement.strip())[0])


def flatten(names: Sequence[str], root: Path, own: str = "", depth: int = 0) -> list[str]:
    """The requirements in files of the checkout, without options and without itself; of that, named
    `own`, only its extras."""
    found: list[str] = []
    for name in names:
        for line in read_lines(root / name):
            nested = NESTED.match(line)
            if nested and depth < MAX_DEPTH:
                inner = os.path.normpath(Path(name).parent / nested[1])
                found += flatten([inner], root, own, depth + 1)
                continue
            if own and (extras := OWN.match(line)):
                found.append(f"{own}[{extras[1]}]")
                continue
            editable = EDITABLE.match(line)
            if editable and "://" in editable[1]:
                line = as_direct_reference(editable[1])
            if line and not line.startswith(("-", ".", "/")):
                found.append(line)
    return found


def as_direct_reference(address: str) -> str:
    """`git+https://…#egg=name` as `name @ git+https://…`; empty without a name."""
    match = re.match(r"([^#]+)#egg=([\w.-]+)", address)
    return f"{match[2]} @ {match[1]}" if match else ""


def read_lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as source:
            text = source.read(MAX_BYTES)
    except OSError:
        return
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        yield re.sub(r"\s+--hash=\S+", "", re.sub(r"(^|\s)#.*", "", line)).strip()


def without(requirements: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of other packages, and those of `names`."""
    dropped = [one for one in requirements if name_of(one) in set(names)]
    return [one for one in requirements if one not in dropped], dropped
