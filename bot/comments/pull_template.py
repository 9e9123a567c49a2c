"""Fills in the repository's own pull request template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_HEADING = re.compile(r"^ {0,3}(?:#{1,6}[ \t]++(?P<hash>.*)|\*\*(?P<bold>[^*\n]+)\*\*:?[ \t]*)$")
_BOX = re.compile(r"^(\s*[-*+] )\[[xX]\]")
_CLOSES = re.compile(
    r"\b(close[sd]?|fix(e[sd])?|resolve[sd]?):?\s+#(?!\d)(issue|number|n|x+|_+)?", re.I
)
_HEADING_TOPICS: Final[Sequence[tuple[str, re.Pattern[str]]]] = (
    ("tests", re.compile(r"\b(test|tests|tested|testing|verif\w*|qa|reproduc\w*)\b", re.I)),
    (
        "issue",
        re.compile(r"\b(issues?|tickets?|closes|fixes|resolves|related|references?)\b", re.I),
    ),
    ("cause", re.compile(r"\b(why|motivation|context|problem|background|cause|reason)\b", re.I)),
    (
        "change",
        re.compile(
            r"\b(what|changes?|changed|description|summary|solution|how|overview|proposed)\b", re.I
        ),
    ),
)
"""Which of our texts belongs under a heading: the first match that is not used yet."""


class TemplateTexts(NamedTuple):
    """Our texts, as Markdown that is safe to post."""

    cause: str
    change: str
    issue: str
    """`Fixes #N`, on its own line."""
    tests: str


def fill_template(template: str, texts: TemplateTexts) -> str:
    """The template with our texts under the matching headings.

    Texts without a heading come first. A line such as `Fixes #` without a number becomes ours.
    Checkboxes are unticked: people tick them.
    """
    left = texts._asdict()
    lines: list[str] = []
    for line in template.split("\n"):
        if "issue" in left and _CLOSES.search(line):
            lines.append(left.pop("issue"))
            continue
        lines.append(_BOX.sub(r"\1[ ]", _CLOSES.sub(r"\1 …", line)))
        heading = _HEADING.match(line)
        title = (heading["hash"] or heading["bold"] or "") if heading else ""
        for key, wanted in _HEADING_TOPICS:
            if heading and key in left and wanted.search(title):
                lines += ["", left.pop(key), ""]
                break
    first = [left[key] for key in ("cause", "change", "issue", "tests") if key in left]
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join([*first, "\n".join(lines).strip()]))
