"""The part of a text that people can see on GitHub.

The text is rendered as GitHub renders it, and what a browser shows of that is read off: comments of
every kind, attributes, alternative texts, titles, definitions of links and words behind a fence
are on no page. What is left is written as plain Markdown again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser
from typing import Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, newline
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin

MAX_CHARACTERS: Final = 100_000
"""Read of one text: GitHub takes 65,536 characters."""
_BLANK = "\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"
"""Letters and marks that are displayed as nothing, such as Hangul fillers."""
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_BLOCKS: Final = frozenset(
    {*_HEADINGS, "p", "ul", "ol", "li", "blockquote", "pre", "table", "tr", "hr", "div", "section"}
    | {"details", "summary", "dl", "dt", "dd"}
)
_TAGS: Final = {*_BLOCKS, "code", "img", "br", "td", "th", "thead", "tbody"}
_MARKS: Final = {
    **{tag: "#" * level + " " for tag, level in _HEADINGS.items()},
    "pre": "```",
    "img": "[image]",
    "td": "| ",
    "th": "| ",
}
_MOST_NESTED: Final = 20
"""Lists and quotes within one another that indent a line: a page of them grew to 16 MB."""
_PREFIXES: Final = {"li": "  ", "blockquote": "> "}
_DROPPED: Final = {"script", "style", "title", "textarea", "noscript", "template", "iframe"}
"""Elements of whose contents nothing is shown."""
_HIDDEN = re.compile(r"<!--(?:(?!-->).)*(?:-->|\Z)", re.S)


def visible_text(text: str) -> str:
    """The part of `text`, which is GitHub's Markdown, that a person sees on GitHub."""
    page = _parser().render(strip_invisible(text[:MAX_CHARACTERS]))
    clean = nh3.clean(
        page,
        tags=_TAGS,
        clean_content_tags=_DROPPED,
        attributes={"ol": {"start"}},
        strip_comments=True,
        link_rel=None,
    )
    reader = _PageReader()
    reader.feed(clean)
    reader.close()
    # What was written as a character reference is a character only now.
    return strip_invisible(reader.text()).strip()


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


def strip_comments(text: str) -> str:
    """Removes HTML comments from Markdown that is written again, as from a template."""
    return _HIDDEN.sub("", text)


@cache
def _parser() -> MarkdownIt:
    """CommonMark with GitHub's tables, struck text and footnotes, which are never inline there."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.use(footnote_plugin, inline=False)
    parser.inline.ruler.at("newline", _read_newline)
    for mark in ("em", "strong", "s"):
        # Kept: the two lines of `__init__` may be meant, and bold words are no less visible.
        for side in ("open", "close"):
            parser.add_render_rule(f"{mark}_{side}", _render_markup)
    return parser


def _read_newline(state: StateInline, silent: bool) -> bool:
    """As usual, but the next line keeps its indentation: people paste code without a fence, and
    Python without indentation says something else. GitHub's page hides white space alone."""
    at = state.pos
    found = newline(state, silent)
    if found and not silent:
        state.pending = state.src[at + 1 : state.pos]
    return found


def _render_markup(
    _renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object
) -> str:
    return tokens[index].markup


class _PageReader(HTMLParser):
    """Writes the text of a clean page as Markdown: headings, lists, quotes and code keep theirs."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[str] = [""]
        self._prefixes: list[str] = []
        self._numbers: list[int | None] = []
        self._in_pre = 0
        self._in_row = False
        """Between the cells of a table, where white space means nothing."""

    def text(self) -> str:
        """What was read, with one empty line at most between blocks."""
        found: list[str] = []
        for line in self._lines:
            if line.strip("> \t"):
                found.append(line.rstrip())
            elif found and found[-1]:
                found.append("")
        return "\n".join(found)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self._break(blank=tag in ("p", "pre", "table", "blockquote") or tag in _HEADINGS)
        if tag in ("ul", "ol"):
            start = dict(attrs).get("start") or "1"
            number = int(start) if re.fullmatch(r"\d{1,9}", start) else 1
            self._numbers.append(number if tag == "ol" else None)
        elif tag == "pre":
            self._in_pre += 1
        self._in_row = self._in_row and tag not in ("td", "th")
        self._write(self._mark(tag))
        if tag in _PREFIXES:
            self._prefixes.append(_PREFIXES[tag])
        if tag in ("blockquote", "pre"):
            self._break()

    def _mark(self, tag: str) -> str:
        """What Markdown writes before the text of an element."""
        if tag == "li":
            return self._bullet()
        if tag == "code":
            return "" if self._in_pre else "`"
        return _MARKS.get(tag, "")

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "ul" | "ol" if self._numbers:
                self._numbers.pop()
            case "li" | "blockquote" if self._prefixes:
                self._prefixes.pop()
            case "pre":
                self._in_pre -= 1
                self._break()
                self._write("```")
            case "code" if not self._in_pre:
                self._write("`")
            case "td" | "th":
                self._in_row = True
                self._write(" ")
            case "table":
                self._in_row = False
            case _:
                pass
        if tag in _BLOCKS:
            self._break(blank=tag in ("p", "pre", "table", "blockquote") or tag in _HEADINGS)

    def handle_data(self, data: str) -> None:
        between = not data.strip() and not self._in_pre
        if between and (self._in_row or not self._lines[-1].strip("> \t")):
            return
        first, *more = data.split("\n")
        self._write(first)
        for line in more:
            self._lines.append(self._prefix())
            self._write(line)

    def _bullet(self) -> str:
        number = self._numbers[-1] if self._numbers else None
        if number is None:
            return "- "
        self._numbers[-1] = number + 1
        return f"{number}. "

    def _prefix(self) -> str:
        return "".join(self._prefixes[:_MOST_NESTED])

    def _write(self, text: str) -> None:
        self._lines[-1] += text

    def _break(self, *, blank: bool = False) -> None:
        """Begin a new line, unless the present one is new."""
        prefix = self._prefix()
        if self._lines[-1].strip("> \t"):
            if self._lines[-1].strip() in ("-", "*"):
                return
            self._lines.append(prefix)
        else:
            self._lines[-1] = prefix
        if blank and len(self._lines) > 1 and self._lines[-2].strip():
            self._lines.insert(-1, prefix.rstrip())
