"""One commit read from git's objects: no worktree, so no hook, filter or symbolic link acts."""

from __future__ import annotations

import asyncio
import io
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from sys import intern

from pipeline.codebase.git import GitFailed, git, read_git_entries
from pipeline.codebase.text import decode_text
from sandbox.archive import Archive
from sandbox.tree import Tree

SYMLINK = "120000"
SUBMODULE = "160000"
_BATCH_BYTES = 16 * 1024 * 1024
"""How much file content is asked of git at once, to bound memory on a big repository."""
_ABSENT = "BAD"
"""What `ls-tree -l` gives as the size of an object that is not there."""
_MTIME = 1_000_000_000
"""Every file in a tree's tar is this old, so that equal trees make equal tars."""


@dataclass(frozen=True, slots=True)
class File:
    path: str
    mode: str
    """As git writes it: `100644`, `100755`, `120000` (link) or `160000` (submodule)."""
    size: int
    """Bytes; 0 for a submodule."""
    blob: str
    """git's name of the content."""

    @property
    def regular(self) -> bool:
        return self.mode not in (SYMLINK, SUBMODULE)


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """An entry that is not in `Codebase.files`, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Codebase:
    """Every file of one commit. `files` is empty for an empty repository."""

    git_dir: Path
    commit: str
    """Full name of the commit; empty when the repository has no commit at all."""
    files: Mapping[str, File]
    skipped: tuple[SkippedEntry, ...] = ()

    @classmethod
    async def open(cls, git_dir: Path, commit: str) -> Codebase:
        """The files at `commit` (any name git understands) of the repository at `git_dir`.

        A repository without any commit is an empty codebase, whatever `commit` is.

        Raises:
            GitFailed: there are commits, but not this one, or the clone is not whole.
        """
        name = f"{commit}^{{commit}}"
        try:
            found = await git(git_dir, "rev-parse", "--verify", "--end-of-options", name)
        except GitFailed:
            if await git(git_dir, "for-each-ref", "--count=1"):
                raise
            return cls(git_dir, "", {})
        full = found.decode().split()[-1]
        files, skipped = await _list_files(git_dir, full)
        return cls(git_dir, full, files, skipped)

    async def read(self, path: str) -> bytes:
        """The content of one file; a link's target, for a link.

        Raises:
            KeyError: there is no such file.
        """
        file = self.files[path]
        if file.mode == SUBMODULE:
            return b""
        return await git(self.git_dir, "cat-file", "blob", file.blob)

    async def read_all(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The contents of many files, in few calls of git. Raises as `read` does."""
        contents: dict[str, bytes] = {}
        for batch in _batches(self.files[path] for path in paths):
            names = "".join(f"{file.blob}\n" for file in batch).encode()
            output = await git(self.git_dir, "cat-file", "--batch", input=names)
            contents.update(zip((file.path for file in batch), _parse_objects(output), strict=True))
        return contents

    async def read_text(self, path: str) -> str | None:
        """The content as text, line endings kept; None for a link, a submodule or binary content.

        Raises:
            KeyError: there is no such file.
        """
        if not self.files[path].regular:
            return None
        text = decode_text(path, await self.read(path))
        return text.text if text else None

    async def build_tree(self) -> Tree:
        """Everything but submodules as a tar with owner 0 and one fixed time."""
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for batch in _batches(self.files.values()):
                    contents = await self.read_all(file.path for file in batch)
                    await asyncio.to_thread(_pack, tar, batch, contents)
            archive = Archive(file)
        return Tree(archive, await asyncio.to_thread(archive.sha256))


async def _list_files(
    git_dir: Path, commit: str
) -> tuple[dict[str, File], tuple[SkippedEntry, ...]]:
    files: dict[str, File] = {}
    skipped: list[SkippedEntry] = []
    listing = read_git_entries(git_dir, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
    async with aclosing(listing):
        async for entry in listing:
            facts, _, name = entry.partition(b"\t")
            mode, _, blob, size = facts.decode("ascii").split()
            why = _name_problem(name)
            if why:
                skipped.append(SkippedEntry(name.decode("utf-8", "backslashreplace"), why))
                continue
            path = name.decode("utf-8")
            if size == _ABSENT:
                raise GitFailed("ls-tree", 0, f"{path}: the clone lacks its object {blob}")
            # There are four modes: one string each, however many files there are.
            files[path] = File(path, intern(mode), 0 if size == "-" else int(size), blob)
    return files, tuple(skipped)


def _name_problem(name: bytes) -> str:
    try:
        path = name.decode("utf-8")
    except UnicodeDecodeError:
        return "its name is not UTF-8"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        return "its name holds a control character"
    parts = path.split("/")
    # git refuses to write such trees, but anybody can make one by hand and push it.
    if any(part in ("", ".", "..") or part.lower() == ".git" for part in parts):
        return "its name leads out of the repository"
    return ""


def _batches(files: Iterable[File]) -> Iterator[list[File]]:
    batch: list[File] = []
    size = 0
    for file in files:
        if file.mode == SUBMODULE:
            continue
        if batch and size + file.size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


def _parse_objects(output: bytes) -> Iterator[bytes]:
    """The contents in the output of `git cat-file --batch`, in order."""
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        header = output[at:end].decode("ascii", "replace").split()
        if len(header) != 3:
            raise GitFailed("cat-file", 0, " ".join(header))
        size = int(header[2])
        yield output[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def _pack(tar: tarfile.TarFile, batch: list[File], contents: Mapping[str, bytes]) -> None:
    for file in batch:
        data = contents[file.path]
        info = tarfile.TarInfo(file.path)
        info.mtime = _MTIME
        if file.mode == SYMLINK:
            info.type, info.mode = tarfile.SYMTYPE, 0o777
            info.linkname = data.decode("utf-8", "surrogateescape")
            tar.addfile(info)
        else:
            info.mode = 0o755 if file.mode == "100755" else 0o644
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
