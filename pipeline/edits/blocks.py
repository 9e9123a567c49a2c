"""Parses search/replace blocks in a model's reply (the edit format of CodeMonkeys, section 2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.replies import Malformed

_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*")
_DIVIDER = re.compile(r"={7}\s*")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")
_DELETE = re.compile(r"<{5,9} ?DELETE(?: ?>{5,9})?")
_RENAME = re.compile(r"<{5,9} ?RENAME\b(?: to(?= ))?(?P<to>.*?)(?: ?>{5,9})?")
_FENCE = re.compile(r"\s*(```|~~~)[\w+-]*\s*")
_MARKER = re.compile(r"<{5,9} ?(SEARCH|DELETE|REPLACE|RENAME)\b|>{5,9} ?(SEARCH|REPLACE)\b")
_MOST_DIVIDERS = 20
"""Dividers at which one block may be split; more would only waste time."""
MOST_BLOCKS = 500
"""Of one edit; each is searched in a whole file."""
_ORNAMENT = " \t*`#"


@dataclass(frozen=True)
class Block:
    """One replacement in a file, or the deletion or renaming of a whole file."""

    path: str
    lines: tuple[str, ...] = ()
    """The lines between the SEARCH and the REPLACE marker, dividers included."""
    deletes: bool = False
    renamed: str = ""
    """The new path of the file; empty for any other block."""

    def splits(self) -> list[tuple[list[str], list[str]]]:
        """Every way to split `lines` at a divider into search and replacement.

        There are several if the code itself has a line of seven equals signs, as in
        reStructuredText headings. The longest search comes first: if the file has its lines, it is
        the intended one.
        """
        dividers = [at for at, line in enumerate(self.lines) if _DIVIDER.fullmatch(line)]
        return [
            (list(self.lines[:at]), list(self.lines[at + 1 :]))
            for at in reversed(dividers[:_MOST_DIVIDERS])
        ]


def parse_blocks(body: str) -> list[Block] | Malformed:
    """Parse the blocks in the body of an <edit>, in order.

    A block without a path applies to the previous path; after a RENAME, to the new path.
    """
    blocks: list[Block] = []
    path = ""
    lines = body.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if _SEARCH.fullmatch(line):
            block, at = _parse_replacement(path, lines, at, len(blocks) + 1)
        elif single := _parse_single_line(path, line, len(blocks) + 1):
            block = single
        else:
            path = _parse_path(line) or path
            continue
        if isinstance(block, Malformed):
            return block
        if not path:
            return Malformed(
                f"Block {len(blocks) + 1} has no file: put the path on the line before its SEARCH "
                "marker."
            )
        blocks.append(block)
        if len(blocks) > MOST_BLOCKS:
            return Malformed(f"The <edit> holds more than {MOST_BLOCKS} blocks. Make larger ones.")
        path = block.renamed or path
    if not blocks:
        return Malformed(
            "The <edit> holds no block. A block is a line with the path, then <<<<<<< SEARCH, the "
            "lines to find, =======, the lines to put in their place, >>>>>>> REPLACE."
        )
    return blocks


def _parse_replacement(
    path: str, lines: list[str], start: int, number: int
) -> tuple[Block | Malformed, int]:
    for at in range(start, len(lines)):
        if _REPLACE.fullmatch(lines[at]):
            block = Block(path, tuple(lines[start:at]))
            if block.splits():
                return block, at + 1
            return Malformed(f"Block {number} ({path}) has no ======= line."), at
        if _SEARCH.fullmatch(lines[at]):
            break
    return Malformed(f"Block {number} ({path}) is not closed with >>>>>>> REPLACE."), len(lines)


def _parse_single_line(path: str, line: str, number: int) -> Block | Malformed | None:
    """Parse a line that is a block by itself; None for a line between blocks.

    A lone marker is malformed: it may be the rest of a block that ended early because its code
    contains a marker.
    """
    if _DELETE.fullmatch(line.rstrip()):
        return Block(path, deletes=True)
    if rename := _RENAME.fullmatch(line.rstrip()):
        new = _parse_path(rename["to"])
        hint = f"Block {number} ({path}) names no new path: <<<<<<< RENAME new/path.py"
        return Block(path, renamed=new) if new else Malformed(hint)
    if _DIVIDER.fullmatch(line) or _MARKER.match(line):
        return Malformed(
            f"The line {line.strip()[:80]!r} stands outside a block (before block {number} is "
            "whole). The markers are <<<<<<< SEARCH, =======, >>>>>>> REPLACE, each alone on its "
            "line; lines of a file that look like them cannot be part of a block."
        )
    return None


def _parse_path(line: str) -> str:
    """The path in a line between blocks; empty for a fence or an empty line."""
    if _FENCE.fullmatch(line):
        return ""
    return line.strip(_ORNAMENT + "\r").removesuffix(":").strip(_ORNAMENT)
