"""The part of a text that people can see on GitHub."""

from __future__ import annotations

import re
import unicodedata

_BLANK = "\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"
"""Letters and marks that are displayed as nothing, such as Hangul fillers."""
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_FENCED = (
    r"^ {0,3}(?P<fence>`{3,}(?=[^`\n]*\n)|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
)
_SPAN = r"(?<![`\\])`(?!`)(?:[^`\n]|\n(?![ \t]*\n| {0,3}<))+`(?!`)"
_PIECE = re.compile(rf"(?P<hidden>{_HIDDEN.pattern})|{_FENCED}|{_SPAN}", re.S | re.M)
"""A comment or code, whichever starts first: code in a comment is hidden, not the reverse."""
_HTML = re.compile(r"^ {0,3}<[a-z/?!]", re.I | re.M)
"""Starts a block of HTML, in which a fence is not code."""


def visible_text(text: str) -> str:
    """The part of `text` that a person sees on GitHub."""
    return strip_hidden(strip_invisible(text)).strip()


def strip_invisible(text: str) -> str:
    """Removes invisible characters: zero-width, direction, tag and control characters.

    Models read instructions in them that people do not see ("ASCII smuggling"). Joiners go too:
    an emoji of several parts becomes its parts.
    """
    return "".join(c for c in text if c in "\n\r\t" or not _is_invisible(c))


def _is_invisible(character: str) -> bool:
    """Variation selectors beyond the first sixteen can carry any byte."""
    smuggles = "\U000e0100" <= character <= "\U000e01ef" or character in _BLANK
    return smuggles or unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co")


def strip_hidden(text: str) -> str:
    """Removes HTML comments, which a maintainer who reads the issue does not see.

    GitHub shows comments in code, so they stay; unless the text has other HTML, where a fence may
    not be code.
    """
    if _HTML.search(_PIECE.sub("", text)):
        return _HIDDEN.sub("", text)
    return _PIECE.sub(lambda piece: "" if piece["hidden"] else piece.group(), text)
