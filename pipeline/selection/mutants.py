"""Spoils an edit in small ways: a test that notices none of them does not test the edit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.codebase.conventions import is_test

MOST_MUTANTS = 4
_HUNK = re.compile(r"^(?=@@ -)", re.MULTILINE)
_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
"""A string on one line; what it says is no code."""
_SPOILING: tuple[tuple[re.Pattern[str], dict[str, str]], ...] = (
    (re.compile(r"==|!="), {"==": "!=", "!=": "=="}),
    (re.compile(r"\bis not\b|\bnot in\b|\bnot\b"), {"is not": "is", "not in": "in", "not": ""}),
    (re.compile(r"(?<![<>=-])[<>]=?(?![<>=])"), {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}),
    (re.compile(r"\band\b|\bor\b"), {"and": "or", "or": "and"}),
    (re.compile(r"\bTrue\b|\bFalse\b"), {"True": "False", "False": "True"}),
    (re.compile(r"(?<=\s)[+-](?==?\s)"), {"+": "-", "-": "+"}),
    (re.compile(r"(?<=\breturn ).+"), {}),
    (re.compile(r"(?<=\bif ).+(?=:$)"), {}),
)
"""What is replaced, and by what; by `None` where that is not said."""


def spoil(diff: str) -> tuple[str, ...]:
    """At most `MOST_MUTANTS` versions of a diff by git, each with one thing wrong.

    Lines of Python that it adds say another thing, or one of its several hunks of Python is
    missing. Its tests, which a script never runs, stay as they are. Empty where nothing can be
    spoilt so. A version may not apply.
    """
    found = [*_with_spoilt_lines(diff), *_without_hunks(diff)]
    distinct = [one for one in dict.fromkeys(found) if one != diff]
    step = max(1, len(distinct) // MOST_MUTANTS)
    return tuple(distinct[::step][:MOST_MUTANTS])


def _with_spoilt_lines(diff: str) -> Iterator[str]:
    lines = diff.split("\n")
    python = False
    for number, line in enumerate(lines):
        if line.startswith("+++ "):
            python = _is_code(line)
            continue
        code = python and line.startswith("+") and not line[1:].lstrip().startswith("#")
        if code and (spoilt := _spoil_line(line)) is not None:
            yield "\n".join([*lines[:number], spoilt, *lines[number + 1 :]])


def _spoil_line(line: str) -> str | None:
    masked = _STRING.sub(lambda found: "~" * len(found[0]), line)
    for pattern, replacements in _SPOILING:
        if match := pattern.search(masked, 1):
            there = replacements.get(match[0], "None")
            return line[: match.start()] + there + line[match.end() :]
    return None


def _without_hunks(diff: str) -> Iterator[str]:
    files = re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE)
    parts = [_HUNK.split(file) for file in files]
    code = [at for at, part in enumerate(parts) if _is_code(part[0])]
    if sum(len(parts[at]) - 1 for at in code) < 2:
        return
    for at in code:
        part = parts[at]
        for hunk in range(1, len(part)):
            kept = [*part[:hunk], *part[hunk + 1 :]]
            # A file's head alone is no diff.
            texts = ["" if len(kept) == 1 else "".join(kept)]
            yield "".join(["".join(p) for p in parts[:at]] + texts +
                          ["".join(p) for p in parts[at + 1 :]])  # fmt: skip


def _is_code(head: str) -> bool:
    """Whether a file's head, or its line of the new path, names Python that is no test."""
    path = head.rpartition("+++ ")[2].split("\n")[0].rstrip("\t").strip('"').removeprefix("b/")
    return path.endswith(".py") and not is_test(path)
