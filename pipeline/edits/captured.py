"""Turns what a command left in its checkout into an edit; the guards of written edits apply."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.codebase.commit import MOST_SETTINGS, SYMLINK, Codebase
from pipeline.codebase.git import PATTERN_SECONDS, GitTooSlow, git
from pipeline.codebase.text import decode_text
from pipeline.edits.patches import check_form, create_patch, create_scratch_repository, refusal
from pipeline.edits.read import MAX_DIFF_CHARACTERS, MAX_FILE_BYTES, ParsedEdit, check_conflicts
from pipeline.replies import Malformed
from sandbox.program import Change
from sandbox.scratch import scratch_folder

MOST_FILES = 50
"""Files of one edit."""
_IGNORE_FILE = ".gitignore"


async def read_captured(
    changes: Sequence[Change],
    codebase: Codebase,
    *,
    never_touch: Iterable[str] = (),
    allow_lock_files: bool = False,
) -> ParsedEdit | Malformed:
    """The edit that `changes` make of `codebase`; its diff is empty if they make none.

    What git ignores there, and files of the installation that git does not know, are left out. The
    hint names what may not be in an edit; then nothing is taken over.
    """
    try:
        kept = await _drop_unversioned(changes, codebase)
    except GitTooSlow:
        return Malformed(
            "It left new files, and git could not match them with the repository's .gitignore in "
            "time. Remove new files that do not belong to the fix."
        )
    if len(kept) > MOST_FILES:
        return Malformed(
            f"It left {len(kept)} changed files; an edit may change {MOST_FILES}. "
            + _name_paths(kept)
        )
    guards = tuple(never_touch)
    for change in kept:
        refused = refusal(
            change.path, codebase.files, guards, allow_lock_files=allow_lock_files
        ) or await _check_content(change, codebase)
        if refused:
            return Malformed(refused)
    contents = check_conflicts({change.path: change.content for change in kept}, codebase)
    if isinstance(contents, Malformed):
        return contents
    patch = await create_patch(codebase, contents, {change.path: change.mode for change in kept})
    if len(patch.diff) > MAX_DIFF_CHARACTERS:
        return Malformed("The edit is too big. Change only what the issue needs.")
    return ParsedEdit(patch, contents)


async def _check_content(change: Change, codebase: Codebase) -> str | None:
    if change.content is None:
        return None
    if change.mode == SYMLINK:
        return f"{change.path} is a symbolic link, which an edit may not create."
    if len(change.content) > MAX_FILE_BYTES:
        return f"{change.path} is larger than {MAX_FILE_BYTES} bytes."
    if decode_text(change.path, change.content) is None:
        return f"{change.path} is not a text file: an edit may neither create nor change one."
    if change.path in codebase.files and await codebase.read_text(change.path) is None:
        return f"{change.path} was not a text file: leave it as it is."
    return None


async def _drop_unversioned(changes: Sequence[Change], codebase: Codebase) -> list[Change]:
    known = [change for change in changes if change.path in codebase.files]
    new = [c for c in changes if c.path not in codebase.files and not c.was_there]
    ignored = await _find_ignored([c.path for c in new if c.content is not None], codebase)
    return [*known, *(c for c in new if c.content is not None and c.path not in ignored)]


async def _find_ignored(paths: Sequence[str], codebase: Codebase) -> set[str]:
    """The `paths` that a .gitignore of the commit excludes."""
    rules = [
        path
        for path, file in codebase.files.items()
        if path.rsplit("/", 1)[-1] == _IGNORE_FILE and file.regular and file.size <= MOST_SETTINGS
    ]
    plain = [path for path in paths if check_form(path) is None]
    needed = [rule for rule in rules if _is_above(rule, plain)]
    if not plain or not needed:
        return set()
    contents = await codebase.read_all(needed)
    with scratch_folder("ignored") as scratch, scratch_folder("rules") as folder:
        await asyncio.to_thread(create_scratch_repository, scratch, codebase)
        await asyncio.to_thread(_write_files, folder, contents)
        listed = await git(
            scratch, "-c", "core.bare=false", "check-ignore", "--no-index", "-z", "--stdin",
            input="".join(f"./{path}\0" for path in plain).encode(),  # no path of git's magic
            env={"GIT_WORK_TREE": str(folder), "GIT_LITERAL_PATHSPECS": "0"},
            cwd=folder, accept=(0, 1), seconds=PATTERN_SECONDS,
        )  # fmt: skip
    return {path.decode().removeprefix("./") for path in listed.split(b"\0") if path}


def _is_above(rule: str, paths: Sequence[str]) -> bool:
    folder = rule.removesuffix(_IGNORE_FILE)
    return any(path.startswith(folder) for path in paths)


def _write_files(folder: Path, contents: dict[str, bytes]) -> None:
    for path, data in contents.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _name_paths(changes: Sequence[Change]) -> str:
    named = ", ".join(change.path for change in changes[:5])
    return f"Among them: {named}. Remove what does not belong to the fix."
