"""Numbers of issues that an edit mentions, and nobody gave."""

import re
from collections.abc import Iterable

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import FileDiff, parse_diff
from pipeline.data.code_places import ISSUE_NUMBER, NUMBERED_FILE
from pipeline.data.types import Issue
from pipeline.edits.suspicious import is_changelog

_ENTRY = re.compile(r"\+?(?:(?:gh|issue|pr)[-_]?)?(\d{1,7})(?![.\-_]?\d)", re.IGNORECASE)
"""The beginning of the name of a changelog's entry; a date or a version is no number."""
_LONGEST = 1000
"""Characters read of a line."""


async def find_made_up_numbers(diff: str, issue: Issue, codebase: Codebase) -> tuple[str, ...]:
    """Mentions of issues, such as `#7215`, `GH-7215`, a URL or the name of a changelog's entry,
    that `diff` adds, where neither the issue nor the files it changes, as they are now, name that
    number. Models add them from memory or out of thin air."""
    files = parse_diff(diff)
    stated = {text: number for file in files for text, number in _list_stated(file).items()}
    if not stated:
        return ()
    now = [await codebase.read_text(file.old) or "" for file in files if file.old]
    known = {*_list_told(issue), *_list_numbers("\n".join(now)).values()}
    return tuple(text for text, number in stated.items() if number not in known)


def drop_made_up_numbers(text: str, issue: Issue, diff: str = "") -> str:
    """`text` without mentions of issues, such as `(#7215)`, of which neither `issue` nor the lines
    that `diff` found there hold the number."""
    files = parse_diff(diff)
    known = {*_list_told(issue), *_list_numbers("\n".join(_read_lines(files, " -"))).values()}
    return _BRACKETED.sub(lambda found: found[0] if found[1] in known else "", text)


_BRACKETED = re.compile(rf"[(<]?{ISSUE_NUMBER.pattern}[)>]?", ISSUE_NUMBER.flags)


def _list_stated(file: FileDiff) -> dict[str, str]:
    """The numbers that added lines and the name of an added file state, by mention."""
    stated = _list_numbers("\n".join(_read_lines([file], "+")))
    # Elsewhere such a name must end like a document: `7.json` is none.
    is_entry = NUMBERED_FILE.search(file.path) and file.path.endswith((".rst", ".md", ".txt"))
    if file.old is None and (is_changelog(file.path) or is_entry):
        name = file.path.rpartition("/")[2]
        found = _ENTRY.match(name) or ISSUE_NUMBER.search(name)
        return {**stated, file.path: found[1]} if found else stated
    return stated


def _read_lines(files: Iterable[FileDiff], signs: str) -> list[str]:
    return [
        line[:_LONGEST]
        for file in files
        for hunk in file.hunks
        for sign, line in hunk.lines
        if sign in signs
    ]


def _list_numbers(text: str) -> dict[str, str]:
    return {found[0]: found[1] for found in ISSUE_NUMBER.finditer(text)}


def _list_told(issue: Issue) -> list[str]:
    text = " ".join((issue.title, issue.body, *issue.discussion, str(issue.number)))
    return re.findall(r"\d+", text)
