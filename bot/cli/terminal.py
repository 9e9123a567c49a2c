"""Makes untrusted text safe for a terminal or a log; the progress bar."""

from __future__ import annotations

import logging
import re
import sys
import unicodedata
from typing import NamedTuple

_FILE_COUNT = re.compile(r"(?P<done>\d[\d,]*) of (?P<total>\d[\d,]*) files")
_BAR_WIDTH = 24


CHATTY_LOGGERS = ("arq", "httpx", "httpx2")
"""Libraries that log every call."""


def printable(text: str, *, one_line: bool = False) -> str:
    r"""`text` with control and direction characters escaped, as in `\x1b`.

    An escape sequence could recolour, rewrite or hide what a terminal shows, and a line break could
    forge a line of a log. Line breaks and tabs stay, except with `one_line`.
    """
    return "".join(c if _is_harmless(c, one_line) else _escape(c) for c in text)


def start_logging() -> None:
    """Log one line for each record to standard error, even if its text has line breaks."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for chatty in CHATTY_LOGGERS:
        logging.getLogger(chatty).setLevel(logging.WARNING)


class _LineFormatter(logging.Formatter):
    """Escapes line breaks, except in the traceback after the line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return printable(super().formatMessage(record), one_line=True)

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


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
