"""Finds the test files near an edit: by imports, names, shared words and common history."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pipeline.codebase.commit import Codebase
from pipeline.codebase.conventions import COMMON_STEMS, read_test_files
from pipeline.codebase.git import GitFailed
from pipeline.codebase.history import read_log
from pipeline.edits.unified_diff import FileDiff, parse_diff
from pipeline.regression.imports import LARGEST_SOURCE, ImportGraph, scan_code

MOST_FILES = 12
"""Test files run for one edit."""
MOST_BYTES = 400_000
"""The total characters of their texts: a long file has many tests. The nearest is always
included."""
HISTORY_COMMITS = 300
HISTORY_SECONDS = 20.0
_MOST_SOURCES = 5000
_MOST_CHANGED = 30
"""Files in a commit; a larger commit is no evidence."""
_NAMED = 4.0
_IMPORTS = {1: 3.0, 2: 1.5, 3: 0.75, 4: 0.4}
_HISTORY = 3.0
_WORDS = 4.0
_FOLDER = 1.0
_CHANGED = 10.0
Keep = Callable[[Sequence[str]], Sequence[str]]
_DEFINITION = re.compile(r"(\s*)(?:async\s+def|def|class)\s+(\w+)")
_MOST_AROUND = 10
"""Of the functions and classes around a line, the innermost."""
_COMMON_STARTS = {word[:5] for word in COMMON_STEMS | {"test", "tests", "src"}} | {""}


@dataclass(frozen=True)
class Nearness:
    """The evidence on which tests are near, by path."""

    texts: Mapping[str, str]
    """The texts of the test files."""
    distances: Mapping[str, int] = field(default_factory=dict[str, int])
    """Import steps to a touched file."""
    together: Mapping[str, float] = field(default_factory=dict[str, float])
    """How often a file changed together with touched files; smaller commits count more."""
    words: Sequence[str] = ()
    """Names of touched functions and classes."""


class NearFiles:
    """Ranks the test files of one codebase."""

    def __init__(self, codebase: Codebase, exclude: Sequence[str] = ()) -> None:
        """Test files that match a pattern of `exclude` are never near."""
        self._codebase = codebase
        self._exclude = exclude
        self._lock = asyncio.Lock()
        self._texts: dict[str, str] | None = None
        self._graph = ImportGraph({})

    async def find(self, diff: str, keep: Keep = tuple) -> list[str]:
        """Find the test files near `diff`, nearest first, without those that it removes.

        Of all that are near, only those that `keep` returns are chosen from.
        """
        texts = await self._load()
        files = await asyncio.to_thread(parse_diff, diff)
        changed = list(dict.fromkeys(p for file in files for p in (file.old, file.new) if p))
        gone = {file.old for file in files if file.old != file.new}
        evidence = Nearness(
            texts=texts,
            distances=self._graph.distances(changed),
            together=await self._read_history(changed),
            words=await self._find_words(files),
        )
        ranked = await asyncio.to_thread(rank_files, changed, evidence)
        return choose_files(keep([path for path in ranked if path not in gone]), texts)

    @property
    def sizes(self) -> dict[str, int]:
        """Characters of each test file; empty before `find`."""
        return {path: len(text) for path, text in (self._texts or {}).items()}

    async def _load(self) -> dict[str, str]:
        async with self._lock:
            if self._texts is None:
                regular = (path for path, file in self._codebase.files.items() if file.regular)
                python = sorted(path for path in regular if path.endswith(".py"))[:_MOST_SOURCES]
                scan = await scan_code(
                    await self._codebase.read_texts(python, largest=LARGEST_SOURCE)
                )
                self._graph = ImportGraph(scan.imports)
                self._texts = await read_test_files(self._codebase, self._exclude)
            return self._texts

    async def _read_history(self, changed: Sequence[str]) -> dict[str, float]:
        """Count common changes; empty without history, for example in a shallow clone."""
        paths = [path for path in changed if path in self._codebase.files]
        if not self._codebase.commit or not paths:
            return {}
        options = (
            f"-n{HISTORY_COMMITS}",
            "--format=%x01",
            "--name-only",
            "--no-renames",
            "--min-parents=1",
            "--full-diff",
        )
        try:
            async with asyncio.timeout(HISTORY_SECONDS):
                found = await read_log(self._codebase, *options, paths=paths)
        except (GitFailed, TimeoutError):
            return {}
        return count_together(found.decode("utf-8", "replace"), changed)

    async def _find_words(self, files: Sequence[FileDiff]) -> list[str]:
        words: Counter[str] = Counter()
        for file in files:
            text = await self._codebase.read_text(file.old) if file.old else None
            if text:
                words.update(await asyncio.to_thread(_find_changed_names, file, text))
        return [word for word, _ in words.most_common(30)]


def _find_changed_names(file: FileDiff, text: str) -> list[str]:
    """The functions and classes around each changed line."""
    places: list[int] = []
    for hunk in file.hunks:
        place = hunk.start
        for marker, _ in hunk.lines:
            if marker != " ":
                places.append(place)
            place += marker != "+"
    found = enclosing_names(text.split("\n"), places)
    return [name for place in places for name in found[place]]


def count_together(log: str, changed: Iterable[str]) -> dict[str, float]:
    """Count common changes in `git log --name-only` with a \x01 before each commit."""
    own = set(changed)
    found: defaultdict[str, float] = defaultdict(float)
    for commit in log.split("\x01"):
        names = [name for name in commit.split("\n") if name]
        if 1 < len(names) <= _MOST_CHANGED:
            for name in names:
                if name not in own:
                    found[name] += 1 / math.sqrt(len(names))
    return dict(found)


def enclosing_names(lines: Sequence[str], places: Iterable[int]) -> dict[int, list[str]]:
    """By line of `places`, counted from 1: the functions and classes around it, innermost first.

    It reads each line once, however many places there are.
    """
    found: dict[int, list[str]] = {}
    open_ones: list[tuple[int, str]] = []
    at = 0
    for place in sorted(set(places)):
        for line in lines[at:place]:
            if match := _DEFINITION.match(line[:300]):
                indent = len(match[1])
                while open_ones and open_ones[-1][0] >= indent:
                    open_ones.pop()
                open_ones.append((indent, match[2]))
        at = place
        names = (name for _, name in open_ones[: -_MOST_AROUND - 1 : -1])
        found[place] = [name for name in names if len(name) > 2 and not name.startswith("__")]
    return found


def rank_files(changed: Sequence[str], evidence: Nearness) -> list[str]:
    """Rank the test files that have any evidence, nearest first."""
    scores: defaultdict[str, float] = defaultdict(float)
    strongest = max((evidence.together.get(test, 0.0) for test in evidence.texts), default=0.0)
    for test in evidence.texts:
        scores[test] += _CHANGED * (test in changed)
        if evidence.distances.get(test):
            scores[test] += _IMPORTS.get(evidence.distances[test], 0.1)
        if strongest:
            scores[test] += _HISTORY * evidence.together.get(test, 0.0) / strongest
    for test, score in _rank_names(changed, list(evidence.texts)).items():
        scores[test] += score
    for word in evidence.words:
        holding = [test for test, text in evidence.texts.items() if word in text]
        rare = _rarity(len(holding), len(evidence.texts))
        for test in holding:
            scores[test] += _WORDS * rare
    return sorted((t for t in evidence.texts if scores[t] > 0), key=lambda t: (-scores[t], t))


def choose_files(ranked: Sequence[str], texts: Mapping[str, str]) -> list[str]:
    """Choose the first `MOST_FILES`, or fewer to keep their total size within the limit."""
    chosen: list[str] = []
    left = MOST_BYTES
    for path in ranked:
        size = len(texts.get(path, ""))
        if chosen and size > left:
            continue
        chosen.append(path)
        left -= size
        if len(chosen) == MOST_FILES or left <= 0:
            break
    return chosen


def _rarity(count: int, whole: int) -> float:
    """1 for a word in a single file, 0 for a word in all of several files."""
    if whole < 2 or not count:
        return float(count > 0)
    return math.log(whole / count) / math.log(whole)


def _rank_names(changed: Sequence[str], tests: Sequence[str]) -> dict[str, float]:
    """How much the names of test files have in common with those of changed files."""
    stems = {test: PurePosixPath(test).stem for test in tests}
    words = {test: _split_parts(_list_parts(test)) for test in tests}
    counts = Counter(word for found in words.values() for word in found)
    rarity = {word: _rarity(count, len(tests)) for word, count in counts.items()}
    scores = dict.fromkeys(tests, 0.0)
    for path in changed:
        own = _list_parts(path)
        if not path.endswith(".py") or not own:
            continue
        stem, ours = own[-1].lstrip("_"), _split_parts(own)
        names = {f"test_{stem}", f"{stem}_test", f"test{stem}"}
        for test in tests:
            shared = sum(rarity[word] for word in ours & words[test])
            score = _NAMED if stems[test] in names else _FOLDER * shared
            scores[test] = max(scores[test], score)
    return scores


def _list_parts(path: str) -> list[str]:
    """The folders and the name without its ending; a package's `__init__` is the package."""
    return [part for part in PurePosixPath(path).with_suffix("").parts if part != "__init__"]


def _split_parts(parts: Sequence[str]) -> set[str]:
    """The words of a path, as far as they tell files apart."""
    found = {word[:5] for part in parts for word in part.lower().split("_")}
    return found - _COMMON_STARTS
