"""Edits as models write them, each with what must come of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.unit.pipeline.edits.corpus.files import FILES, TEXTS


@dataclass(frozen=True)
class Case:
    name: str
    body: str
    """What stands inside the <edit>."""
    changes: Mapping[str, bytes | None] | None = None
    """The new content of every changed file, None for one that goes; None: the edit is refused."""
    said: str = ""
    """Words of the answer to a refused edit."""


Lines = list[str]
Manner = Callable[[Lines], Lines | None]
"""How a model writes lines that it copies; None where this cannot be told apart from exactly."""


def block(path: str, search: str, replace: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def _joined(lines: Lines) -> str:
    return "".join(f"{line}\n" for line in lines)


def _dedented(lines: Lines) -> Lines | None:
    """Without the indentation that all the lines share."""
    filled = [line for line in lines if line.strip()]
    width = min(len(line) - len(line.lstrip()) for line in filled)
    return [line[width:] if line.strip() else line for line in lines] if width else None


MANNERS: dict[str, Manner] = {
    "exactly": lambda lines: lines,
    "without white space at line ends": lambda lines: [line.rstrip() for line in lines],
    "with white space at line ends": lambda lines: [f"{line}  " for line in lines],
    "with blank lines around": lambda lines: ["", *lines, ""],
    "dedented": _dedented,
    "indented by four more": lambda lines: [f"    {line}" if line else line for line in lines],
}
ORNAMENTS: dict[str, Callable[[str, str], str]] = {
    "as asked for": lambda path, rest: f"{path}\n{rest}",
    "fenced": lambda path, rest: f"```python\n{path}\n{rest}```\n",
    "path as a heading, block fenced": lambda path, rest: f"### `{path}`\n\n```\n{rest}```\n",
    "path in bold with a colon": lambda path, rest: f"**{path}**:\n{rest}",
    "with CRLF": lambda path, rest: f"{path}\n{rest}".replace("\n", "\r\n"),
    "short markers": lambda path, rest: f"{path}\n{rest}".replace("<<<<<<<", "<<<<<").replace(
        ">>>>>>>", ">>>>>"
    ),
    "words before": lambda path, rest: f"I mend the cause.\n\n{path}\n{rest}",
}


class _Source:
    """A file's lines, and what it becomes when some of them are others: told without our code."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data = TEXTS[path]
        self.encoding = "latin-1" if path == "old.py" else "utf-8"
        self.ending = b"\r\n" if path == "windows.py" else b"\n"
        self.bytes_of = self.data.removeprefix(b"\xef\xbb\xbf").split(self.ending)
        if self.data.endswith(self.ending):
            self.bytes_of.pop()
        self.lines = [line.decode(self.encoding) for line in self.bytes_of]

    def at(self, start: int, stop: int) -> Lines:
        return self.lines[start:stop]

    def unique(self, start: int, stop: int) -> bool:
        """Whether these lines are there once, white space aside."""
        bare = [line.strip() for line in self.lines]
        wanted = bare[start:stop]
        if not any(wanted) or not wanted[0] or not wanted[-1]:
            return False
        spans = range(len(bare) - len(wanted) + 1)
        return sum(bare[i : i + len(wanted)] == wanted for i in spans) == 1

    def with_lines(self, start: int, stop: int, new: Lines) -> bytes:
        put = [line.encode(self.encoding) for line in new]
        lines = [*self.bytes_of[:start], *put, *self.bytes_of[stop:]]
        mark = self.data[: len(self.data) - len(self.data.removeprefix(b"\xef\xbb\xbf"))]
        end = self.ending if self.data.endswith(self.ending) and lines else b""
        return mark + self.ending.join(lines) + end


def _spans(count: int) -> Iterator[tuple[str, int, int]]:
    middle = count // 2
    yield "the first line", 0, 1
    yield "the last line", count - 1, count
    yield "a line in the middle", middle, middle + 1
    yield "three lines", max(0, middle - 1), middle + 2


def replaced() -> Iterator[Case]:
    """Lines of every file, in every manner: the first changed, the others kept."""
    for path in TEXTS:
        source = _Source(path)
        for where, start, stop in _spans(len(source.lines)):
            if not source.unique(start, stop):
                continue
            there = source.at(start, stop)
            first = there[0]
            indent = first[: len(first) - len(first.lstrip())]
            for manner, write in MANNERS.items():
                search = write(there)
                replace = write([f"{indent}changed = 1", *there[1:]])
                if search is None or replace is None or (manner != "exactly" and search == there):
                    continue
                new = [f"{indent}changed = 1", *there[1:]]
                if manner == "with white space at line ends":
                    new[0] += "  "  # a new line is put as it was written
                yield Case(
                    f"{path}: {where} {manner}",
                    block(path, _joined(search), _joined(replace)),
                    {path: source.with_lines(start, stop, new)},
                )


def added_and_removed() -> Iterator[Case]:
    """A line added after one, and one taken away."""
    for path in TEXTS:
        source = _Source(path)
        for where, start, stop in _spans(len(source.lines)):
            if not source.unique(start, stop):
                continue
            there = source.at(start, stop)
            yield Case(
                f"{path}: {where} with a line after it",
                block(path, _joined(there), _joined([*there, "added = 1"])),
                {path: source.with_lines(start, stop, [*there, "added = 1"])},
            )
            yield Case(
                f"{path}: {where} removed",
                block(path, _joined(there), ""),
                {path: source.with_lines(start, stop, [])},
            )


