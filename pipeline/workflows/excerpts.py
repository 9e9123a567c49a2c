"""Cuts a part of a text for a model: between sections where it can, else with a mark."""

from __future__ import annotations

import re
from itertools import pairwise

from pipeline.types import SourceFile

_HEADING = re.compile(
    r"^(?:(#{1,4})[ \t]+\S.*|\S[^\n]*\n([=\-~^*+\"'`#])\2{2,}[ \t]*)$", re.MULTILINE
)
"""A heading of Markdown, or one that is underlined, as in reStructuredText."""

OF_A_PART = 300
"""Characters that each part of a long newest section has at least."""
MOST_TIMES = 2
"""How many times the room it may take for that; else its parts are not kept apart."""
_ENTRY = re.compile(r"\n(?=[-*+#.\w])")


def show_beginning(path: str, text: str, characters: int) -> SourceFile:
    """The first whole lines of a file within so many `characters`."""
    if len(text) <= characters:
        return SourceFile(path=path, text=text, tokens=0)
    return _build_part(path, _cut_line(text, characters), "more is not shown")


def show_newest(path: str, text: str, characters: int) -> SourceFile:
    """The first whole sections of a changelog within so many `characters`; where these would be
    less than half, the beginning of the next as well, with a mark that it goes on. Of a longer
    newest section, the first and the last entries below each of its headings: new ones are put at
    either end."""
    starts = _find_sections(text)
    if len(text) <= characters or not starts:
        return show_beginning(path, text, characters)
    end = max((start for start in starts[1:] if start <= characters), default=0)
    if 2 * end >= characters:
        return _build_part(path, text[:end].rstrip("\n") + "\n", "older sections are not shown")
    if len(starts) > 1 and not end:
        section = text[: starts[1]].rstrip("\n") + "\n"
        parts = _split(section, starts[0])
        room = max(characters, OF_A_PART * len(parts))
        if room > MOST_TIMES * characters:
            parts, room = [section], characters
        shares = _share(room, [len(part) for part in parts])
        joined = "".join(map(_cut_middle, parts, shares))
        return _build_part(path, joined, "older sections are not shown")
    more = "the rest of this section, and what comes after it, is not shown"
    return _build_part(path, _cut_line(text, characters), more)


def _build_part(path: str, text: str, note: str) -> SourceFile:
    return SourceFile(path=path, text=f"{text}\n[... {note} ...]\n", tokens=0, partial=True)


def _cut_line(text: str, characters: int) -> str:
    return text[:characters].rpartition("\n")[0]


def _split(section: str, heading: int) -> list[str]:
    """The `section`, whose own heading begins at `heading`, at the headings below that one."""
    below = [one.start() for one in _HEADING.finditer(section) if one.start() > heading]
    return [section[at:end] for at, end in pairwise([0, *below, len(section)])]


def _share(room: int, lengths: list[int]) -> list[int]:
    """How much of the room each gets; short ones leave the longer ones the rest of theirs."""
    shares = [0] * len(lengths)
    for done, at in enumerate(sorted(range(len(lengths)), key=lambda at: lengths[at])):
        shares[at] = min(lengths[at], room // (len(lengths) - done))
        room -= shares[at]
    return shares


def _cut_middle(part: str, characters: int) -> str:
    """The first and the last entries of a part of a section."""
    if len(part) <= characters:
        return part
    first = _cut_line(part, characters // 2)
    last = _cut_to_entry(part[max(len(first), len(part) - characters + len(first)) :])
    return f"{first}\n[... the middle of this section is not shown ...]\n{last}"


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
