"""The part of a text that people can see on GitHub.

The text is rendered as GitHub renders it, and what a browser shows of that is read off: comments of
every kind, attributes, alternative texts, titles, definitions of links and words behind a fence
are on no page. What is left is written as plain Markdown again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from html import escape
from html.parser import HTMLParser
from itertools import groupby
from typing import Final, NamedTuple

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, newline
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin

from prompts.text import is_invisible, strip_invisible

MAX_CHARACTERS: Final = 100_000
"""Read of one text: GitHub takes 65,536 characters."""
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_BLOCKS: Final = frozenset(
    {*_HEADINGS, "p", "ul", "ol", "li", "blockquote", "pre", "table", "tr", "hr", "div", "section"}
    | {"details", "summary", "dl", "dt", "dd"}
)
_SHRINKING: Final = frozenset({"sub", "sup", "small", "rt", "tt", "samp", "code", "h5", "h6"})
_TAGS: Final = {*_BLOCKS, *_SHRINKING, "img", "br", "td", "th", "thead", "tbody"}
_MARKS: Final = {
    **{tag: "#" * level + " " for tag, level in _HEADINGS.items()},
    "pre": "```",
    "img": "[image]",
    "td": "| ",
    "th": "| ",
}
_FAR_LINES: Final = 100
"""Empty lines after which nobody looks for more."""
_FAR_RIGHT: Final = " " * 200
_PREFIXES: Final = {"li": "  ", "blockquote": "> "}
_GITHUB_TAGS: Final = frozenset(
    f"{' '.join(_TAGS)} h7 h8 b i strong em a ins del p picture tfoot kbd q var ruby rp s strike"
    " caption figure figcaption abbr bdo cite dfn mark source span time wbr".split()
)
"""What GitHub renders (its html-pipeline's allowlist, and `section` of footnotes). It prints
`<title>` and eight more as text, and of all others drops the tag and keeps what is in it."""
_TAG_NAME: Final = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_TAG_REST: Final = re.compile(r"""((?:[^>=]++|=\s*+(?:"[^"]*"|'[^']*'|(?!["'])))*+)>""")
_PICTURES: Final = {
    "geojson": "[map]",
    "topojson": "[map]",
    "mermaid": "[diagram]",
    "stl": "[3D model]",
}
"""Languages of fences that GitHub draws: most of their text is on no page."""
_NAMED: Final = re.compile(
    r"(?:ba|z)?sh|c|c\+\+|cpp|c#|csharp|console|css|diff|elixir|go|html|ini|java|javascript|jsx?"
    r"|json|kotlin|lua|make|markdown|md|perl|php|pycon|py|python3?|r|rb|ruby|rs|rust|scala|shell"
    r"|sql|swift|text|toml|tsx?|typescript|vue|xml|ya?ml|zig"
)
"""Languages that a fence keeps: a page shows them by its colours. No other word there is seen."""
_MOST_BLANKS: Final = 8
"""Blanks at a line's end in code that are kept: in Markdown they may be the issue."""
_MATH: Final = re.compile(r"(?<![\w$\\])(\$\$?)(?![\s$])([^$]*)(?<!\s)(\$\$?)(?![\w$])")
_MATH_LINES: Final = re.compile(r"(?m)^(\$\$)[ \t]{0,9}\n([^$]*)(\$\$)")
_MATH_HIDES: Final = re.compile(
    r"\\(?:[hv]?phantom|smash|math[rlc]lap|[rlc]lap|color|textcolor|f?colorbox|definecolor|[gex]?def"
    r"|(?:re)?new(?:command|environment)|let|label|href|url|class|style|cssId|bbox|mmlToken|unicode"
    r"|require|mathchoice|[mh]?kern|[mh]skip|[mh]?space|raise|lower|raisebox|move(?:left|right)|[tT]iny"
    r"|script(?:script)?(?:style|size))(?![A-Za-z])"
)
"""Commands of MathJax that can hide, shrink or move their argument."""


class Unseen(NamedTuple):
    """What readers of a page do not see at once, in characters."""

    hidden: tuple[int, ...] = ()
    """Each passage that is on no page, or too small or too far off to be seen: it is not read."""
    folded: int = 0
    """In `<details>` that are closed: it is read."""


@lru_cache(maxsize=64)
def _read(text: str) -> tuple[str, Unseen]:
    page = _render(text)
    comments = re.findall(r"<!--(.*?)(?:-->|\Z)", page, re.S)
    runs = groupby(text[:MAX_CHARACTERS], is_invisible)
    # One or two may join an emoji.
    smuggled = [count for unseen, run in runs if unseen and (count := sum(1 for _ in run)) > 2]
    reader = _PageReader()
    attributes = {"ol": {"start"}, "code": {"class"}, "pre": {"lang"}, "details": {"open"}}
    reader.feed(_clean(page, attributes))
    reader.close()
    # What was written as a character reference is a character only now.
    shown = strip_invisible(reader.text()).strip()
    hidden = (*(len(one.strip()) for one in comments), *smuggled, *reader.hidden)
    return shown, Unseen(tuple(filter(None, hidden)), reader.folded)


def visible_text(text: str) -> str:
    """The part of `text`, which is GitHub's Markdown, that a person sees on GitHub."""
    return _read(text)[0]


def find_unseen(texts: Iterable[str]) -> Unseen:
    """What `visible_text` leaves out of all `texts`, and what it reads although it is folded."""
    found = [_read(text)[1] for text in texts]
    hidden = tuple(length for one in found for length in one.hidden)
    return Unseen(hidden, sum(one.folded for one in found))


def render_page(text: str, attributes: Mapping[str, set[str]]) -> str:
    """The HTML that GitHub shows of `text`, with no attributes but these."""
    return _clean(_render(text), attributes)


def _render(text: str) -> str:
    return _escape_other_tags(_parser().render(strip_invisible(text[:MAX_CHARACTERS])))


def _clean(page: str, attributes: Mapping[str, set[str]]) -> str:
    return nh3.clean(
        page,
        tags=_TAGS | attributes.keys(),
        clean_content_tags={"rp"},  # browsers show the reading, and no parentheses around it
        attributes={tag: set(names) for tag, names in attributes.items()},
        strip_comments=True,
        link_rel=None,
    )


def _escape_other_tags(page: str) -> str:
    """`page` with each tag that GitHub does not render as text, without its attributes.

    `List<int>` and `in <lambda>` are code that somebody forgot to quote. Parsed as HTML, some of
    these names would take all that follows with them. Tags end where the HTML standard says
    (html.spec.whatwg.org, 13.2.5); one that never ends hides the rest of the page.
    """
    parts: list[str] = []
    at = 0
    while (start := page.find("<", at)) >= 0:
        parts.append(page[at:start])
        name = _TAG_NAME.match(page, start)
        if name is None:
            at = _find_markup_end(page, start)
            parts.append(page[start:at])
            continue
        rest = _TAG_REST.match(page, name.end())
        if rest is None:
            return "".join(parts)
        at = rest.end()
        if name[2].lower() in _GITHUB_TAGS:
            parts.append(page[start:at])
        else:
            cut = " …" if rest[1].strip(" /\n\t") else ""
            parts.append(escape(f"<{name[1]}{name[2]}{cut}>"))
    return "".join(parts) + page[at:]


def _find_markup_end(page: str, start: int) -> int:
    """Where the comment or declaration at `start` ends; after the `<` if it is neither."""
    if page.startswith(("<!-->", "<!--->"), start):
        return page.index(">", start) + 1
    if page.startswith("<!--", start):
        end = page.find("-->", start) + 3
        end = end if end > 2 else len(page)
        other = page.find("--!>", start, end) + 4
        return other if other > 3 else end
    if page.startswith(("<!", "<?", "</"), start):
        return page.find(">", start) + 1 or len(page)
    return start + 1


def strip_comments(text: str) -> str:
    """Removes HTML comments from Markdown that is written again, as from a template."""
    return re.sub(r"<!--(?:(?!-->).)*(?:-->|\Z)", "", text, flags=re.S)


@cache
def _parser() -> MarkdownIt:
    """CommonMark with GitHub's tables, struck text and footnotes, which are never inline there."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.use(footnote_plugin, inline=False)
    parser.inline.ruler.at("newline", _read_newline)
    parser.core.ruler.before("footnote_tail", "footnote_repeats", _drop_repeated_footnotes)
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


def _drop_repeated_footnotes(state: StateCore) -> None:
    """GitHub shows the first footnote of a name, and none that is defined within another."""
    kept: list[Token] = []
    known: set[str] = set()
    depth, dropped = 0, 0
    for token in state.tokens:
        if token.type == "footnote_reference_open":
            depth += 1
            label = " ".join(str(token.meta["label"]).casefold().split())
            if dropped or depth > 1 or label in known:
                dropped += 1
            known.add(label)
        if not dropped:
            kept.append(token)
        if token.type == "footnote_reference_close":
            depth -= 1
            dropped = max(0, dropped - 1)
    state.tokens = kept


def hide_math(text: str) -> str:
    """`text` without the parts of formulas that GitHub does not show."""
    for pattern in (_MATH_LINES, _MATH):
        text = pattern.sub(lambda m: f"{m[1]}{_show_formula(m[2])}{m[3]}", text)
    return text


def _show_formula(formula: str) -> str:
    return "[formula]" if _MATH_HIDES.search(formula) else re.sub(r"(?<!\\)%[^\n]*", "", formula)


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
        self._in_code = 0
        self._shrunk = 0
        self._language = ""
        """The language of the fence that is read."""
        self._code: set[int] = set()
        """The lines of code blocks."""
        self._closed: list[bool] = []
        """Whether each `<details>` around is closed."""
        self._breaks = 0
        self.hidden: list[int] = []
        self.folded = 0

    def text(self) -> str:
        """What was read, with one empty line at most between blocks."""
        found: list[str] = []
        empty = 0
        for at, line in enumerate(self._lines):
            if empty > _FAR_LINES and found:
                self.hidden.append(sum(len(rest.strip()) for rest in self._lines[at:]))
                return "\n".join(found)
            wide = line.rstrip().expandtabs()
            shown, gap, rest = (wide if _FAR_RIGHT in wide else line.rstrip()).partition(_FAR_RIGHT)
            if gap and rest.strip():
                self.hidden.append(len(rest.strip()))
            empty = 0 if shown.strip("> \t\xa0\u3000") else empty + 1
            tail = line[len(line.rstrip(" \t")) :] if at in self._code and not gap else ""
            tail *= len(tail) <= _MOST_BLANKS
            if shown.strip("> \t"):
                found.append(shown.rstrip() + tail)
            elif found and (found[-1] or at in self._code):
                found.append(tail)
        return "\n".join(found)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._shrunk += tag in _SHRINKING
        self._breaks += tag == "br"
        if tag == "details":
            self._closed.append("open" not in dict(attrs))
        if tag in ("pre", "code"):
            self._in_code += 1
            named = (dict(attrs).get("lang" if tag == "pre" else "class") or "").lower()
            self._language = named.removeprefix("language-") or self._language
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
        if self._in_pre and self._lines[-2:-1] and _NAMED.fullmatch(self._language):
            self._lines[-2] += self._language * self._lines[-2].endswith("```")

    def _mark(self, tag: str) -> str:
        """What Markdown writes before the text of an element."""
        if tag == "li":
            return self._bullet()
        if tag == "code":
            return "" if self._in_pre else "`"
        return _MARKS.get(tag, "")

    def handle_endtag(self, tag: str) -> None:
        self._leave(tag)
        match tag:
            case "details" if self._closed:
                self._closed.pop()
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

    def _leave(self, tag: str) -> None:
        self._shrunk -= tag in _SHRINKING
        if tag in ("pre", "code"):
            self._in_code -= 1
            self._language = ""

    def handle_data(self, data: str) -> None:
        if not data.strip():
            self._breaks += "\xa0" in data
        elif self._breaks <= _FAR_LINES:
            self._breaks = 0
        between = not data.strip() and not self._in_pre
        if between and (self._in_row or not self._lines[-1].strip("> \t")):
            return
        shown = self._show(data)
        if lost := len(data.strip()) - len(shown.strip()):
            self.hidden += [lost] if lost > 0 else []
        self.folded += len(shown.strip()) if any(self._closed) else 0
        first, *more = shown.split("\n")
        began = len(self._lines) - 1
        self._write(first)
        for line in more:
            self._lines.append(self._prefix())
            self._write(line)
        if self._in_pre:
            self._code |= set(range(began, len(self._lines) - (not more[-1] if more else 0)))

    def _show(self, data: str) -> str:
        """The part of an element's text that is seen."""
        # A fourth such element within one another makes text too small to be seen.
        if self._shrunk > 3 or self._breaks > _FAR_LINES:
            return ""
        if self._language in _PICTURES:
            return _PICTURES[self._language] + "\n" * data.endswith("\n")
        if not self._in_code:
            return hide_math(data)
        is_formula = self._language == "math" or self._lines[-1].endswith("$`")
        return _show_formula(data) if is_formula else data

    def _bullet(self) -> str:
        number = self._numbers[-1] if self._numbers else None
        if number is None:
            return "- "
        self._numbers[-1] = number + 1
        return f"{number}. "

    def _prefix(self) -> str:
        # A page of lists and quotes within one another grew to 16 MB.
        return "".join(self._prefixes[:20])

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
