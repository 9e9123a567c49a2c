"""Selects the test files that show whether an environment works."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from pipeline.codebase.commit import File
from pipeline.codebase.conventions import is_runnable, is_test

MOST_FILES: Final = 10
LARGEST: Final = 120_000
"""Bytes; a larger file holds more tests than a sample needs."""
_PARTS: Final = ("integration", "e2e", "functional", "slow", "benchmark", "live", "examples")
"""Folders whose tests often need services or much time; sampled only if there is nothing else."""


def find_test_files(files: Iterable[File]) -> list[File]:
    """The Python files that runners expect tests in, by their names."""
    return [
        file
        for file in files
        if file.regular and file.size and is_test(file.path) and is_runnable(file.path)
    ]


def choose_sample(files: Iterable[File], most: int = MOST_FILES) -> tuple[str, ...]:
    """At most `most` of the test files, spread over their folders, medium-sized files first."""
    tests = list(files)
    plain = [file for file in tests if not set(_PARTS) & set(file.path.lower().split("/")[:-1])]
    by_folder: dict[str, list[File]] = defaultdict(list)
    for file in plain or tests:
        by_folder[file.path.rpartition("/")[0]].append(file)
    for folder in by_folder.values():
        middle = sorted(file.size for file in folder)[len(folder) // 2]
        folder.sort(key=lambda file: (file.size > LARGEST, abs(file.size - middle), file.path))
    # Folders with most tests first: a small sample then represents the repository best.
    folders = sorted(by_folder.values(), key=lambda folder: (-len(folder), folder[0].path))
    chosen: list[str] = []
    for turn in range(most):
        chosen += [folder[turn].path for folder in folders if turn < len(folder)]
    return tuple(sorted(chosen[:most]))
