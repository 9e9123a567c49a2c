"""The repository's own template for pull requests: found as GitHub finds it, filled, never ticked.

https://docs.github.com/communities/using-templates-to-encourage-useful-issues-and-pull-requests
"""

from __future__ import annotations

from typing import Final

from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.visible_text import without_hidden
from pipeline.codebase.commit import Codebase

FOLDERS: Final = (".github/", "", "docs/")
"""In GitHub's order."""
NAMES: Final = ("pull_request_template.md", "pull_request_template.txt", "pull_request_template")
LONGEST: Final = 20_000
"""Characters; a longer template is no form but a document."""


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
