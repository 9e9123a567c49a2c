"""What is readable on a phone: nothing but folded parts may be wider than a small screen."""

import re

from capuchin_demo.hub.state import Pull
from tests.support.github.hub import LocalHub

WIDEST = 45
"""Characters of a table's row or a line of code that GitHub's app shows without scrolling."""
LONGEST_CODE = 12
"""Lines of code that are not folded."""
LONGEST_PARAGRAPH = 700
"""Characters: about one screen."""
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_INNERMOST = re.compile(r"<details>(?:(?!<details>).)*?</details>", re.S)
_FENCED = re.compile(r"^(`{3,})[^\n]*\n(.*?)^\1[ \t]*$", re.S | re.M)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def find_problems(body: str) -> list[str]:
    """What of a body, in Markdown, would be hard to read on a phone; nothing if it is fine."""
    text = _COMMENT.sub("", body)
    while _INNERMOST.search(text):
        text = _INNERMOST.sub("", text)
    found: list[str] = []
    for block in _FENCED.finditer(text):
        lines = block[2].splitlines()
        if len(lines) > LONGEST_CODE:
            found.append(f"{len(lines)} lines of code that are not folded")
        found += [f"a wide line of code: {line}" for line in lines if len(line) > WIDEST]
    for paragraph in _FENCED.sub("", text).split("\n\n"):
        rows = [line for line in paragraph.splitlines() if line.startswith("|")]
        found += [f"a wide table: {row}" for row in rows if _width(row) > WIDEST]
        if not rows and any(len(item) > LONGEST_PARAGRAPH for item in _items(paragraph)):
            found.append(f"a long paragraph: {paragraph[:60]}…")
    return found


def find_unreadable(hub: LocalHub) -> dict[str, list[str]]:
    """Of all that we wrote on the hub, where it is hard to read and why."""
    found: dict[str, list[str]] = {}
    for repo in hub.repos.values():
        for issue in repo.issues.values():
            bodies = [comment.body for comment in issue.comments if comment.author is hub.bot]
            if isinstance(issue, Pull):
                bodies += [issue.body or ""] if issue.author is hub.bot else []
                bodies += [
                    comment.body
                    for review in issue.reviews
                    for comment in review.comments
                    if review.author is hub.bot
                ]
            found[f"{repo.full_name}#{issue.number}"] = [
                p for body in bodies for p in find_problems(body)
            ]
        ours = [check for check in repo.check_runs if not check.suite.app]
        texts = [text or "" for check in ours for text in (check.summary, check.text)]
        found[f"{repo.full_name}, checks"] = [p for text in texts for p in find_problems(text)]
    return {place: some for place, some in found.items() if some}


def _width(row: str) -> int:
    """As shown: without markup, each bar as the space that it makes."""
    if set(row) <= set("|-: "):
        return 0
    return len(re.sub(r"[*`]", "", _LINK.sub(r"\1", row)))


def _items(paragraph: str) -> list[str]:
    """The items of a list are read one by one."""
    return re.split(r"\n(?=- |\d+\. )", paragraph)
