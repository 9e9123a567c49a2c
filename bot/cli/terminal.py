"""Makes untrusted text safe for a terminal or a log."""

from __future__ import annotations

import unicodedata


def printable(text: str, *, one_line: bool = False) -> str:
    r"""`text` with control and direction characters escaped, as in `\x1b`.

    An escape sequence could recolour, rewrite or hide what a terminal shows, and a line break could
    forge a line of a log. Line breaks and tabs stay, except with `one_line`.
    """
    return "".join(c if _is_harmless(c, one_line) else _escape(c) for c in text)


def _is_harmless(character: str, one_line: bool) -> bool:
    if character in "\n\t":
        return not one_line
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
