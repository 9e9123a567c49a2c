"""Reads one commit from git's objects, and the recent history."""

from __future__ import annotations

import asyncio
import io
import re
import tarfile
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from pipeline.codebase.git import CodebaseTooLarge, GitFailed, git, read_git_entries
from pipeline.codebase.recent_bytes import RecentBytes
from pipeline.codebase.text import decode_text, decode_texts
from pipeline.data.types import CommitSha
from sandbox.tree import Archive, Tree

SYMLINK = "120000"
SUBMODULE = "160000"
RECENT_BYTES = 4 * 1024 * 1024
"""The total size of the file contents that a codebase keeps in memory."""
MOST_FILES = 300_000
MOST_PATH_BYTES = 64 * 1024 * 1024
"""The total bytes of all paths."""
LONGEST_PATH = 4_096
"""Bytes; Linux cannot open a longer path."""
MOST_BYTES = 4 * 1024 * 1024 * 1024
"""The total bytes of all files, counted per path: equal files are one blob in git."""
LARGEST_FILE = 256 * 1024 * 1024
"""Bytes; GitHub accepts no file above 100 MiB."""
MOST_TEXT = 8 * 1024 * 1024
"""Bytes; a larger file is never read as text: reading and searching it takes seconds."""
MOST_SETTINGS = 512 * 1024
"""Bytes of a file that says how a repository is built or tested."""
MOST_TEXTS = 64 * 1024 * 1024
"""Bytes of files that are read as text at once: equal files are one blob, so few KB name many."""
MOST_SECONDS = 300.0
"""The time limit of one listing. A tree of empty folders can take forever and list nothing."""


MOST_POINTERS = 5_000
"""How many small files are looked at for a pointer of Git LFS."""
LARGE_FILES = "lfs"
"""The folder of a clone that holds files of Git LFS, each named by its SHA-256."""
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\r?\noid sha256:([0-9a-f]{64})\r?\n"
    rb"size (\d{1,12})\r?\n"
)
"""https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md#the-pointer; whose own reader takes
CRLF, which some repositories have."""


@dataclass(frozen=True, slots=True)
class File:
    path: str
    mode: str
    """Git's mode: `100644`, `100755`, `120000` (link) or `160000` (submodule)."""
    size: int
    """Bytes; 0 for a submodule."""
    blob: str
    """Git's name of the content."""

    @property
    def regular(self) -> bool:
        return self.mode not in (SYMLINK, SUBMODULE)


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """An entry that is not in `Codebase.files`, with the reason."""

    path: str
    why: str


