"""Finds the place of the reproduction test: the test file nearest to the edit, or beside it."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from operator import eq
from pathlib import PurePosixPath

from pipeline.codebase.commit import Codebase, PastCommit, count_changes_together
from pipeline.edits.patches import refusal
from pipeline.languages.conventions import COMMON_STEMS, Conventions, is_test
from pipeline.languages.registry import is_runnable, is_source, language_of, main_language
from sandbox.frozen import replace

_NEAR = 2
"""The least nearness at which a file is extended: named after the edited module (and importing it,
if the name is common), imports it by its package, or an import together with a common history."""
_MOST_HISTORY = 2
_BY_OTHERS = 5 + _MOST_HISTORY
"""The nearness of a test file that another edit for the same issue changes."""
_CHANGED = _BY_OTHERS + 1 + _MOST_HISTORY
"""The nearness of a test file that the edit changes: above all others."""


def rank_test_files(
    changed: Sequence[str],
    texts: Mapping[str, str],
    history: Sequence[PastCommit],
    by_others: Collection[str] = (),
) -> list[tuple[str, int]]:
    """Rank the test files that concern the `changed` paths, with their nearness, nearest first.

    `texts` are the test files' texts by path. Those that are `changed` themselves come first, then
    those that other edits change (`by_others`). Of the rest, names and imports count most, then how
    often both changed together, then the words that both paths share
    (`tests/auth_tests/test_forms.py` for `contrib/auth/forms.py`), the order of `changed`, and how
    close the folders are.
    """
    sources = [path for path in changed if not is_test(path)]
    rated: list[tuple[tuple[int, ...], int, str]] = []
    for path, text in texts.items():
        near, words, order = _rate_nearness(path, text, sources)
        near = max(near, _BY_OTHERS) if path in by_others else near
        near = _CHANGED if path in changed else near
        together = min(_MOST_HISTORY, count_changes_together(history, sources, path))
        if near or together:
            key = (near + together, words, order, together, _count_shared_folders(path, sources))
            rated.append((key, near + together, path))
    rated.sort(key=lambda one: (*(-part for part in one[0]), one[2]))
    return [(path, near) for _, near, path in rated]


def choose_extension(
    ranked: Sequence[tuple[str, int]],
    touched: frozenset[str],
    codebase: Codebase,
    never_touch: Sequence[str],
) -> str | None:
    """The test file to extend; None if none is near enough and editable, or if the edit changes the
    nearest: a new file beside that is nearer than any other."""
    for path, near in ranked:
        if near < _NEAR or path in touched:
            return None
        if refusal(path, codebase.files, never_touch) is None:
            return path
    return None


def choose_new_path(
    title: str,
    changed: Sequence[str],
    neighbour: str | None,
    conventions: Conventions,
    codebase: Codebase,
    never_touch: Sequence[str],
) -> str | None:
    """Choose the path of a new test file: beside `neighbour` if allowed, else in the test folder.

    Its name is the edited module's if its neighbours follow that style and the name is free, else
    it comes from the issue's `title`. None if `never_touch` allows no place.
    """
    taken = [*codebase.files, *changed]
    beside = [neighbour.rpartition("/")[0]] if neighbour else []
    for folder in dict.fromkeys((*beside, conventions.folder, "tests", "test", "")):
        there = _conventions_in(folder, conventions, codebase)
        for words in (_module_words(changed, folder, codebase), title):
            path = there.fresh_path(words, taken) if words else None
            if path and refusal(path, codebase.files, never_touch) is None:
                return path
    return None


def choose_script_paths(
    title: str, changed: Sequence[str], test_path: str, codebase: Codebase, never: Sequence[str]
) -> list[str]:
    """Choose paths of a script that no runner collects: beside the tests, then at the root."""
    slug = "_".join(re.findall(r"[a-z0-9]+", title.lower())[:6])[:48].strip("_") or "issue"
    folders = dict.fromkeys((test_path.rpartition("/")[0], ""))
    suffix = main_language(codebase).script_suffix
    paths = [f"{folder}/reproduce_{slug}{suffix}".lstrip("/") for folder in folders]
    taken = {path.lower() for path in (*codebase.files, *changed)}
    return [
        path
        for path in paths
        if path.lower() not in taken and refusal(path, codebase.files, never) is None
    ]


def _conventions_in(folder: str, conventions: Conventions, codebase: Codebase) -> Conventions:
    """The `conventions` for a new file in `folder`, with the naming of its neighbours."""
    near = [
        path for path in codebase.files if path.rpartition("/")[0] == folder and is_runnable(path)
    ]
    suffix = sum(PurePosixPath(path).stem.endswith("_test") for path in near) * 2 > len(near)
    return replace(conventions, folder=folder, suffix=suffix if near else conventions.suffix)


def _module_words(changed: Sequence[str], folder: str, codebase: Codebase) -> str:
    """The edited module's name, if test files of `folder` are named after modules."""
    stems = [PurePosixPath(p).stem for p in changed if is_source(p) and not is_test(p)]
    modules = {PurePosixPath(path).stem for path in codebase.files if is_source(path)}
    tests = [p for p in codebase.files if p.rpartition("/")[0] == folder and is_runnable(p)]
    named = [re.sub(r"^test_|_test$", "", PurePosixPath(path).stem) for path in tests]
    if not stems or 2 * sum(name in modules for name in named) <= len(named):
        return ""
    stem = stems[0]
    free = stem != "__init__" and stem not in named
    return stem.replace("_", " ").lower() if free else ""


