"""The demo's repository without a process for each question: tests ask thousands."""

import zlib
from collections.abc import Iterable
from pathlib import Path

from capuchin_demo.hub.git_repository import (
    FULL_SHA,
    Commit,
    GitRepo,
    list_meanings,
    parse_commit,
    run_git,
)

_MOST_BYTES = 1024 * 1024
"""Of an object that is read."""


def read_object(repository: Path, sha: str) -> tuple[str, bytes] | None:
    """Kind and content; None: the object is large, elsewhere (in a pack) or nowhere."""
    if not FULL_SHA.fullmatch(sha):
        return None
    try:
        with (repository / "objects" / sha[:2] / sha[2:]).open("rb") as file:
            data = zlib.decompressobj().decompress(file.read(_MOST_BYTES), _MOST_BYTES)
    except (OSError, zlib.error):
        return None
    head, _, content = data.partition(b"\0")
    kind, _, size = head.decode("ascii", "replace").partition(" ")
    return (kind, content) if size == str(len(content)) else None


class FastRepo(GitRepo):
    """Reads loose objects and refs itself, and remembers what can never change."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._answers: dict[tuple[str, ...], bytes] = {}
        """By git's arguments: answers that stay true, as they depend on object ids alone."""

    def ask(self, *arguments: str, allowed_codes: tuple[int, ...] = ()) -> bytes:
        answer = self._answers.get(arguments)
        if answer is None:
            answer = super().ask(*arguments, allowed_codes=allowed_codes)
            if len(answer) <= 16 * 1024:
                if len(self._answers) >= 4096:
                    self._answers.clear()
                self._answers[arguments] = answer
        return answer

    def list_refs(self, prefix: str = "refs/") -> dict[str, str]:
        loose = self._list_loose_refs()
        if loose is None or self._has_packed_refs():
            return super().list_refs(prefix)
        inside = (name for name in sorted(loose) if name.startswith(prefix))
        return {name.removeprefix(prefix): loose[name] for name in inside}

    def resolve(self, rev: str) -> str | None:
        known = self._resolve_without_git(list_meanings(rev))
        if known is not None and not self._has_packed_refs():
            return known or None
        return super().resolve(rev)

    def _resolve_without_git(self, names: list[str]) -> str | None:
        """The commit of the first of `names` that exists, empty if none does; None: ask git."""
        for name in names:
            if FULL_SHA.fullmatch(name):
                found = name
            else:
                try:
                    found = (self.path / name).read_text(encoding="ascii").strip()
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except (OSError, ValueError):
                    return None
            is_commit = FULL_SHA.fullmatch(found) and self.object_kind(found) == "commit"
            return found if is_commit else None
        return "" if all(name.startswith("refs/") for name in names) else None

    def _list_loose_refs(self) -> dict[str, str] | None:
        """The refs in files of their own, by name; None: one does not name an object, ask git."""
        found: dict[str, str] = {}
        try:
            for file in (self.path / "refs").rglob("*"):
                if file.is_file() and file.suffix != ".lock":
                    found[file.relative_to(self.path).as_posix()] = file.read_text("ascii").strip()
        except (OSError, ValueError):  # a branch went in the meantime
            return None
        return found if all(map(FULL_SHA.fullmatch, found.values())) else None

    def _has_packed_refs(self) -> bool:
        """Whether some refs are in no file of their own.

        Ask after reading such files: git packs a ref before it removes the file.
        """
        return (self.path / "packed-refs").exists()

    def object_kind(self, sha: str) -> str | None:
        loose = read_object(self.path, sha)
        return loose[0] if loose else super().object_kind(sha)

    def read_object(self, kind: str, sha: str) -> bytes:
        loose = read_object(self.path, sha)
        return loose[1] if loose and loose[0] == kind else super().read_object(kind, sha)

    def read_commits(self, shas: Iterable[str]) -> list[Commit]:
        """Several commits at once, in order."""
        shas = list(shas)
        loose = [(sha, one[1]) for sha in shas if (one := read_object(self.path, sha))]
        if len(loose) == len(shas):
            return [parse_commit(sha, content.decode("utf-8", "replace")) for sha, content in loose]
        asked = "".join(f"{sha}\n" for sha in shas).encode()
        data = run_git(self.path, "cat-file", "--batch", stdin=asked)
        found: list[Commit] = []
        while data:
            head, _, rest = data.partition(b"\n")
            sha, _kind, size = head.decode().split()
            text = rest[: int(size)].decode("utf-8", "replace")
            found.append(parse_commit(sha, text))
            data = rest[int(size) + 1 :]
        return found
