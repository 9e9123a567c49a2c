"""The repository's own template for pull requests: found as GitHub finds it, filled, never ticked.

https://docs.github.com/communities/using-templates-to-encourage-useful-issues-and-pull-requests
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.visible_text import without_hidden
from pipeline.codebase.commit import Codebase

FOLDERS: Final = (".github/", "", "docs/")
"""In GitHub's order."""
NAMES: Final = ("pull_request_template.md", "pull_request_template.txt", "pull_request_template")
LONGEST: Final = 20_000
"""Characters; a longer template is no form but a document."""
_HEADING = re.compile(
    r"^ {0,3}(?:#{1,6}[ \t]+(?P<hash>.*?)[ \t]*#*|\*\*(?P<bold>[^*\n]+)\*\*:?)[ \t]*$"
)
_BOX = re.compile(r"^(\s*[-*+] )\[[xX]\]")
_CLOSES = re.compile(
    r"\b(close[sd]?|fix(e[sd])?|resolve[sd]?):?\s+#(?!\d)(issue|number|n|x+|_+)?", re.I
)


class Filling(NamedTuple):
    """What we can say, as Markdown that is safe to post."""

    cause: str
    change: str
    issue: str
    """`Fixes #N`, on its own line."""
    tests: str


_WANTS: Final[Sequence[tuple[str, re.Pattern[str]]]] = (
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
"""Which of our texts a heading asks for: the first that fits and is not used yet."""


async def template_of(repo: Repository, codebase: Codebase) -> str | None:
    """The template, without what nobody sees; None when there is none.

    The repository's own; of several in a folder the first; else its owner's. Raises as
    `Wire.send`.
    """
    text = await _own(codebase)
    if text is None and repo.ref.name.lower() != DEFAULTS_REPOSITORY:
        for folder in FOLDERS:
            for name in ("PULL_REQUEST_TEMPLATE.md", "pull_request_template.md"):
                if text is None:
                    text = await repo.defaults_text(*f"{folder}{name}".split("/"))
    if text is None or len(text) > LONGEST:
        return None
    return without_hidden(text.replace("\r\n", "\n")).strip() or None


async def _own(codebase: Codebase) -> str | None:
    by_name = {path.lower(): path for path in codebase.files}
    single = [by_name[f + n] for f in FOLDERS for n in NAMES if f + n in by_name]
    several = [
        by_name[path]
        for folder in FOLDERS
        for path in sorted(by_name)
        if path.startswith(f"{folder}pull_request_template/")
    ]
    for path in (*single, *several):
        if text := await codebase.text(path):
            return text
    return None


def filled(template: str, said: Filling) -> str:
    """The template with our texts beneath the headings that ask for them.

    What no heading asks for comes first; a line that closes an issue yet to be named is ours.
    Boxes are left for people to tick.
    """
    left = said._asdict()
    lines: list[str] = []
    for line in template.split("\n"):
        if "issue" in left and _CLOSES.search(line):
            lines.append(left.pop("issue"))
            continue
        lines.append(_BOX.sub(r"\1[ ]", _CLOSES.sub(r"\1 …", line)))
        heading = _HEADING.match(line)
        title = (heading["hash"] or heading["bold"] or "") if heading else ""
        for key, wanted in _WANTS:
            if heading and key in left and wanted.search(title):
                lines += ["", left.pop(key), ""]
                break
    first = [left[key] for key in ("cause", "change", "issue", "tests") if key in left]
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join([*first, "\n".join(lines).strip()]))
