"""The second stage: which classes, functions and lines have to change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.context.outline import Definition, Outline, outline_of
from pipeline.models.base import Model
from pipeline.replies import Malformed
from pipeline.resources import Resources
from pipeline.search.reading import ReadingMachine, ReadingState
from pipeline.search.understanding import clean_line
from pipeline.shown import Place, SuspectFile
from pipeline.types import Context, Issue
from prompts.templates import render
from prompts.text import shorten

MOST_PLACES = 20
LONGEST_CODE = 4_000
_LONGEST_WHY = 400
_LARGEST = 1_000_000
"""Characters of a file whose definitions are looked for."""
_LINE: Final = re.compile(r"`?([^:`]+)`?:(\d{1,7})(?:-(\d{1,7}))?`?(?::\s*(.*))?")


class LocalisationMachine(ReadingMachine):
    """Answers with `<places>`: `PATH:FIRST-LAST: REASON` a line."""

    stage = "localisation"
    tag = "places"

    def __init__(
        self,
        resources: Resources,
        model: Model,
        issue: Issue,
        context: Context,
        number: int,
        *,
        files: Sequence[SuspectFile],
    ) -> None:
        """`files`: the answer of the first stage, without the thoughts that led to it."""
        super().__init__(resources, model, issue, context, number)
        self._files = files

    @property
    def task(self) -> str:
        return render("search/locate", files=self._files, turns=self.attempts)

    async def take_answer(self, state: ReadingState, body: str) -> Malformed | None:
        """Record the places."""
        found = await parse_places(body, self._resources.codebase)
        if isinstance(found, Malformed):
            return found
        state.places = found
        return None


async def parse_places(body: str, codebase: Codebase) -> tuple[Place, ...] | Malformed:
    """Parse lines of `PATH:FIRST-LAST` or `PATH:FIRST-LAST: REASON`; the lines must exist."""
    found: list[Place] = []
    for line in filter(None, map(str.strip, body.splitlines())):
        match = _LINE.fullmatch(clean_line(line))
        if match is None:
            return Malformed(f"{line[:200]!r} is no place such as src/till.py:10-14: why.")
        path, first, last, why = match.groups()
        place = await read_place(codebase, path, int(first), int(last or first), why or "")
        if isinstance(place, Malformed):
            return place
        found.append(place)
        if len(found) > MOST_PLACES:
            break
    if not 0 < len(found) <= MOST_PLACES:
        return Malformed(f"Name 1 to {MOST_PLACES} places, one a line.")
    return tuple(found)


async def read_place(
    codebase: Codebase, path: str, first: int, last: int, why: str = ""
) -> Place | Malformed:
    """The place at lines `first` to `last` of a file, with its code and the definitions around."""
    path = path.strip().removeprefix("./")
    text = await codebase.read_text(path) if path in codebase.files else None
    if text is None:
        return Malformed(f"There is no text file {path[:200]!r}.")
    lines = text.splitlines()
    if not 0 < first <= last <= len(lines):
        return Malformed(f"{path} has the lines 1 to {len(lines)}, not {first} to {last}.")
    small = len(text) <= _LARGEST
    outline = await asyncio.to_thread(outline_of, path, text) if small else Outline()
    around = definitions_around(outline, first)
    return Place(
        path=path,
        first=first,
        last=last,
        scope="\n".join(" ".join(one.head.split()) for one in around),
        function=(around[-1].first + 1, around[-1].last + 1) if around else None,
        code=shorten("\n".join(lines[first - 1 : last]), LONGEST_CODE),
        why=why.strip()[:_LONGEST_WHY],
    )


def definitions_around(outline: Outline, line: int) -> list[Definition]:
    """The definitions that hold `line`, counted from 1, or that begin there; outermost first."""
    around = [one for one in outline.definitions if one.first < line <= one.last + 1]
    return sorted(around, key=lambda one: (one.first, -one.last))
