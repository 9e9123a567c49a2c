"""Untrusted text made safe to post as Markdown, or to print on a terminal or in a log."""

import re

from pipeline.codebase.grammars import grammar_of
from prompts.text import is_invisible, shorten, strip_ansi, strip_invisible

_BREAK = "\u200b"
"""A zero-width space: splits `@name`, `#1` and `://` where GitHub would act on them."""
MARKER_PREFIX = "<!-- capuchin:"
"""Every marker in our comments and pull requests starts with this; markers are invisible."""
_SPECIAL = re.compile(r"([\\`*_\[\]!|~>])|^([^\S\n]*)([-+=]+|\d+[.)])(?=\s|$)", re.M)


def make_marker(kind: str, key: str) -> str:
    """Identifies a comment or pull request of ours; invisible on GitHub."""
    return f"{MARKER_PREFIX}{kind} {key} -->"


def plain_text(text: str, limit: int = 4000) -> str:
    """Without escape codes, control and direction characters and HTML comments; cut between words
    to at most `limit` characters."""
    text = strip_ansi(text).replace("\r\n", "\n").replace("\r", "\n")
    # First: what is no comment as long as a control character is in it would be one without it.
    text = strip_invisible(text)
    text = re.sub(r"<!--.*?(-->|\Z)", "", text, flags=re.S)
    return _cut(text, limit)


_LONG_WORD = 40
"""Characters of a word that is cut inside, so that not too much is lost."""


def line(text: str, limit: int = 200) -> str:
    """One line of plain text, for titles and commit messages, which are not Markdown."""
    joined = re.sub(
        r"\[(skip[ -]ci|ci[ -]skip|no[ -]ci|skip[ -]actions|actions[ -]skip)\]",
        r"(\1)",
        " ".join(plain_text(text, limit * 4).split()),
        flags=re.I,
    )
    return _defuse(_cut(joined, limit))


def _cut(text: str, limit: int) -> str:
    """`text`, or its beginning: up to the last word that fits, unless the next one is very long."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    near = max(0, len(head) - min(_LONG_WORD, limit // 4))
    space = max(text.rfind(one, near, limit) for one in " \n\t")
    return (head[:space] if space > 0 else head).rstrip() + "…"


def prose(text: str, limit: int = 4000) -> str:
    """Paragraphs that look as they were written; `code` stays code, all other markup is escaped."""
    parts = re.split(r"(?<!`)`([^`\n]+)`(?!`)", plain_text(text, limit).strip())
    # Odd entries are the contents of code spans.
    return "".join(f"`{part}`" if place % 2 else _escape(part) for place, part in enumerate(parts))


def code(text: str, limit: int = 200) -> str:
    """A code span on one line, even if `text` contains backticks."""
    inside = " ".join(plain_text(text, limit).split()).replace("|", "¦")
    ticks = "`" * (_longest_run(inside) + 1)
    pad = " " if inside.startswith("`") or inside.endswith("`") or not inside else ""
    return f"{ticks}{pad}{inside}{pad}{ticks}"


def block(text: str, limit: int, language: str = "text") -> str:
    """A fenced block; the middle of a `text` longer than `limit` is replaced by a note."""
    shown = shorten(make_visible(text), limit).rstrip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


_PLACE = re.compile(r"(?://|#) *[\w./-]{1,200}(\.\w{1,9})\s*\n")
"""The first line of a script that says where it lies as a test."""


def script_block(script: str, limit: int, suffix: str) -> str:
    """A script in a fence of its language: that of the place which it names, else of `suffix`."""
    place = _PLACE.match(script)
    ending = place[1] if place else suffix
    grammar = grammar_of(f"script{ending}")
    return block(script, limit, grammar.name if grammar else ending.lstrip("."))


def details(summary: str, body: str) -> str:
    """A folded section; `summary` must be trusted. The empty lines make GitHub read Markdown."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def make_visible(text: str) -> str:
    """Show invisible characters, and break what looks like one of our markers."""
    text = strip_ansi(text).replace("\r\n", "\n").replace("\r", "\n")
    text = "".join("\ufffd" if is_invisible(c) else c for c in text)
    return text.replace(MARKER_PREFIX, MARKER_PREFIX.replace("c", f"{_BREAK}c", 1))


def _escape(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    text = _SPECIAL.sub(lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\{m[3]}", text)
    text = re.sub(r"^([^\S\n]*)\\(\d+)([.)])", r"\1\2\\\3", text, flags=re.M)
    text = re.sub(r"^([^\S\n]*)#", r"\1\\#", text, flags=re.M)
    return _defuse(text)


def _defuse(text: str) -> str:
    return re.sub(
        r"(@|#|\bGH-)(?=\w)|(?<=:)(?=//)|\b(?=www\.)", lambda m: f"{m[0]}{_BREAK}", text, flags=re.I
    )


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def printable(text: str, *, one_line: bool = False) -> str:
    r"""`text` with control and direction characters escaped, as in `\x1b`.

    An escape sequence could recolour, rewrite or hide what a terminal shows, and a line break could
    forge a line of a log. Line breaks and tabs stay, except with `one_line`.
    """
    breaks = "\n\t\r" if one_line else "\r"
    return "".join(
        c.encode("unicode_escape").decode("ascii") if is_invisible(c) or c in breaks else c
        for c in text
    )
