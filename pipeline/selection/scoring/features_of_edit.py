"""The features of a single edit, as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.selection.normalise.canonical import CanonicalEdit
from pipeline.selection.normalise.irrelevant_files import is_test

_WORD = re.compile(r"[A-Za-z_]\w+")
_MAX_ISSUE_CHARACTERS = 100_000


@dataclass(frozen=True)
class EditFeatures:
    """Sizes are natural logarithms of a count plus one; the others are 0 or 1."""

    added: float
    removed: float
    regions: float
    files: float
    adds_only: float
    removes_only: float
    new_file: float
    tests: float
    """The edit includes tests."""
    irrelevant_files: float
    """It includes tests, documents or leftover scripts; thirty count as one."""
    definition: float
    imports: float
    guard: float
    """It checks a type or attribute, or catches an exception."""
    raises: float
    prints: float
    file_named: float
    """The issue names a file that it changes."""
    place_named: float
    """The issue names a definition that it changes."""


def words_of(issue: str) -> frozenset[str]:
    """The words of an issue's text, for `edit_features`."""
    return frozenset(_WORD.findall(issue[:_MAX_ISSUE_CHARACTERS]))


def edit_features(form: CanonicalEdit, words: frozenset[str]) -> EditFeatures:
    """The features of one edit, for an issue with these words."""
    found = [change for file in form.files for change in file.changes]
    added = [token for change in found for token in change.added]
    removed = [token for change in found for token in change.removed]
    come, gone = set(added), set(removed)
    stems = {file.path.rpartition("/")[2].partition(".")[0] for file in form.files}
    return EditFeatures(
        added=math.log1p(len(added)),
        removed=math.log1p(len(removed)),
        regions=math.log1p(len(found)),
        files=math.log1p(len(form.files)),
        adds_only=float(not removed),
        removes_only=float(not added),
        new_file=float(any(file.change.startswith("new") for file in form.files)),
        tests=float(any(is_test(path) for path in form.irrelevant_files)),
        irrelevant_files=float(bool(form.irrelevant_files)),
        definition=float(_has_more("def", added, removed)),
        imports=float("import" in come),
        guard=float(bool(come & {"isinstance", "hasattr", "getattr", "try"})),
        raises=float("raise" in come and "raise" not in gone),
        prints=float("print" in come),
        file_named=float(bool(stems & words)),
        place_named=float(any(place.name in words for place in form.locations if place.name)),
    )


def _has_more(token: str, added: Sequence[str], removed: Sequence[str]) -> bool:
    return added.count(token) > removed.count(token)
