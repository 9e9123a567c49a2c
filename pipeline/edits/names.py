"""The name of a file in the line before a block: models decorate it in many ways."""

import html
import re
from collections.abc import Container
from typing import Final

_FENCE: Final = re.compile(r"(?:`{3,}|~{3,})(.*)")
_LANGUAGE: Final = re.compile(r"[\w+#-]*[ :,]+(?=\S)")
_ATTRIBUTE: Final = re.compile(
    r"\b(?:title|file|filename|path|name|src)\s*=\s*[\"'{]?([^\"'{}>\s]+)"
)
_LINK: Final = re.compile(r"\[([^\[\]]+)\]\(([^()\s]+)\)")
_ELEMENT: Final = re.compile(r"<(\w+)>([^<>]+)</(\w+)>")
_LIST_MARK: Final = re.compile(
    r"(?:[-+•–*>]|(?:step )?\(?\d{1,3}[.):]|\(?[a-z][.)])\s+(?=\S)", re.IGNORECASE
)
_COMMENTS: Final = (("//", ""), ("<!--", "-->"), ("/*", "*/"))
_LABELS: Final = frozenset(
    [
        "file",
        "filename",
        "filepath",
        "path",
        "files",
        "location",
        "module",
        "name",
        "new",
        "create",
        "created",
        "creating",
        "add",
        "added",
        "edit",
        "edited",
        "update",
        "updated",
        "modify",
        "modified",
        "change",
        "changed",
        "in",
    ]
)
_BETWEEN: Final = frozenset(
    ["the", "a", "this", "to", "existing", "test", "source", "full", "relative"]
)
_NOTE: Final = re.compile(
    r"\s(?:[-–—] |[(\[])(?:a )?(?:new|created?|modified|updated?|edited|existing|added)"
    r"(?: file)?[)\]]?",
    re.IGNORECASE,
)
_DIFF: Final = re.compile(r"(?:\+\+\+|---) [ab]/")


def _without_label(name: str) -> str:
    words = name.split(" ")
    bare = [word.lower().rstrip(":=") for word in words[:6]]
    taken = next((at for at, word in enumerate(bare) if word not in _LABELS | _BETWEEN), len(bare))
    if taken < len(words) and not _LABELS.isdisjoint(bare[:taken]):
        return " ".join(words[taken:])
    label, _, rest = name.partition(":")
    return rest if label.lower() in _LABELS and rest else name


_LONGEST: Final = 2000
"""Characters of a line that are read; no path is so long."""
_ORNAMENT: Final = " \t\r*`#\"'“”‘’«»"


def read_name(line: str, files: Container[str] = ()) -> str:
    """The path in a line between blocks; "" for a fence or an empty line.

    A line that is the path of one of `files` as it is, is that path.
    """
    line = line[:_LONGEST]
    bare = line.strip(" \t\r*`#").removesuffix(":").strip(" \t\r*`#")
    if bare in files:
        return bare
    name = html.unescape(line).strip()
    if fence := _FENCE.fullmatch(name):
        name = _in_fence(fence[1].strip(" \t`"))
    for _ in range(8):  # decorations in decorations
        shorter = _undecorate(name)
        if shorter == name:
            break
        name = shorter
        if name in files:
            break
    return name


def _in_fence(words: str) -> str:
    """The path after the language, if there is one."""
    if named := _ATTRIBUTE.search(words):
        return named[1]
    rest = words[found.end() :] if (found := _LANGUAGE.match(words)) else words
    return rest if re.search(r"[./]", rest) else ""


def _undecorate(name: str) -> str:
    name = name.strip().removesuffix(":").removesuffix(",").strip(_ORNAMENT)
    if link := _LINK.fullmatch(name):
        return link[1] if re.search(r"[./]", link[1]) else link[2]
    if element := _ELEMENT.fullmatch(name):
        return element[2]
    if name.startswith("<") and (named := _ATTRIBUTE.search(name)):
        return named[1]
    for start, end in _COMMENTS:
        if name.startswith(start):
            return name.removeprefix(start).removesuffix(end)
    for prefix in (_DIFF, _LIST_MARK):
        if found := prefix.match(name):
            return name[found.end() :]
    if (bare := _without_label(name)) != name:
        return bare
    note = next((one for one in _NOTE.finditer(name) if one.end() == len(name)), None)
    return name[: note.start()] if note else name.removeprefix("./")


_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))]
)
_FORBIDDEN: Final = '<>:"|?*'


def check_new_name(path: str, files: Container[str], *, blanks: bool) -> str | None:
    """Why no new file may have this path; None if it may. `blanks`: names here have some.

    Windows cannot check out what these rules refuse:
    https://learn.microsoft.com/en-us/windows/win32/fileio/naming-a-file
    """
    if path in files:
        return None
    wrong = next((letter for letter in path if letter in _FORBIDDEN), None)
    hint = "put only the path on the line before SEARCH."
    if wrong is not None:
        return f"{path!r} is no path for a new file, because it contains {wrong!r}: {hint}"
    for part in path.split("/"):
        if part.endswith((".", " ")) or part.split(".")[0].lower() in _RESERVED:
            return f"{path!r} is no path for a new file: Windows has no file {part!r}."
    if " " in path and not (blanks and "." in path.rsplit("/", 1)[-1].rsplit(" ", 1)[-1]):
        return f"{path!r} is not the path of a file: {hint}"
    return None
