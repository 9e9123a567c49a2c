"""The question that a process reward model answers about an edit, as the search asks it."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.learning.locations import ChangedLines
from pipeline.search.judging import render_judgement
from pipeline.search.localisation import LONGEST_CODE
from pipeline.shown import Located, Place, SuspectFile
from pipeline.types import Issue
from prompts.text import shorten


def render_step(
    issue: Issue, files: Sequence[str], places: Sequence[ChangedLines]
) -> tuple[str, str]:
    """System text and question about the files of an edit, or its places if there are any."""
    found = Located(
        files=tuple(SuspectFile(path=path) for path in files),
        places=tuple(
            Place(
                path=place.path,
                first=place.first,
                last=place.last,
                scope=place.heading,
                code=shorten(place.code, LONGEST_CODE),
            )
            for place in places
        ),
    )
    return render_judgement(issue, found)
