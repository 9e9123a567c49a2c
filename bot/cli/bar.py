"""A progress bar for sentences that count, as "the scout has read 120 of 1,400 files"."""

from __future__ import annotations

import re
from typing import NamedTuple

_COUNT = re.compile(r"(?P<done>\d[\d,]*) of (?P<total>\d[\d,]*) files")
_WIDTH = 24


class Drawn(NamedTuple):
    bar: str
    done: bool
    tenth: bool
    """Whether it is (nearly) at a whole tenth: at the beginning and at the end, too."""


def drawn_bar(sentence: str) -> Drawn | None:
    """None for a sentence that does not count files."""
    found = _COUNT.search(sentence)
    if found is None:
        return None
    done, total = (int(found[name].replace(",", "")) for name in ("done", "total"))
    full = _WIDTH * done // max(1, total)
    near = done == total or done % max(1, total // 10) < max(1, total // 100)
    return Drawn(f"[{'#' * full}{'.' * (_WIDTH - full)}]", done >= total, near)
