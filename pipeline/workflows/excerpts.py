"""Cuts a part of a text for a model: between sections where it can, else with a mark."""

from __future__ import annotations

import re

from pipeline.types import SourceFile

_HEADING = re.compile(
    r"^(?:(#{1,4})[ \t]+\S.*|\S[^\n]*\n([=\-~^*+\"'`#])\2{2,}[ \t]*)$", re.MULTILINE
)
"""A heading of Markdown, or one that is underlined, as in reStructuredText."""

_ENTRY = re.compile(r"\n(?=[-*+#.\w])")


def show_beginning(path: str, text: str, characters: int) -> SourceFile:
    """The first whole lines of a file within so many `characters`."""
    if len(text) <= characters:
        return SourceFile(path=path, text=text, tokens=0)
    return _build_part(path, _cut_line(text, characters), "more is not shown")


def show_newest(path: str, text: str, characters: int) -> SourceFile:
    """The first whole sections of a changelog within so many `characters`; where these would be
    less than half, the beginning of the next as well, with a mark that it goes on. Of a longer
    newest section the first and the last entries: new ones are put at either end of it."""
    starts = _find_sections(text)
    if len(text) <= characters or not starts:
        return show_beginning(path, text, characters)
    end = max((start for start in starts[1:] if start <= characters), default=0)
    if 2 * end >= characters:
        return _build_part(path, text[:end].rstrip("\n") + "\n", "older sections are not shown")
    if len(starts) > 1 and not end:
        section = text[: starts[1]].rstrip("\n") + "\n"
        first = _cut_line(section, characters // 2)
        last = _cut_to_entry(section[max(len(first), len(section) - characters + len(first)) :])
        middle = "the middle of this section is not shown"
        joined = f"{first}\n[... {middle} ...]\n{last}"
        return _build_part(path, joined, "older sections are not shown")
    more = "the rest of this section, and what comes after it, is not shown"
    return _build_part(path, _cut_line(text, characters), more)


def _build_part(path: str, text: str, note: str) -> SourceFile:
    return SourceFile(path=path, text=f"{text}\n[... {note} ...]\n", tokens=0, partial=True)


def _cut_line(text: str, characters: int) -> str:
    return text[:characters].rpartition("\n")[0]


def _cut_to_entry(text: str) -> str:
    """`text` from the first line on that begins an entry, else from its first whole line."""
    entry = _ENTRY.search(text)
    return text[entry.start() + 1 :] if entry else text.partition("\n")[2]


def _find_sections(text: str) -> list[int]:
    """Where the sections of the highest level that occurs twice begin."""
    starts: dict[str, list[int]] = {}
    for heading in _HEADING.finditer(text):
        starts.setdefault(heading[1] or heading[2], []).append(heading.start())
    repeated = [found for found in starts.values() if len(found) > 1]
    return repeated[0] if repeated else []
