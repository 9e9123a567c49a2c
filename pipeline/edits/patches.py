"""Turns changed contents into a diff made by git, so that it always applies to the base commit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.types import Patch
from sandbox.scratch import scratch_folder

_DIFF = (
    "diff-tree",
    "-p",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


async def create_patch(
    codebase: Codebase,
    changes: Mapping[str, bytes | None],
    modes: Mapping[str, str] | None = None,
) -> Patch:
    """The diff from `codebase` to it with `changes` made; None deletes a file.

    `modes` are git's modes of new files that are not ordinary ones; a file there is keeps its own.

    The new objects go to a scratch repository that borrows the codebase's; its own stays as it is.
    A file that is not UTF-8 before or after appears as a binary patch, since a diff here is text.
    """
    before = await codebase.read_all(path for path in changes if path in codebase.files)
    binary = [
        path for path, data in changes.items() if not (is_utf8(data) and is_utf8(before.get(path)))
    ]
    with scratch_folder("patch") as scratch:
        await asyncio.to_thread(create_scratch_repository, scratch, codebase)
        await asyncio.to_thread(mark_binary, scratch, binary)
        known = {**(modes or {}), **{path: file.mode for path, file in codebase.files.items()}}
        index = [
            await _write_entry(scratch, codebase, path, data, known.get(path, "100644"))
            for path, data in changes.items()
        ]
        await git(scratch, "read-tree", codebase.commit)
        await git(scratch, "update-index", "-z", "--index-info", input=b"".join(index))
        tree = (await git(scratch, "write-tree")).decode().strip()
        return await diff_to_tree(scratch, codebase, tree)


async def diff_to_tree(scratch: Path, codebase: Codebase, tree: str) -> Patch:
    """The diff from `codebase` to `tree`, which is in the scratch repository."""
    diff = await git(scratch, *_DIFF, codebase.commit, tree)
    return Patch(diff=diff.decode("utf-8"))


def create_scratch_repository(scratch: Path, codebase: Codebase) -> None:
    """Make the empty folder `scratch` a bare repository that borrows the objects of `codebase`."""
    sha256 = len(codebase.commit) == 64
    config = f"[core]\n\tbare = true\n\trepositoryformatversion = {int(sha256)}\n"
    if sha256:
        config += "[extensions]\n\tobjectFormat = sha256\n"
    for place in ("refs", "objects/info", "info"):
        (scratch / place).mkdir(parents=True)
    objects = codebase.git_dir.absolute() / "objects"
    (scratch / "HEAD").write_text("ref: refs/heads/none\n")
    (scratch / "config").write_text(config)
    (scratch / "objects/info/alternates").write_text(f"{objects}\n")
    mark_binary(scratch, ())


def mark_binary(scratch: Path, binary: Sequence[str]) -> None:
    """Have the paths `binary` shown as binary parts, and every other as text."""
    # These come before any .gitattributes: no attribute of the repository hides a change.
    lines = ["* !diff !text !eol !filter\n"]
    lines += [f"{_pattern(path)} -diff\n" for path in binary]
    (scratch / "info/attributes").write_text("".join(lines), encoding="utf-8")


async def _write_entry(
    scratch: Path, codebase: Codebase, path: str, data: bytes | None, mode: str
) -> bytes:
    if data is None:
        blob, mode = "0" * len(codebase.commit), "0"
    else:
        output = await git(scratch, "hash-object", "-w", "--no-filters", "--stdin", input=data)
        blob = output.decode().strip()
    return f"{mode} {blob}\t{path}\0".encode()


def is_utf8(data: bytes | None) -> bool:
    """Whether a file of this content, or none, can stand in a diff as text."""
    try:
        (data or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _pattern(path: str) -> str:
    """An attribute pattern for exactly this path."""
    plain = re.sub(r"([\\*?\[\]])", r"\\\1", path)
    quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"/{quoted}"'
