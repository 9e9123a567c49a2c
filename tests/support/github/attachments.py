"""What people attach to issues."""

import re

import nh3
from markdown_it import MarkdownIt

from capuchin_demo.hub.hub_pages import TAGS
from tests.support.github.hub_state import GitHubState


def render_signed(state: GitHubState, text: str) -> str:
    """`text` as GraphQL's `bodyHTML`: pictures have addresses that need no session."""
    html = MarkdownIt("commonmark", {"html": True}).render(text)
    clean = nh3.clean(html, tags={*TAGS, "img"}, attributes={"img": {"src", "alt"}})
    return re.sub(
        r"(/user-attachments/assets/[0-9a-f-]{36})", rf"\1?jwt={state.attachment_jwt}", clean
    )
