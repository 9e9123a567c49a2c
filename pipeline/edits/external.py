"""Edits from anywhere become candidates: read as git reads them, and written anew by git.

What they say is data: a path, a link or a workflow in them is never opened here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.codebase.commit import SUBMODULE, Codebase
from pipeline.codebase.conventions import Conventions, is_test
from pipeline.codebase.git import GitFailed, git
from pipeline.edits.external_tests import build_test_script
from pipeline.edits.patches import create_scratch_repository, diff_to_tree, is_utf8, mark_binary
from pipeline.types import Candidate, Frozen, Patch, RejectedEdit, TestScript
from sandbox.scratch import scratch_folder

LARGEST: Final = 8 * 1024 * 1024
"""Bytes; a diff larger than this does not take part."""
MOST_FILES: Final = 2_000
_TOO_LARGE: Final = f"It is larger than {LARGEST // 1024 // 1024} MiB."
_NOTHING: Final = "It changes nothing."
_MODES: Final = ("100644", "100755")
_WORDS = 500


@dataclass(frozen=True)
class ExternalEdit:
    """A diff as somebody else made it."""

    name: str
    """What people call it. Untrusted."""
    diff: bytes
    """As git or diff(1) writes it: renames, binary parts, modes, either line ending."""
    problem: str = ""
    """Why there is no diff: it was never read. Untrusted."""


class ImportedEdits(Frozen):
    """What can take part, and what cannot."""

    candidates: tuple[Candidate, ...]
    """Each with a script that runs the tests that it brings, where it brings some."""
    rejected: tuple[RejectedEdit, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out of an edit, in sentences. Untrusted."""


class UnfitEdit(Exception):
    """An edit cannot take part; `str(error)` says why. Untrusted."""


@dataclass(frozen=True)
class _Change:
    path: str
    modes: tuple[str, str]
    blobs: tuple[str, str]


async def import_edits(
    codebase: Codebase, edits: Sequence[ExternalEdit], conventions: Conventions
) -> ImportedEdits:
    """The edits as candidates, numbered in their order; those that do not apply are `rejected`."""
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
    git_dir: Path | None, old: str, new: str, name: str, *, cwd: Path | None = None
) -> ExternalEdit:
    """What the commit `new` changes of the commit `old`; its blobs are measured before it is made.

    Raises:
        GitFailed: one of them is not there.
    """
    raw = await git(
        git_dir, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", old, new,
        cwd=cwd,
    )  # fmt: skip
    blobs = {blob for facts in raw.split(b"\0")[:-1:2] for blob in facts.split()[2:4]}
    names = b"".join(blob + b"\n" for blob in sorted(blobs))
    listed = await git(git_dir, "cat-file", "--batch-check=%(objectsize)", input=names, cwd=cwd)
    if sum(int(line) for line in listed.split(b"\n") if line.isdigit()) > LARGEST:
        return ExternalEdit(name, b"", _TOO_LARGE)
    diff = await git(
        git_dir, "diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
        "--no-textconv", "--no-color", "--end-of-options", old, new, cwd=cwd,
    )  # fmt: skip
    return ExternalEdit(name, diff)


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
        await _apply_diff(scratch, codebase, edit.diff)
        tree, changes = await _write_tree(scratch, codebase)
        if any(SUBMODULE in change.modes for change in changes):
            notes.append("what it does to submodules is left out.")
            tree, changes = await _drop_submodules(scratch, codebase, changes)
        if not changes:
            raise UnfitEdit(_NOTHING)
        if len(changes) > MOST_FILES:
            raise UnfitEdit(f"It changes more than {MOST_FILES:,} files.")
        contents = await _read_contents(scratch, changes)
        binary = [
            change.path
            for change in changes
            if not all(is_utf8(contents.get(blob)) for blob in change.blobs)
        ]
        await asyncio.to_thread(mark_binary, scratch, binary)
        patch = await diff_to_tree(scratch, codebase, tree)
    brought = {
        change.path: contents[change.blobs[1]]
        for change in changes
        if change.modes[1] in _MODES and is_test(change.path)
    }
    test, problem = build_test_script(brought, conventions)
    return patch, test, [*notes, *([problem] if problem else [])]


async def _apply_diff(scratch: Path, codebase: Codebase, diff: bytes) -> None:
    """The index with the diff applied, in the first of several readings that fits."""
    readings = [(diff, ()), (diff, ("--3way",))]
    if b"\r\n" in diff:
        readings.append((diff.replace(b"\r\n", b"\n"), ()))
    else:
        readings.append((_to_crlf(diff), ()))
    readings.append((diff, ("-p0",)))
    words = ""
    for data, options in readings:
        await git(scratch, "read-tree", codebase.commit)
        try:
            await git(
                scratch, "apply", "--cached", "--whitespace=nowarn", *options, "-", input=data
            )
        except GitFailed as failure:
            words = words or failure.words
            continue
        return
    raise UnfitEdit(words[:_WORDS] or "It does not apply.")


def _to_crlf(diff: bytes) -> bytes:
    """For files with the line ends of Windows, whose carriage returns a mail or form has lost."""
    return re.sub(rb"(?m)^(?!(?:---|\+\+\+) )([ +-][^\r\n]*)$", rb"\1\r", diff)


async def _write_tree(scratch: Path, codebase: Codebase) -> tuple[str, list[_Change]]:
    tree = (await git(scratch, "write-tree")).decode().strip()
    raw = await git(
        scratch, "diff-tree", "-r", "-z", "--raw", "--no-renames", codebase.commit, tree
    )
    fields = raw.split(b"\0")[:-1]
    changes: list[_Change] = []
    for facts, name in zip(fields[::2], fields[1::2], strict=True):
        old, new, before, after, _ = facts.decode("ascii").removeprefix(":").split()
        try:
            path = name.decode("utf-8")
        except UnicodeDecodeError:
            raise UnfitEdit("A path in it is not UTF-8.") from None
        changes.append(_Change(path, (old, new), (before, after)))
    return tree, changes


async def _drop_submodules(
    scratch: Path, codebase: Codebase, changes: Sequence[_Change]
) -> tuple[str, list[_Change]]:
    lines: list[bytes] = []
    for change in changes:
        if SUBMODULE in change.modes:
            mode, blob = change.modes[0], change.blobs[0]
            lines.append(f"{mode.lstrip('0') or '0'} {blob}\t{change.path}\0".encode())
    await git(scratch, "update-index", "-z", "--index-info", input=b"".join(lines))
    return await _write_tree(scratch, codebase)


async def _read_contents(scratch: Path, changes: Sequence[_Change]) -> Mapping[str, bytes]:
    """By blob. One that is not there, as for what is new or gone, is left out."""
    blobs = dict.fromkeys(b for change in changes for b in change.blobs if b.strip("0"))
    names = "".join(f"{blob}\n" for blob in blobs).encode()
    output = await git(scratch, "cat-file", "--batch", input=names)
    found: dict[str, bytes] = {}
    at = 0
    for blob in blobs:
        end = output.index(b"\n", at)
        facts = output[at:end].split()
        at = end + 1
        if len(facts) == 3:
            size = int(facts[2])
            found[blob] = output[at : at + size]
            at += size + 1
    return found
