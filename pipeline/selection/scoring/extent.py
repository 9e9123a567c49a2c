"""The extent of an edit: of edits that behave alike, the smallest complete one is the best."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from pipeline.edits.unified_diff import FileDiff, parse_diff
from pipeline.selection.normalise.irrelevant_files import is_changelog, is_irrelevant, is_test

_CHECKING = re.compile(r"\bdef test|\bassert|\.assert|\braises\(|^[ \t]*>>> ", re.MULTILINE)
"""In lines that add to a test."""


class Extent(NamedTuple):
    """The lines that an edit adds and removes."""

    source: int
    """Lines in files that change the program's behaviour."""
    companions: frozenset[str]
    """To which of tests, documentation and the changelog it adds; empty if it deletes a file of
    one."""
    characters: int
    """The length of the diff of those source files: breaks ties between equal numbers of lines."""


@lru_cache(maxsize=256)
def measure_extent(diff: str) -> Extent:
    """The extent of a unified diff."""
    files = parse_diff(diff)
    source = [file for file in files if not is_irrelevant(file)] or files
    beside = [file for file in files if is_irrelevant(file) and (file.old or "/" in file.path)]
    changed = [text for file in source for text in _list_lines(file, "+-")]
    return Extent(
        source=len(changed),
        companions=_find_kinds(beside),
        characters=sum(map(len, changed)),
    )


def _find_kinds(beside: list[FileDiff]) -> frozenset[str]:
    if not all(file.new and _adds(file) for file in beside):
        return frozenset()
    return frozenset(filter(None, map(_kind_of, beside)))


def _kind_of(file: FileDiff) -> str:
    """Empty for a file beside tests that adds nothing which is checked."""
    if is_test(file.path):
        return "tests" if _CHECKING.search("\n".join(_list_lines(file, "+"))) else ""
    return "the changelog" if is_changelog(file.path) else "documentation"


def _list_lines(file: FileDiff, markers: str) -> list[str]:
    return [text for hunk in file.hunks for marker, text in hunk.lines if marker in markers]


def _adds(file: FileDiff) -> bool:
    return any(marker == "+" for hunk in file.hunks for marker, _ in hunk.lines)
