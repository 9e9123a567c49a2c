"""What an issue mentions: files in stack traces and in its text, and the words it uses."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from pipeline.types import Issue

_LONGEST = 200
_PATH = re.compile(
    rf"\"(?P<quoted>[^\"\n]{{1,{_LONGEST}}}\.\w{{1,12}})\""
    rf"|(?P<plain>[\w./\\@+-]{{1,{_LONGEST}}}\.\w{{1,12}})\b"
)
_FRAME_OF_JVM = re.compile(r"\bat ([\w.$]{1,200})\.[\w$<>]{1,100}\((\w{1,100}\.\w{1,12}):\d")
_ROOTS = frozenset({"src", "lib", "app", "source", "python"})
"""Leading folders that an installed or copied tree drops from its paths."""
_MOST_ALIKE = 5
"""A bare file name that more files than this share counts for none of them."""
_MOST_NAMES = 2000
"""The most names of an issue that are looked up."""

_WORD = re.compile(r"[^\W\d]\w{2,79}")
_PART = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_COMMON = """
    the and for with not that this from are you have has was can when which should would will but
    issue bug error expected actual python version import class def self none true false return
    print code file line traceback most recent call last using use versions
"""
_IGNORED = frozenset(_COMMON.split())
_PACKAGE = re.compile(
    r"[ \t>|*-]{0,8}[A-Za-z][\w.-]{0,80}(?:[ \t]{0,4}[=@<>~]=?=?[ \t]{0,4}|[ \t]{1,60})"
    r"v?\d[\w.+!-]{0,60}(?:[ \t]+[\w./:()-]{1,200}){0,3}"
)
"""A line of `pip list`, `pip freeze` or `conda list`."""
_LIST_LINES = 5
"""So many such lines in a row are a list of what is installed, which says nothing of the code."""
_LOG_LINES = 40
_TITLE = 2
"""The weight of a word in the title."""


def find_named_files(issue: Issue, paths: Iterable[str]) -> list[str]:
    """Those of `paths` that a stack trace in the issue names, then those that its text names.

    These never drop out of a ranking. A frame's path may begin differently from the repository's
    (`/usr/lib/site-packages/pkg/a.py` is `src/pkg/a.py`): the file with the longest common suffix,
    including its folder, is meant. A bare name counts if few files have it.
    """
    names = list(_names("\n".join((issue.title, issue.body, *issue.discussion))))
    alike: defaultdict[str, list[str]] = defaultdict(list)
    bases = {name[-1] for name in names}
    for path in paths:
        base = path.rpartition("/")[2].casefold()
        if base in bases:
            alike[base].append(path)
    return list(
        dict.fromkeys(path for name in names for path in _matching_files(name, alike[name[-1]]))
    )


def count_words(issue: Issue) -> Counter[str]:
    """The weight of each word of the issue."""
    found = Counter(split_words(_drop_pasted("\n".join((issue.body, *issue.discussion)))))
    for word in split_words(issue.title):
        found[word] += _TITLE
    return Counter({word: n for word, n in found.items() if word not in _IGNORED})


def _drop_pasted(text: str) -> str:
    """`text` without lists of installed packages, and without the middle of long logs."""
    kept: list[str] = []
    run: list[str] = []
    for line in (*text.split("\n"), ""):
        if _PACKAGE.fullmatch(line.rstrip()):
            run.append(line)
            continue
        kept += [*(run if len(run) < _LIST_LINES else ()), line]
        run = []
    return "\n".join(_cut_logs(kept))


def _cut_logs(lines: list[str]) -> Iterator[str]:
    """Of a fenced block of many lines, only the first and the last ones: the error is at an end."""
    block: list[str] | None = None
    for line in lines:
        fence = line.lstrip().startswith(("```", "~~~"))
        if block is None:
            block = [] if fence else None
            yield line
        elif fence:
            yield from _cut_block(block)
            yield line
            block = None
        else:
            block.append(line)
    yield from _cut_block(block or [])


def _cut_block(block: list[str]) -> list[str]:
    return block if len(block) <= 2 * _LOG_LINES else block[:_LOG_LINES] + block[-_LOG_LINES:]


def split_words(text: str) -> Iterator[str]:
    """Identifiers and words in lower case, and the parts of compound ones."""
    for word in _WORD.findall(text):
        yield word.lower()
        parts = _PART.findall(word)
        if len(parts) > 1:
            for part in parts:
                yield part.lower()


Name = tuple[str, ...]
"""The parts of a path, case-folded."""


def _names(text: str) -> Iterator[Name]:
    seen: set[Name] = set()
    for found in _paths_in(text):
        parts = found.replace("\\", "/").casefold().split("/")
        name = tuple(part for part in parts if part not in ("", ".", ".."))
        if name and name not in seen:
            seen.add(name)
            yield name
        if len(seen) >= _MOST_NAMES:
            return


def _paths_in(text: str) -> Iterator[str]:
    for frame in _FRAME_OF_JVM.finditer(text):
        package = frame[1].rpartition(".")[0].replace(".", "/")
        yield f"{package}/{frame[2]}"
    for path in _PATH.finditer(_FRAME_OF_JVM.sub(" ", text)):
        yield path["quoted"] or path["plain"]


def _matching_files(name: Name, candidates: list[str]) -> list[str]:
    """The files that a name can mean, among those with the same last part."""
    if len(name) == 1:
        return candidates if len(candidates) <= _MOST_ALIKE else []
    shared = {path: _common_parts(name, path) for path in candidates}
    most = max(shared.values(), default=0)
    return [path for path in candidates if shared[path] == most and _is_enough(path, most)]


def _common_parts(name: Name, path: str) -> int:
    """How many trailing parts both have in common."""
    parts = path.casefold().split("/")
    pairs = zip(reversed(name), reversed(parts), strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if one != other), min(len(name), len(parts))
    )


def _is_enough(path: str, shared: int) -> bool:
    front = path.casefold().split("/")[:-shared]
    return shared > 1 or all(part in _ROOTS for part in front)
