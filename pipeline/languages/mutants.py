"""Versions of an edit with one thing wrong, by the grammar of each file's language."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic import TypeAdapter

from pipeline.codebase.grammars import grammar_of
from pipeline.codebase.isolated import call_isolated
from pipeline.codebase.unified_diff import parse_diff
from pipeline.languages.conventions import is_test
from pipeline.languages.faults import find_faults
from pipeline.languages.registry import language_of

MOST_MUTANTS: Final = 4
_FAULTS: Final = TypeAdapter(list[list[tuple[int, int, int, str]]])
_SECONDS: Final = 20.0
_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"^(?=@@ -)", re.MULTILINE)


async def spoil(diff: str) -> tuple[str, ...]:
    """At most `MOST_MUTANTS` versions of a diff by git, each with one thing wrong.

    A line of code that it adds is changed, or one of its several hunks of code is missing. Its
    tests, which a script never runs, stay as they are. Empty if nothing can be spoilt this way. A
    version may not apply.
    """
    parts = [_HUNK.split(file) for file in _FILE.split(diff)]
    found = [*await _with_spoilt_lines(parts), *_without_hunks(parts)]
    distinct = [one for one in dict.fromkeys(found) if one != diff]
    step = max(1, len(distinct) // MOST_MUTANTS)
    return tuple(distinct[::step][:MOST_MUTANTS])


async def _with_spoilt_lines(parts: Sequence[Sequence[str]]) -> list[str]:
    code = [
        (file, hunk, path)
        for file, (head, *hunks) in enumerate(parts)
        if (path := _find_code(head))
        for hunk in range(1, len(hunks) + 1)
    ]
    asked: list[tuple[str, str, str, str, str]] = []
    for file, hunk, path in code:
        facts = language_of(path).facts
        text = "\n".join(
            line[1:] if line[:1] in "+ " else "" for line in parts[file][hunk].split("\n")
        )
        asked.append((path, text, facts.opening, facts.nothing, facts.untrue))
    answer = await call_isolated(find_faults, json.dumps(asked).encode(), seconds=_SECONDS)
    made: list[str] = []
    for (file, hunk, _), faults in zip(code, _FAULTS.validate_json(answer or b"[]"), strict=False):
        lines = parts[file][hunk].split("\n")
        for row, start, end, there in faults:
            if lines[row].startswith("+"):
                data = lines[row][1:].encode("utf-8", "surrogatepass")
                spoilt = data[:start] + there.encode() + data[end:]
                line = "+" + spoilt.decode("utf-8", "surrogatepass")
                changed = "\n".join([*lines[:row], line, *lines[row + 1 :]])
                made.append(
                    _join(parts, file, [*parts[file][:hunk], changed, *parts[file][hunk + 1 :]])
                )
    return made


def _without_hunks(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    code = [at for at, (head, *_) in enumerate(parts) if _find_code(head)]
    if sum(len(parts[at]) - 1 for at in code) < 2:
        return
    for at in code:
        for hunk in range(1, len(parts[at])):
            kept = [*parts[at][:hunk], *parts[at][hunk + 1 :]]
            # A file's head alone is no diff.
            yield _join(parts, at, kept if len(kept) > 1 else [])


def _join(parts: Sequence[Sequence[str]], at: int, there: Iterable[str]) -> str:
    return "".join("".join(there if n == at else part) for n, part in enumerate(parts))


def _find_code(head: str) -> str:
    """The new path in a file's head, if it is code with a grammar, and no test; else empty."""
    path = next((file.new or "" for file in parse_diff(head)), "")
    is_code = language_of(path).is_source(path) and grammar_of(path) and not is_test(path)
    return path if is_code else ""
