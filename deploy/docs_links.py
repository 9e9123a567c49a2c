"""A hook of mkdocs: links to files outside `docs` lead to the repository."""

import re
from typing import Any


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """The page's text with those links replaced."""
    return re.sub(r"\]\(\.\./", f"]({config['repo_url']}/blob/main/", markdown)