def _count_shared_folders(test: str, sources: Sequence[str]) -> int:
    """How many leading folders the test shares with the nearest source."""
    folders = PurePosixPath(test).parts[:-1]
    others = (PurePosixPath(path).parts[:-1] for path in sources)
    return max((sum(takewhile(bool, map(eq, folders, other))) for other in others), default=0)


def _rate_nearness(test: str, text: str, changed: Sequence[str]) -> tuple[int, int, int]:
    """Rate how closely the test file `test` concerns the nearest of the `changed` paths.

    First 0 not at all, 4 named after it and imports it by three parts of its
    path, 3 one of the two, 2 imports it by its package, 1 by its name; then how many words both
    paths share, and minus the path's index. A common name counts only with an import of the whole
    path.
    """
    own = _words_of(test)
    return max(
        (
            (_affinity(test, text, path), (own & _words_of(path)).total(), -at)
            for at, path in enumerate(changed)
            if is_source(path) and language_of(path) is language_of(test)
        ),
        default=(0, 0, 0),
    )


def _words_of(path: str) -> Counter[str]:
    words = re.findall(r"[a-z0-9]+", str(PurePosixPath(path).with_suffix("")).lower())
    common = ("test", "tests", "testing", "src", "lib")
    return Counter(word for word in words if word not in common)


def _affinity(test: str, text: str, path: str) -> int:
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    if not parts:
        return 0
    stem = parts[-1]
    depth = _measure_import(text, parts)
    if PurePosixPath(test).stem not in (f"test_{stem}", f"{stem}_test"):
        return depth
    if depth == 3:
        return 4
    # Imports do not name the folder above the packages.
    whole = len(parts) - (parts[0] in ("src", "lib"))
    return 3 if stem not in COMMON_STEMS or depth >= whole else max(depth, 1)


def _measure_import(text: str, parts: Sequence[str]) -> int:
    """How many of the last `parts` of a module's path `text` names, at most three: `a.b.c` counts
    as much as `c` imported from `a.b`. One if it imports the last alone, 0 if it does not."""
    for depth in (3, 2):
        if len(parts) >= depth:
            *package, stem = map(re.escape, parts[-depth:])
            dotted = r"\.".join(package)
            if re.search(rf"\b{dotted}(?:\.| +import [^\n]{{0,500}}\b){stem}\b", text):
                return depth
    imported = rf"^[ \t]*(from|import)\b[^\n]*\b{re.escape(parts[-1])}\b"
    return int(bool(re.search(imported, text, re.MULTILINE)))
