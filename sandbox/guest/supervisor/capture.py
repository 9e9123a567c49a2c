"""Reads what a program changed in its checkout, after all of its processes have ended.

Nothing runs beside it, so the checkout stands still: no path can be exchanged between two looks at
it. The content is hostile all the same: links are read and never followed, and only ordinary files
are opened.
"""

from __future__ import annotations

import base64
import errno
import os
import stat
from collections.abc import Collection, Iterator
from typing import Any, Final

MAX_ENTRIES: Final = 400
MAX_BYTES: Final = 1_500_000
"""The total size of the changed files."""
MAX_DEPTH: Final = 100
MAX_SEEN: Final = 1_000_000
"""Entries of both folders that are looked at."""
CHUNK: Final = 256 * 1024
SKIPPED_FOLDERS: Final = frozenset(
    [
        "__pycache__",
        ".git",
        ".hypothesis",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        "node_modules",
    ]
)
"""What tools leave behind; an installed `node_modules` is no source either."""
OBJECT_CODE: Final = (b"\x7fELF", b"!<arch>\n")
SKIPPED_ENDINGS: Final = (".pyc", ".pyo")
LINK, EXECUTABLE, ORDINARY = "120000", "100755", "100644"

Facts = os.stat_result | None


class CaptureFailed(Exception):
    """The changes cannot be kept; the message is a sentence that says why."""


def capture_changes(tree: str, checkout: str, outputs: Collection[str] = ()) -> dict[str, Any]:
    """`changes`, or `lost` with a sentence.

    A change is a list: path, git's mode, content in Base64, and whether the tree has the path; a
    deleted file has neither mode nor content. A file whose size, mode and time of modification are
    the tree's counts as unchanged; object code is no change, nor is what lies in a folder named in
    `outputs`. Paths are encoded as Python decodes file names.
    """
    try:
        return {"changes": list(find_changes(tree, checkout, SKIPPED_FOLDERS.union(outputs)))}
    except CaptureFailed as problem:
        return {"lost": str(problem)}
    except (OSError, ValueError, RecursionError) as error:
        return {"lost": f"What it changed could not be read: {error}"}


def find_changes(tree: str, checkout: str, skipped: Collection[str]) -> Iterator[list[Any]]:
    left, entries = MAX_BYTES, 0
    for path, old, new in find_differences(tree, checkout, skipped):
        if is_object_code(f"{checkout}/{path}", new):
            continue
        change = read_change(path, (old, new), (tree, checkout), left)
        if change is None:
            continue
        entries += 1
        left -= len(change[2] or "") * 3 // 4
        if entries > MAX_ENTRIES:
            raise CaptureFailed(f"It changed more than {MAX_ENTRIES} files.")
        yield change


def find_differences(
    tree: str, checkout: str, skipped: Collection[str]
) -> Iterator[tuple[str, Facts, Facts]]:
    """Paths that differ by what `lstat` says, with both sides; a folder counts as nothing."""
    seen = 0
    folders = [""]
    while folders:
        folder = folders.pop()
        if folder.count("/") > MAX_DEPTH:
            raise CaptureFailed("It left folders that are nested too deeply.")
        # Without the slash at the end, with which the kernel would follow a link.
        before, after = (list_folder(f"{root}/{folder}".rstrip("/")) for root in (tree, checkout))
        seen += len(before) + len(after)
        if seen > MAX_SEEN:
            raise CaptureFailed("It left too many files.")
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if (is_folder(old) or is_folder(new)) and name not in skipped:
                folders.append(f"{folder}{name}/")
            old, new = (None if is_folder(side) else side for side in (old, new))
            if not name.endswith(SKIPPED_ENDINGS) and not is_same(old, new):
                yield folder + name, old, new


def read_change(
    path: str, sides: tuple[Facts, Facts], roots: tuple[str, str], left: int
) -> list[Any] | None:
    """The change at a path; None if the content is the same."""
    old, new = sides
    there = old is not None
    if new is None:
        return [path, None, None, there]
    data = read_entry(f"{roots[1]}/{path}", new, left)
    if (
        old is not None
        and (find_mode(old), old.st_size) == (find_mode(new), new.st_size)
        and read_entry(f"{roots[0]}/{path}", old, MAX_BYTES) == data
    ):
        return None
    return [path, find_mode(new), base64.b64encode(data).decode("ascii"), there]


def is_object_code(path: str, facts: Facts) -> bool:
    """Whether a file is what a compiler or linker wrote: ELF, or an archive of such files."""
    if facts is None or not stat.S_ISREG(facts.st_mode):
        return False
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(handle, 8).startswith(OBJECT_CODE)
    finally:
        os.close(handle)


def find_mode(facts: os.stat_result) -> str:
    """As git has it."""
    if stat.S_ISLNK(facts.st_mode):
        return LINK
    return EXECUTABLE if facts.st_mode & stat.S_IXUSR else ORDINARY


def list_folder(path: str) -> dict[str, os.stat_result]:
    """What the entries of a folder are, by name; nothing if it is no folder."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link
            return {}
        raise CaptureFailed(f"A folder that it left cannot be read: {error.strerror}.") from None
    try:
        found: dict[str, os.stat_result] = {}
        with os.scandir(handle) as entries:
            for entry in entries:
                found[entry.name] = os.stat(entry.name, dir_fd=handle, follow_symlinks=False)
                if len(found) > MAX_SEEN:
                    raise CaptureFailed("It left too many files.")
        return found
    finally:
        os.close(handle)


def read_entry(path: str, facts: os.stat_result, left: int) -> bytes:
    """The content of an ordinary file, or the target of a link."""
    if stat.S_ISLNK(facts.st_mode):
        return os.fsencode(os.readlink(path))  # noqa: PTH115
    if not stat.S_ISREG(facts.st_mode):
        raise CaptureFailed("It left something in the checkout that is neither a file nor a link.")
    if facts.st_size > left:
        raise CaptureFailed(f"The files that it changed hold more than {MAX_BYTES:,} bytes.")
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        data = bytearray()
        while more := os.read(handle, CHUNK):
            data += more
            if len(data) > left:
                raise CaptureFailed("A file grew while it was read.")
        return bytes(data)
    finally:
        os.close(handle)


def is_folder(facts: os.stat_result | None) -> bool:
    return facts is not None and stat.S_ISDIR(facts.st_mode)


def is_same(old: os.stat_result | None, new: os.stat_result | None) -> bool:
    if old is None or new is None:
        return old is new
    return (old.st_mode, old.st_size, old.st_mtime_ns) == (
        new.st_mode,
        new.st_size,
        new.st_mtime_ns,
    )
