"""Reads a unified diff leniently: git's or plain; renames, binary parts, modes, CRLF."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_GIT = re.compile(r'diff --git "?a/(.*?)"? "?b/(.*?)"?$')


@dataclass
class Hunk:
    """One changed region. Lines are without their marker and without any line ending."""

    start: int
    """Number of the first old line, from 1; 0 in a new file."""
    heading: str
    """The text after the second `@@` of the header: often the enclosing definition."""
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Marker (a space, `-` or `+`) and text."""


@dataclass
class FileDiff:
    """What a diff does to one file."""

    old: str | None
    """Path before; None when the file is new."""
    new: str | None
    """Path after; None when the file is deleted."""
    hunks: list[Hunk] = field(default_factory=list[Hunk])
    mode: str = ""
    """The new mode, when the diff changes it or makes an executable file."""
    binary: list[str] = field(default_factory=list[str])
    """The lines of a binary part, empty for text."""

    @property
    def path(self) -> str:
        return self.new or self.old or ""


def parse_diff(diff: str) -> list[FileDiff]:
    """The files that `diff` changes, in its order; none if the text is not a diff.

    Never raises: a line that cannot belong to a hunk ends it, and a hunk's counts decide only
    whether a line beginning with `---` is a removed line or the next file.
    """
    return _DiffParser(diff).parse()


class _DiffParser:
    def __init__(self, diff: str) -> None:
        # Not splitlines: form feeds and the like are part of a line.
        self._lines = diff.split("\n")
        self._files: list[FileDiff] = []
        self._file: FileDiff | None = None
        self._at = 0

    def parse(self) -> list[FileDiff]:
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip("\r")
            self._at += 1
            if line.startswith("diff --git "):
                self._begin_file(line)
            elif line.startswith("--- ") and self._peek().startswith("+++ "):
                self._parse_paths(line)
            elif self._file is None:
                continue
            elif hunk := _HUNK.match(line):
                self._parse_hunk(self._file, hunk)
            else:
                self._parse_header(self._file, line)
        return [file for file in self._files if file.path]

    def _peek(self) -> str:
        return self._lines[self._at] if self._at < len(self._lines) else ""

    def _begin_file(self, line: str) -> None:
        match = _GIT.match(line)
        old, new = (match[1], match[2]) if match else ("", "")
        self._file = FileDiff(old=old, new=new)
        self._files.append(self._file)

    def _parse_paths(self, line: str) -> None:
        file = self._file
        if file is None or file.hunks:
            file = self._file = FileDiff(old=None, new=None)
            self._files.append(file)
        file.old = _parse_path(line[4:])
        file.new = _parse_path(self._peek()[4:].rstrip("\r"))
        self._at += 1

    def _parse_hunk(self, file: FileDiff, match: re.Match[str]) -> None:
        hunk = Hunk(start=int(match[1]), heading=match[5])
        removed = int(match[2] or 1)
        added = int(match[4] or 1)
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip("\r")
            marker, text = line[:1] or " ", line[1:]
            if marker not in " +-\\" or (removed <= 0 and added <= 0 and marker != "\\"):
                break
            self._at += 1
            if marker == "\\":
                continue
            if not line and self._at >= len(self._lines):
                break  # only the end of the text, not an empty line of context
            hunk.lines.append((marker, text))
            removed -= marker != "+"
            added -= marker != "-"
        file.hunks.append(hunk)

    def _parse_header(self, file: FileDiff, line: str) -> None:
        rest = line.partition(" ")[2]
        if line.startswith("new file mode "):
            file.old = None
            file.mode = "" if line.endswith("644") else line[-6:]
        elif line.startswith("deleted file mode "):
            file.new = None
        elif line.startswith("new mode "):
            file.mode = line[-6:]
        elif line.startswith(("rename from ", "copy from ")):
            file.old = _parse_path(rest.partition(" ")[2], prefixed=False)
        elif line.startswith(("rename to ", "copy to ")):
            file.new = _parse_path(rest.partition(" ")[2], prefixed=False)
        elif line.startswith(("GIT binary patch", "Binary files ")):
            file.binary.extend(self._read_binary_lines(line))

    def _read_binary_lines(self, first: str) -> Iterator[str]:
        yield first
        while self._at < len(self._lines) and not self._peek().startswith(("diff ", "--- ")):
            yield self._lines[self._at].rstrip("\r")
            self._at += 1


def _parse_path(text: str, *, prefixed: bool = True) -> str | None:
    """A path of a header; None for `/dev/null`."""
    text = text.split("\t")[0].strip()
    if text == "/dev/null":
        return None
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = _unquote(text[1:-1])
    if prefixed and text[:2] in ("a/", "b/"):
        text = text[2:]
    return text


def _unquote(text: str) -> str:
    """A path as git quotes it: C escapes, bytes in octal."""
    plain = text.encode("utf-8", "surrogateescape").decode("latin-1")
    letters = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}

    def one(match: re.Match[str]) -> str:
        body = match[1]
        return chr(int(body, 8) & 255) if body[0] in "01234567" else letters.get(body, body)

    raw = re.sub(r"\\([0-7]{1,3}|.)", one, plain)
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")


def split_diff(diff: str, is_first: Callable[[FileDiff], bool]) -> tuple[str, str]:
    """The files of a diff by git that `is_first` picks, and the others: two diffs, each whole."""
    parts = re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE)
    picked: list[str] = []
    others: list[str] = []
    for part in parts:
        files = parse_diff(part)
        (picked if files and is_first(files[0]) else others).append(part)
    return "".join(picked), "".join(others)


def list_paths(diff: str) -> frozenset[str]:
    """The paths that `diff` names, before and after."""
    return frozenset(path for file in parse_diff(diff) for path in (file.old, file.new) if path)


def remove_files(diff: str, paths: frozenset[str]) -> str:
    """`diff` without what it does to `paths`."""
    return split_diff(diff, lambda file: file.old in paths or file.new in paths)[1]
