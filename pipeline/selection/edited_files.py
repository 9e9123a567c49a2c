"""The files that edits change, in their unedited state: whole, or in parts around the changes."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.codebase.commit import Codebase
from pipeline.edits.unified_diff import FileDiff, parse_diff
from pipeline.selection.normalise.irrelevant_files import is_irrelevant
from pipeline.types import SourceFile

MAX_CHARACTERS = 60_000
"""The longest file shown whole."""
AROUND = 150
"""Lines shown before and after each change of a file that is too long."""
MAX_BESIDE = 12_000
"""The same of a file that is no code, or holds tests: it is read for its changes alone."""
AROUND_BESIDE = 40


async def read_edited_files(codebase: Codebase, diffs: Sequence[str]) -> list[SourceFile]:
    """Read every file of `codebase` that one of `diffs` changes, in the order of the diffs."""
    changes: dict[str, list[FileDiff]] = {}
    for diff in diffs:
        for file in parse_diff(diff):
            if file.old is not None:
                changes.setdefault(file.old, []).append(file)
    shown: list[SourceFile] = []
    for path, files in changes.items():
        text = await codebase.read_text(path) if path in codebase.files else None
        if text is None:
            continue
        beside = all(map(is_irrelevant, files))
        parts = len(text) > (MAX_BESIDE if beside else MAX_CHARACTERS)
        around = AROUND_BESIDE if beside else AROUND
        shown.append(
            SourceFile(
                path=path,
                text=_cut_parts(text, files, around) if parts else text,
                tokens=0,
                partial=parts,
            )
        )
    return shown


def _cut_parts(text: str, changes: Sequence[FileDiff], around: int) -> str:
    """The lines around the changes, with a note for each gap."""
    lines = text.splitlines(keepends=True)
    kept: set[int] = set()
    for file in changes:
        for hunk in file.hunks:
            start = max(hunk.start - 1, 0)
            length = sum(marker != "+" for marker, _ in hunk.lines)
            kept.update(range(max(start - around, 0), min(start + length + around, len(lines))))
    parts: list[str] = []
    at = 0
    for number in sorted(kept):
        if number > at:
            parts.append(_gap(at, number))
        parts.append(lines[number])
        at = number + 1
    if at < len(lines):
        parts.append(_gap(at, len(lines)))
    return "".join(parts)


def _gap(start: int, end: int) -> str:
    return f"[... lines {start + 1} to {end} left out ...]\n"
