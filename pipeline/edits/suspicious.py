"""What a diff holds that could steer or forge the tests that judge it, in sentences."""

from __future__ import annotations

import re
from typing import Final

from pipeline.edits.unified_diff import parse_diff

_FILES: Final = ("conftest.py", "sitecustomize.py", "usercustomize.py")
_WORDS: Final = re.compile(r"os\._exit|\batexit\b|CAPUCHIN_|capuchin_inside")
_MOST: Final = 3


def find_suspicious(diff: str) -> tuple[str, ...]:
    """At most a few sentences without a subject, such as "changes `conftest.py`."; paths in them
    are untrusted."""
    found: dict[str, None] = {}
    for file in parse_diff(diff):
        name = file.path.rpartition("/")[2]
        if name in _FILES or name.endswith(".pth"):
            found[f"changes `{file.path}`, which runs before any test does."] = None
        for hunk in file.hunks:
            for marker, line in hunk.lines:
                if marker == "+" and (word := _WORDS.search(line)):
                    found[f"adds `{word[0]}` to `{file.path}`, which can forge results."] = None
    return tuple(found)[:_MOST]
