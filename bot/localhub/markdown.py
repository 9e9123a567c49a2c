"""Strangers' markdown as HTML that can do nothing: rendered, then cut down to an allow-list."""

from __future__ import annotations

import nh3
from markdown_it import MarkdownIt

TAGS = frozenset(
    [
        "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt",
        "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "kbd", "li", "ol", "p",
        "pre", "s", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th",
        "thead", "tr", "ul",
    ]
)  # fmt: skip
"""No images, frames, forms, scripts or styles: a page loads nothing from anywhere."""

ATTRIBUTES = {"a": {"href", "title"}, "details": {"open"}, "ol": {"start"}}

LINKS = frozenset({"http", "https", "mailto"})


def render(text: str) -> str:
    """Safe HTML. HTML comments vanish, `<details>` works, everything else foreign is taken out."""
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
    return nh3.clean(
        html,
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        url_schemes=set(LINKS),
        link_rel="noopener noreferrer nofollow",
    )
