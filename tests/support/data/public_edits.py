"""Reference patches and public edits, where they lie beside the repository."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

from pipeline.codebase.unified_diff import FileDiff, Hunk, parse_diff

ENSEMBLE = Path(__file__).parents[4] / "shared/data/ensemble"
_QUOTES = re.compile("\"\"\"|'''")
_DEFINITION = re.compile(r"\s*(?:async def|def|class)\b")
_NAME = re.compile(r"[A-Za-z_]\w*")


def read_hunks() -> Iterator[tuple[str, FileDiff, Hunk]]:
    """Each hunk of Python code of a reference patch, with its instance and file."""
    with gzip.open(ENSEMBLE / "instances.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            for file in parse_diff(row["patch"]):
                if file.path.endswith(".py"):
                    yield from ((row["instance_id"], file, hunk) for hunk in file.hunks)


def write_hunk(file: FileDiff, hunk: Hunk) -> str:
    """The diff of one hunk alone."""
    old, new = (sum(marker != other for marker, _ in hunk.lines) for other in "+-")
    head = f"--- a/{file.path}\n+++ b/{file.path}\n@@ -{hunk.start},{old} +{hunk.start},{new} @@ "
    return head + hunk.heading + "\n" + "".join(f"{sign}{text}\n" for sign, text in hunk.lines)


def change_a_name(hunk: Hunk) -> Iterator[Hunk]:
    """`hunk` with another first name on one of the lines of code that it adds, each in turn.

    Comments are no code, nor is a docstring whose definition stands in the hunk.
    """
    defined = opened = False
    for at, (marker, text) in enumerate(hunk.lines):
        name = _NAME.search(text)
        quotes = len(_QUOTES.findall(text))
        if marker == "+" and name and not opened and not quotes and text.strip()[0] not in "#'\"":
            changed = text[: name.end()] + "_other" + text[name.end() :]
            if name[0] not in ("def", "class", "async"):
                lines = [*hunk.lines[:at], (marker, changed), *hunk.lines[at + 1 :]]
                yield Hunk(hunk.start, hunk.heading, lines)
        if marker != "-":
            defined = defined or bool(_DEFINITION.match(text))
            opened = opened != bool(defined and quotes % 2)
