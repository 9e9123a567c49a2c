"""Turns edits from any source into candidates: git reads and rewrites them.

Their contents are data: a path, link or workflow in them is never opened here.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.codebase.commit import SUBMODULE, Codebase
from pipeline.codebase.git import GitFailed, git, read_git_entries
from pipeline.data.types import Candidate, Patch, RejectedEdit, TestScript
from pipeline.edits.patches import (
    TreeChange,
    create_scratch_repository,
    diff_to_tree,
    is_utf8,
    mark_binary,
    read_blobs,
    write_tree,
)
from pipeline.languages.conventions import Conventions, is_test
from pipeline.languages.registry import main_language
from sandbox.frozen import Frozen
from sandbox.scratch import scratch_folder

LARGEST: Final = 8 * 1024 * 1024
"""Bytes; a larger diff is rejected."""
MOST_FILES: Final = 2_000
_TOO_LARGE: Final = f"It is larger than {LARGEST // 1024 // 1024} MiB."
_TOO_MANY: Final = f"It changes more than {MOST_FILES:,} files."
MOST_CONTENT: Final = 64 * 1024 * 1024
"""Bytes of the files that an edit changes, before and after together."""
_CONTENT_TOO_LARGE: Final = f"The files that it changes are larger than {MOST_CONTENT >> 20} MiB."
_COMPARE_SECONDS: Final = 120.0
_NOTHING: Final = "It changes nothing."


@dataclass(frozen=True)
class ExternalEdit:
    """A diff from outside."""

    name: str
    """Shown to people. Untrusted."""
    diff: bytes
    """The output of git or diff(1): renames, binary parts, modes, either line ending."""
    problem: str = ""
    """Why the diff could not be read. Untrusted."""


class ImportedEdits(Frozen):
    """The edits that can be candidates, and those that cannot."""

    candidates: tuple[Candidate, ...]
    """Each with a script that runs the tests it contains, if any."""
    rejected: tuple[RejectedEdit, ...] = ()
    notes: tuple[str, ...] = ()
    """Omitted parts of edits, in sentences. Untrusted."""


_COLOUR: Final = re.compile(rb"\x1b\[[\d;]*[mK]")


class UnfitEdit(Exception):
    """An edit cannot be a candidate; `str(error)` says why. Untrusted."""


async def import_edits(
    codebase: Codebase, edits: Sequence[ExternalEdit], conventions: Conventions
) -> ImportedEdits:
    """Turn the edits into candidates, numbered in order; edits that do not apply are `rejected`."""
    candidates: list[Candidate] = []
    rejected: list[RejectedEdit] = []
    notes: list[str] = []
    for number, edit in enumerate(edits):
        try:
            patch, test, left_out = await _import_edit(codebase, edit, conventions)
        except UnfitEdit as unfit:
            rejected.append(RejectedEdit(name=edit.name, why=str(unfit)))
            continue
        candidates.append(Candidate(sample=number, patch=patch, test=test, source=edit.name))
        notes += [f"{edit.name}: {note}" for note in left_out]
    return ImportedEdits(candidates=tuple(candidates), rejected=tuple(rejected), notes=tuple(notes))


async def diff_commits(
    git_dir: Path, old: str, new: str, name: str, *, content: int = LARGEST
) -> ExternalEdit:
    """The diff from commit `old` to commit `new`; the blobs are measured before the diff is made.

    `content`: how many bytes the files that differ may have, before and after together.

    Raises:
        GitFailed: a commit is missing.
    """
    try:
        async with asyncio.timeout(_COMPARE_SECONDS):
            blobs = await _list_changed_blobs(git_dir, old, new)
            if len(blobs) > 2 * MOST_FILES:
                return ExternalEdit(name, b"", _TOO_MANY)
            if await _measure(git_dir, blobs) > content:
                return ExternalEdit(name, b"", _TOO_LARGE)
            diff = await git(
                git_dir, "diff-tree", "-p", "--binary", "--full-index", "--no-renames",
                "--no-ext-diff", "--no-textconv", "--no-color", "--end-of-options", old, new,
            )  # fmt: skip
    except TimeoutError:
        return ExternalEdit(
            name, b"", f"It could not be compared within {_COMPARE_SECONDS:.0f} seconds."
        )
    if len(diff) > LARGEST:
        return ExternalEdit(name, b"", _TOO_LARGE)
    return ExternalEdit(name, diff)


async def _list_changed_blobs(git_dir: Path, old: str, new: str) -> list[str]:
    """The blobs before and after each changed path; slightly too many if there are too many."""
    fields: list[bytes] = []
    listing = read_git_entries(
        git_dir, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", old, new
    )  # fmt: skip
    async with aclosing(listing):
        async for entries in listing:
            fields += entries
            if len(fields) > 4 * MOST_FILES:
                break
    # A path follows each entry.
    return [blob for facts in fields[::2] for blob in facts.decode("ascii").split()[2:4]]


async def _measure(git_dir: Path, blobs: Sequence[str]) -> int:
    """The total bytes; a repeated blob counts each time, as each of its paths is in the diff."""
    names = "".join(f"{blob}\n" for blob in blobs).encode()
    listed = await git(git_dir, "cat-file", "--batch-check=%(objectsize)", input=names)
    return sum(int(line) for line in listed.split(b"\n") if line.isdigit())


async def _import_edit(
    codebase: Codebase, edit: ExternalEdit, conventions: Conventions
) -> tuple[Patch, TestScript | None, list[str]]:
    if edit.problem:
        raise UnfitEdit(edit.problem)
    if len(edit.diff) > LARGEST:
        raise UnfitEdit(_TOO_LARGE)
    if not edit.diff.strip():
        raise UnfitEdit(_NOTHING)
    notes: list[str] = []
    with scratch_folder("foreign") as scratch:
        await asyncio.to_thread(create_scratch_repository, scratch, codebase)
        # As copied from a terminal: in colour, without the last line's end.
        plain = _COLOUR.sub(b"", edit.diff) if edit.diff.startswith(b"\x1b[") else edit.diff
        await _apply_diff(scratch, codebase, plain + b"\n" * (not plain.endswith(b"\n")))
        try:
            tree, changes = await write_tree(scratch, codebase)
        except UnicodeDecodeError:
            raise UnfitEdit("A path in it is not UTF-8.") from None
        if any(SUBMODULE in change.modes for change in changes):
            notes.append("what it does to submodules is left out.")
            tree, changes = await _drop_submodules(scratch, codebase, changes)
        await _check_size(scratch, changes)
        contents = await read_blobs(scratch, [blob for one in changes for blob in one.blobs])
        binary = [
            change.path
            for change in changes
            if not all(is_utf8(contents.get(blob)) for blob in change.blobs)
        ]
        await asyncio.to_thread(mark_binary, scratch, binary)
        patch = await diff_to_tree(scratch, codebase, tree)
    if len(patch.diff) > 2 * LARGEST:  # as git writes it, with more lines around each change
        raise UnfitEdit(_TOO_LARGE)
    brought = {
        change.path: contents[change.blobs[1]]
        for change in changes
        if change.modes[1] in ("100644", "100755") and is_test(change.path)
    }
    test, problem = main_language(codebase).build_test_script(brought, conventions)
    return patch, test, [*notes, *([problem] if problem else [])]


async def _check_size(scratch: Path, changes: Sequence[TreeChange]) -> None:
    """Raise `UnfitEdit` if there is no change, or more than the limits allow."""
    if not changes:
        raise UnfitEdit(_NOTHING)
    if len(changes) > MOST_FILES:
        raise UnfitEdit(_TOO_MANY)
    blobs = [blob for change in changes for blob in change.blobs if blob.strip("0")]
    if await _measure(scratch, blobs) > MOST_CONTENT:
        raise UnfitEdit(_CONTENT_TOO_LARGE)


async def _apply_diff(scratch: Path, codebase: Codebase, diff: bytes) -> None:
    """Apply the diff to the index, in the first reading that fits."""
    readings = [(diff, ()), (diff, ("--3way",))]
    if b"\r\n" in diff:
        readings.append((diff.replace(b"\r\n", b"\n"), ()))
    else:
        readings.append((await asyncio.to_thread(_to_crlf, diff), ()))
    readings.append((diff, ("-p0",)))
    words = ""
    for data, options in readings:
        await git(scratch, "read-tree", codebase.commit)
        try:
            await git(
                scratch, "apply", "--cached", "--whitespace=nowarn", *options, "-", input=data,
                memory=512 * 1024 * 1024,  # a binary part unpacks to a thousand times its size
            )  # fmt: skip
        except GitFailed as failure:
            if re.search(r"out of memory|cannot allocate memory", failure.words, re.IGNORECASE):
                raise UnfitEdit(_CONTENT_TOO_LARGE) from None
            words = words or failure.words
            continue
        return
    raise UnfitEdit(words[:500] or "It does not apply.")


def _to_crlf(diff: bytes) -> bytes:
    """Restore the carriage returns of Windows line endings, which mail or a form has removed."""
    lines = diff.split(b"\n")
    return b"\n".join(line + b"\r" if _is_lf_line(line) else line for line in lines)


def _is_lf_line(line: bytes) -> bool:
    return (
        line.startswith((b" ", b"+", b"-"))
        and not line.startswith((b"--- ", b"+++ "))
        and b"\r" not in line
    )


async def _drop_submodules(
    scratch: Path, codebase: Codebase, changes: Sequence[TreeChange]
) -> tuple[str, list[TreeChange]]:
    lines: list[bytes] = []
    for change in changes:
        if SUBMODULE in change.modes:
            mode, blob = change.modes[0], change.blobs[0]
            lines.append(f"{mode.lstrip('0') or '0'} {blob}\t{change.path}\0".encode())
    await git(scratch, "update-index", "-z", "--index-info", input=b"".join(lines))
    return await write_tree(scratch, codebase)
