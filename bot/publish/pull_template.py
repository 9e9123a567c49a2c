"""Finds the repository's own template for pull requests, where GitHub looks for it.

https://docs.github.com/communities/using-templates-to-encourage-useful-issues-and-pull-requests
"""

from __future__ import annotations

from typing import Final

from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.visible_text import strip_comments
from pipeline.codebase.commit import Codebase

FOLDERS: Final = (".github/", "", "docs/")
"""In GitHub's order."""
NAMES: Final = ("pull_request_template.md", "pull_request_template.txt", "pull_request_template")
MAX_CHARACTERS: Final = 20_000
"""A longer text is a document, and not used as a template."""


async def find_template(repo: Repository, codebase: Codebase) -> str | None:
    """The visible text of the template; None when there is none.

    The repository's own comes first, of several in a folder the first; then its owner's.

    Raises:
        GitHubError: from reading the owner's defaults.
    """
    text = await _find_own(codebase)
    if text is None and repo.ref.name.lower() != DEFAULTS_REPOSITORY:
        for folder in FOLDERS:
            for name in ("PULL_REQUEST_TEMPLATE.md", "pull_request_template.md"):
                if text is None:
                    text = await repo.read_defaults_file(*f"{folder}{name}".split("/"))
    if text is None or len(text) > MAX_CHARACTERS:
        return None
    return strip_comments(text.replace("\r\n", "\n")).strip() or None


async def _find_own(codebase: Codebase) -> str | None:
    by_name = {path.lower(): path for path in codebase.files}
    single = [by_name[f + n] for f in FOLDERS for n in NAMES if f + n in by_name]
    several = [
        by_name[path]
        for folder in FOLDERS
        for path in sorted(by_name)
        if path.startswith(f"{folder}pull_request_template/")
    ]
    for path in (*single, *several):
        if text := await codebase.read_text(path):
            return text
    return None