@dataclass(frozen=True)
class Codebase:
    """Every file of one commit. `files` is empty for an empty repository."""

    git_dir: Path
    commit: CommitSha
    """The full name of the commit; empty if the repository has no commit."""
    files: Mapping[str, File]
    skipped: tuple[SkippedEntry, ...] = ()
    recent: RecentBytes = field(
        default_factory=lambda: RecentBytes(RECENT_BYTES), repr=False, compare=False
    )
    """Contents by blob, and logs by command: the steps of a run read the same files."""
    once: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    """What a look at all paths found, by what was looked for: there may be 300,000."""
    root: str = ""
    """The project's folder, where the maintainers or the issue name one."""
    language: str = ""
    """The project's language, where the maintainers name one; see `registry.NAMES`."""
    submodules: Mapping[str, Codebase] = field(default_factory=dict[str, "Codebase"])
    """Those that are part of it, by their paths; edits change none."""

    @classmethod
    async def open(cls, git_dir: Path, commit: str) -> Codebase:
        """Open the files at `commit` (any name git understands) of the repository at `git_dir`.

        A repository without commits is an empty codebase for any `commit`.

        Raises:
            GitFailed: there are commits, but not this one, or the clone is not whole.
            CodebaseTooLarge: the number or size of its files exceeds the limits.
        """
        name = f"{commit}^{{commit}}"
        try:
            found = await git(git_dir, "rev-parse", "--verify", "--end-of-options", name)
        except GitFailed:
            if await git(git_dir, "for-each-ref", "--count=1"):
                raise
            return cls(git_dir, CommitSha(""), {})
        full = CommitSha(found.decode().split()[-1])
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
        if (known := self.recent.get(file.blob)) is not None:
            return known
        content = await git(self.git_dir, "cat-file", "blob", file.blob)
        self.recent.add(file.blob, content)
        return content

    async def read_all(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Read the contents of many files, in few calls of git.

        Raises:
            KeyError: a file does not exist.
        """
        wanted = {path: self.files[path] for path in paths}
        known = {path: self.recent.get(file.blob) for path, file in wanted.items()}
        contents = {path: content for path, content in known.items() if content is not None}
        for batch in _batches(file for path, file in wanted.items() if path not in contents):
            names = "".join(f"{file.blob}\n" for file in batch).encode()
            output = await git(self.git_dir, "cat-file", "--batch", input=names)
            for file, content in zip(batch, parse_objects(output), strict=True):
                contents[file.path] = content
                self.recent.add(file.blob, content)
        return {path: contents[path] for path in wanted if path in contents}

    async def read_text(self, path: str) -> str | None:
        """The content as text, line endings kept; None for a link, a submodule, binary content or a
        file larger than `MOST_TEXT`.

        Raises:
            KeyError: there is no such file.
        """
        if not self.files[path].regular or self.files[path].size > MOST_TEXT:
            return None
        text = await asyncio.to_thread(decode_text, path, await self.read(path))
        return text.text if text else None

    async def read_texts(
        self, paths: Iterable[str], *, largest: int = MOST_SETTINGS, most: int = MOST_TEXTS
    ) -> dict[str, str]:
        """The texts of those `paths` that are text files, in their order; without files larger
        than `largest` bytes, and those beyond `most` bytes in all.
        """
        kept: list[str] = []
        for path in paths:
            file = self.files.get(path)
            if file and file.regular and file.size <= min(largest, most):
                most -= file.size
                kept.append(path)
        return await asyncio.to_thread(decode_texts, await self.read_all(kept))

    async def read_date(self) -> date | None:
        """The day of the commit, by its committer; None without a commit."""
        if not self.commit:
            return None
        stated = await git(self.git_dir, "show", "-s", "--format=%cs", self.commit)
        try:
            return date.fromisoformat(stated.decode("ascii", "replace").strip())
        except ValueError:
            return None  # git stores any year that the committer claims

    async def describe(self) -> str:
        """The output of `git describe --tags --long`; empty if no tag with a number is
        reachable."""
        if not self.commit:
            return ""
        words = ("describe", "--tags", "--long", "--match", "*[0-9]*", self.commit)
        said = await git(self.git_dir, *words, accept=(0, 128))
        return said.decode("utf-8", "replace").strip()

    async def find_paths(self, fits: Callable[[str], object]) -> list[str]:
        """The paths that `fits` likes, sorted; looked for beside the loop."""
        return await asyncio.to_thread(lambda: sorted(filter(fits, self.files)))

    async def build_tree(self) -> Tree:
        """A tar of all files, with owner 0 and a fixed time; of Git LFS, what the clone holds."""
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for folder, part in self.list_parts():
                    pack = _Packer(tar, folder, part.git_dir / LARGE_FILES)
                    for batch in _batches(part.files.values()):
                        contents = await part.read_all(file.path for file in batch)
                        await asyncio.to_thread(pack.add_all, batch, contents)
            archive = Archive(file)
        return Tree(archive, await asyncio.to_thread(archive.sha256))

    def list_parts(self) -> list[tuple[str, Codebase]]:
        """This code and that of its submodules, each with the folder that its paths begin with:
        empty, or with a slash at its end."""
        parts: list[tuple[str, Codebase]] = [("", self)]
        for folder, part in parts:  # which grows
            parts += [(f"{folder}{path}/", one) for path, one in part.submodules.items()]
        return parts

    async def list_pointers(self) -> dict[str, Pointer]:
        """By path, what the files of Git LFS stand for; empty where no attributes name it."""
        named = [path for path in self.files if path.rpartition("/")[2] == ".gitattributes"]
        texts = await self.read_texts(named[:100])
        if not any("filter=lfs" in text for text in texts.values()):
            return {}
        small = [f.path for f in self.files.values() if f.regular and 100 < f.size < 200]
        contents = await self.read_all(small[:MOST_POINTERS])
        found = ((path, read_pointer(content)) for path, content in contents.items())
        return {path: pointer for path, pointer in found if pointer}

    async def list_absent(self) -> list[str]:
        """The submodules that are not part of it, and the files of Git LFS that the clone lacks."""
        links, large = list[str](), list[str]()
        for folder, part in self.list_parts():
            place, pointers = part.git_dir / LARGE_FILES, await part.list_pointers()
            lost = {path for path, one in pointers.items() if not (place / one.sha256).is_file()}
            for path, file in part.files.items():
                if file.mode == SUBMODULE and path not in part.submodules:
                    links.append(f"{folder}{path}")
                elif path in lost:
                    large.append(f"{folder}{path}")
        return links + large


class Pointer(NamedTuple):
    """What a file of Git LFS stands for."""

    sha256: str
    size: int


def read_pointer(content: bytes) -> Pointer | None:
    found = _POINTER.fullmatch(content)
    return Pointer(found[1].decode(), int(found[2])) if found else None


async def _list_files(
    git_dir: Path, commit: CommitSha
) -> tuple[dict[str, File], tuple[SkippedEntry, ...]]:
    files: dict[str, File] = {}
    skipped: list[SkippedEntry] = []
    left = MOST_BYTES
    listing = list_tree(git_dir, commit, "-l")
    async with aclosing(listing):
        async for entries in listing:
            for entry in entries:
                file = _parse_entry(entry)
                if isinstance(file, SkippedEntry):
                    skipped.append(file)
                    continue
                files[file.path] = file
                left -= file.size
            if left < 0:
                raise CodebaseTooLarge(f"Its files hold more than {MOST_BYTES >> 30} GiB.")
    return files, tuple(skipped)


def _parse_entry(entry: bytes) -> File | SkippedEntry:
    facts, _, name = entry.partition(b"\t")
    mode, _, blob, size = facts.decode("ascii").split()
    if why := _name_problem(name):
        return SkippedEntry(name.decode("utf-8", "backslashreplace"), why)
    path = name.decode("utf-8")
    # The size that `ls-tree -l` prints for a missing object.
    if size == "BAD":
        raise GitFailed("ls-tree", 0, f"{path}: the clone lacks its object {blob}")
    # There are four modes: intern them, however many files there are.
    file = File(path, intern(mode), 0 if size == "-" else int(size), blob)
    if file.size > LARGEST_FILE:
        raise CodebaseTooLarge(f"{path} is larger than {LARGEST_FILE >> 20} MiB.")
    return file


async def list_tree(git_dir: Path, commit: str, *options: str) -> AsyncGenerator[list[bytes], None]:
    """List the entries of `git ls-tree -r -z` in batches; close the generator to end early.

    Raises:
        GitFailed: the commit or one of its trees is missing.
        CodebaseTooLarge: there are too many entries, or git takes too long.
    """
    listing = read_git_entries(git_dir, "ls-tree", "-r", "-z", *options, "--full-tree", commit)
    count, left = 0, MOST_PATH_BYTES
    until = asyncio.get_running_loop().time() + MOST_SECONDS
    async with aclosing(listing):
        while True:
            try:
                async with asyncio.timeout_at(until):
                    entries = await anext(listing, None)
            except TimeoutError:
                raise CodebaseTooLarge(
                    f"Its files could not be listed in {MOST_SECONDS:.0f} seconds."
                ) from None
            if entries is None:
                return
            count, left = count + len(entries), left - sum(map(len, entries))
            if count > MOST_FILES:
                raise CodebaseTooLarge(f"It has more than {MOST_FILES:,} files.")
            if left < 0:
                raise CodebaseTooLarge(f"Its paths are longer than {MOST_PATH_BYTES >> 20} MiB.")
            yield entries


def _name_problem(name: bytes) -> str:
    try:
        path = name.decode("utf-8")
    except UnicodeDecodeError:
        return "its name is not UTF-8"
    if re.search(r"[\x00-\x1f\x7f]", path):
        return "its name holds a control character"
    if len(name) > LONGEST_PATH:
        return f"its path is longer than {LONGEST_PATH:,} bytes"
    parts = path.split("/")
    # git refuses to write such trees, but anybody can build and push one.
    if any(part in ("", ".", "..") or part.lower() == ".git" for part in parts):
        return "its name leads out of the repository"
    return ""


def _batches(files: Iterable[File]) -> Iterator[list[File]]:
    batch: list[File] = []
    size = 0
    for file in files:
        if file.mode == SUBMODULE:
            continue
        # File content requested from git at once, in bytes: bounds memory on a big repository.
        if batch and size + file.size > 16 * 1024 * 1024:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


def parse_objects(output: bytes) -> Iterator[bytes]:
    """Split the output of `git cat-file --batch` into the contents, in order."""
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        header = output[at:end].decode("ascii", "replace").split()
        if len(header) != 3:
            raise GitFailed("cat-file", 0, " ".join(header))
        size = int(header[2])
        yield output[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


class _Packer(NamedTuple):
    tar: tarfile.TarFile
    folder: str
    large: Path

    def add_all(self, batch: list[File], contents: Mapping[str, bytes]) -> None:
        for file in batch:
            data = contents[file.path]
            info = tarfile.TarInfo(f"{self.folder}{file.path}")
            # The modification time of every file in a tree's tar, so that equal trees make equal
            # tars.
            info.mtime = 1_000_000_000
            info.mode = 0o755 if file.mode == "100755" else 0o644
            pointer = read_pointer(data)
            if file.mode == SYMLINK:
                info.type, info.mode = tarfile.SYMTYPE, 0o777
                info.linkname = data.decode("utf-8", "surrogateescape")
                self.tar.addfile(info)
            elif pointer and (place := self.large / pointer.sha256).is_file():
                info.size = place.stat().st_size
                with place.open("rb") as content:
                    self.tar.addfile(info, content)
            else:
                info.size = len(data)
                self.tar.addfile(info, io.BytesIO(data))


FETCHED_COMMITS = 300
"""How many commits back a clone goes: the commit that fixed an issue is looked for among them."""
MOST_PATHS = 60
"""A commit that changes more files does not show which belong together."""
SECONDS = 20.0


@dataclass(frozen=True)
class PastCommit:
    """One commit with the files it changes."""

    subject: str
    """Its first line. Untrusted."""
    paths: frozenset[str]


async def read_log(codebase: Codebase, *options: str, paths: Iterable[str] = ()) -> bytes:
    """What `git log` says of the commit and those before it, only of `paths` if there are any.

    Every edit of a file asks for the same log, so it is kept.

    Raises:
        GitFailed: git cannot read it.
    """
    words = ("log", *options, codebase.commit, "--", *paths)
    key = "\0".join(words)
    output = codebase.recent.get(key)
    if output is None:
        output = await git(codebase.git_dir, *words)
        codebase.recent.add(key, output)
    return output


async def read_history(codebase: Codebase) -> tuple[PastCommit, ...]:
    """The recent commits in the clone, newest first; empty if git is too slow."""
    if not codebase.commit:
        return ()
    options = ("--max-count=50", "--no-merges", "--no-renames", "--name-only", "-z")
    try:
        async with asyncio.timeout(SECONDS):
            output = await read_log(codebase, *options, "--format=%x01%s%x02")
    except (GitFailed, TimeoutError):
        return ()
    commits: list[PastCommit] = []
    for part in output.decode("utf-8", "replace").split("\x01")[1:]:
        subject, _, names = part.partition("\x02")
        paths = frozenset(name.strip("\n") for name in names.split("\0")) - {""}
        commits.append(PastCommit(" ".join(subject.split())[:200], paths))
    # The oldest commit of a shallow clone appears to add every file.
    return tuple(commit for commit in commits if 0 < len(commit.paths) <= MOST_PATHS)


def count_changes_together(history: Sequence[PastCommit], paths: Iterable[str], other: str) -> int:
    """The number of commits in which `other` changed together with one of `paths`."""
    wanted = frozenset(paths)
    return sum(other in commit.paths and bool(wanted & commit.paths) for commit in history)
