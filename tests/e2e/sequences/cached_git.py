"""The hub's git without a process for each question: a sequence asks fifty.

`tests/unit/deploy/demo/hub` tests git itself.
"""

import re
from pathlib import Path
from typing import Final

from typing_extensions import override

from capuchin_demo.hub.git_repository import Commit, Entry
from tests.support.github.git_repository import FastRepo

NAME: Final = re.compile(r"\w[\w-]*(/\w[\w-]*)*")


class CachedRepo(FastRepo):
    """Remembers objects, which never change, and reads a branch where git itself does first."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._commits: dict[str, Commit] = {}
        self._entries: dict[tuple[str, bool], list[Entry]] = {}

    @override
    def resolve(self, rev: str) -> str | None:
        if NAME.fullmatch(rev):
            try:
                return (self.path / "refs/heads" / rev).read_text().strip()
            except OSError:  # no such branch
                pass
        return rev if rev in self._commits else super().resolve(rev)

    @override
    def object_kind(self, sha: str) -> str | None:
        return "commit" if sha in self._commits else super().object_kind(sha)

    @override
    def read_commit(self, sha: str) -> Commit:
        if sha not in self._commits:
            self._commits[sha] = super().read_commit(sha)
        return self._commits[sha]

    @override
    def list_entries(self, tree: str, *, recursive: bool = False) -> list[Entry]:
        key = tree, recursive
        if key not in self._entries:
            self._entries[key] = super().list_entries(tree, recursive=recursive)
        return self._entries[key]