def ornamented() -> Iterator[Case]:
    """One replacement, written in every way in which a block may be written."""
    for path in ("plain.py", "folder with spaces/a file.py", "no_suffix", "docs/changes.rst"):
        source = _Source(path)
        at = 2 if path == "docs/changes.rst" else len(source.lines) - 1
        at = len(source.lines) - 1 if not source.unique(at, at + 1) else at
        rest = block("", f"{source.lines[at]}\n", "changed = 1\n").removeprefix("\n")
        for how, write in ORNAMENTS.items():
            changes = {path: source.with_lines(at, at + 1, ["changed = 1"])}
            yield Case(f"{path}: {how}", write(path, rest), changes)


def whole_files() -> Iterator[Case]:
    """Files that come, go and move."""
    for path in (
        "new.py",
        "a/b/c/new.py",
        "pkg/sub package/new.py",
        ".changes/hidden",
        "new_folder/Makefile",
    ):
        yield Case(f"create {path}", block(path, "", "x = 1\n"), {path: b"x = 1\n"})
        yield Case(f"create {path}, empty", block(path, "", ""), {path: b""})
        idle = block("plain.py", "import sys\n", "import sys\n")
        yield Case(
            f"create {path}, say another line", block(path, "", "x\n") + idle, {path: b"x\n"}
        )
    yield Case("fill an empty file", block("empty.py", "", "x = 1\n"), {"empty.py": b"x = 1\n"})
    for path in FILES:
        if _is_protected(path):
            continue
        changes = {path: None}
        yield Case(f"delete {path}", f"{path}\n<<<<<<< DELETE\n", changes)
        moved = {path: None, "moved/here.py": FILES[path]}
        yield Case(f"rename {path}", f"{path}\n<<<<<<< RENAME moved/here.py\n", moved)
    closed = "`plain.py`\n<<<<<<< DELETE >>>>>>>\n"
    yield Case("delete with a closing marker", closed, {"plain.py": None})
    yield Case(
        "rename with `to` and ornaments",
        "`plain.py`\n<<<<<<< RENAME to `moved.py` >>>>>>>\n",
        {"plain.py": None, "moved.py": FILES["plain.py"]},
    )
    yield Case(
        "rename to a name that begins with `to`",
        "plain.py\n<<<<<<< RENAME to.py\n",
        {"plain.py": None, "to.py": FILES["plain.py"]},
    )
    yield Case(
        "rename by case alone",
        "plain.py\n<<<<<<< RENAME Plain.py\n",
        {"plain.py": None, "Plain.py": FILES["plain.py"]},
    )


def several() -> Iterator[Case]:
    """Blocks that build on each other."""
    helper = FILES["pkg/helper.py"]
    yield Case(
        "rename, then change under the new path",
        "pkg/helper.py\n<<<<<<< RENAME pkg/double.py\n"
        + block("pkg/double.py", "    return value * 2\n", "    return value + value\n"),
        {"pkg/helper.py": None, "pkg/double.py": helper.replace(b"value * 2", b"value + value")},
    )
    yield Case(
        "rename, then change without naming the path",
        "pkg/helper.py\n<<<<<<< RENAME pkg/double.py\n"
        + block("", "    return value * 2\n", "    return 2 * value\n"),
        {"pkg/helper.py": None, "pkg/double.py": helper.replace(b"value * 2", b"2 * value")},
    )
    yield Case(
        "change, then rename",
        block("pkg/helper.py", "    return value * 2\n", "    return 0\n")
        + "pkg/helper.py\n<<<<<<< RENAME pkg/double.py\n",
        {"pkg/helper.py": None, "pkg/double.py": helper.replace(b"value * 2", b"0")},
    )
    yield Case(
        "rename, and a new file in its place",
        "pkg/helper.py\n<<<<<<< RENAME pkg/double.py\n" + block("pkg/helper.py", "", "x = 1\n"),
        {"pkg/helper.py": b"x = 1\n", "pkg/double.py": helper},
    )
    yield Case(
        "two names swapped by way of a third",
        "pkg/helper.py\n<<<<<<< RENAME pkg/third.py\npkg/other.py\n<<<<<<< RENAME pkg/helper.py\n"
        "pkg/third.py\n<<<<<<< RENAME pkg/other.py\n",
        {"pkg/helper.py": FILES["pkg/other.py"], "pkg/other.py": helper},
    )
    for count in range(2, 8):
        lines = _Source("letters.py").lines[: count - 1]
        body = "letters.py\n" + "".join(
            block("", f"{line}\n", f"V{n} = {n}\n").removeprefix("\n")
            for n, line in enumerate(lines)
        )
        new = [f"V{n} = {n}" for n in range(len(lines))]
        after = _Source("letters.py").with_lines(0, len(lines), new)
        yield Case(f"{count - 1} blocks after one path", body, {"letters.py": after})


def _is_protected(path: str) -> bool:
    return path.startswith((".github/", "secret/")) or path.endswith((".lock", "-lock.json"))


def well_formed() -> list[Case]:
    return [*replaced(), *added_and_removed(), *ornamented(), *whole_files(), *several()]
