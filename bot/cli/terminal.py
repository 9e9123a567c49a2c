"""Makes untrusted text safe for a terminal or a log; the progress bar."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_FILE_COUNT = re.compile(r"(?P<done>\d[\d,]*) of (?P<total>\d[\d,]*) files")
_BAR_WIDTH = 24


def printable(text: str, *, one_line: bool = False) -> str:
    r"""`text` with control and direction characters escaped, as in `\x1b`.

    An escape sequence could recolour, rewrite or hide what a terminal shows, and a line break could
    forge a line of a log. Line breaks and tabs stay, except with `one_line`.
    """
    return "".join(c if _is_harmless(c, one_line) else _escape(c) for c in text)


def silence_retries() -> None:
    """Do not log retries: structlog would print them to standard output, among the results."""
    from stamina.instrumentation import set_on_retry_hooks

    set_on_retry_hooks([])


def _is_harmless(character: str, one_line: bool) -> bool:
    if character in "\n\t":
        return not one_line
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


class ProgressBar(NamedTuple):
    bar: str
    done: bool
    at_tenth: bool
    """Whether progress is (nearly) at a multiple of 10%, including the start and the end."""


def render_progress_bar(sentence: str) -> ProgressBar | None:
    """None for a sentence that does not count files."""
    found = _FILE_COUNT.search(sentence)
    if found is None:
        return None
    done, total = (int(found[name].replace(",", "")) for name in ("done", "total"))
    full = _BAR_WIDTH * done // max(1, total)
    near = done == total or done % max(1, total // 10) < max(1, total // 100)
    return ProgressBar(f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}]", done >= total, near)
