"""How a repository tests itself: its runner, its test folder, the names of its test files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pipeline.codebase.commit import Codebase
from pipeline.codebase.text import decode_text

Runner = Literal["pytest", "unittest"]

_TEST_NAME = re.compile(r"(test_.+|.+_test|tests?)\.py")
_TEST_FOLDERS = ("test", "tests", "testing")
_FOLDERS_OF_TESTS = frozenset({*_TEST_FOLDERS, "__tests__", "spec", "specs", "e2e"})
_NAME_OF_TEST = re.compile(
    r"(test_.+|tests?|.+[_-](test|spec)s?|.+\.(test|spec|e2e)|[A-Z]\w*Tests?)\.\w{1,5}"
)
"""`test_a.py`, `a_test.go`, `a-test.js`, `a_spec.rb`, `a.test.ts`, `ATest.java`, `ATests.cs`."""
_LARGEST = 200_000
"""Bytes; a test file larger than this is not read to learn from."""
_MOST_READ = 2000
"""How many files with a test's name are read."""
_TEST_DEFINITION = re.compile(r"^[ \t]*(async )?def test|\bTestCase\b", re.MULTILINE)
_PYTEST_USE = re.compile(r"^[ \t]*(import pytest|from pytest)|^(async )?def test_|@pytest\.", re.M)
_UNITTEST_USE = re.compile(r"^[ \t]*(import unittest|from unittest)|\bTestCase\b", re.M)
_PYTEST = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=")


class Conventions(BaseModel):
    """What a new test file should look like here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runner: Runner
    folder: str
    """Where test files live, without a slash at the end; empty for the root."""
    suffix: bool
    """Whether files are called `x_test.py` rather than `test_x.py`."""
    tests: int
    """How many test files there are."""
    packaged: bool
    """Whether `folder` is a package (has `__init__.py`)."""
    example: str | None
    """Path of a test file that shows the style."""

    def fresh_path(self, words: str, taken: Sequence[str] | frozenset[str]) -> str:
        """A path for a new test file about `words` that is not among `taken`, in any case."""
        slug = "_".join(re.findall(r"[a-z0-9]+", words.lower())[:6])[:48].strip("_") or "issue"
        there = {path.lower() for path in taken}
        for number in range(1, len(there) + 2):
            name = slug if number == 1 else f"{slug}_{number}"
            file = f"{name}_test.py" if self.suffix else f"test_{name}.py"
            path = f"{self.folder}/{file}" if self.folder else file
            if path.lower() not in there:
                return path
        raise AssertionError("more names than paths")

    def command_for(self, path: str) -> tuple[str, ...]:
        """Runs one test file."""
        if self.runner == "pytest":
            return (*_PYTEST, path)
        return ("python", "-m", "unittest", "-v", path)

    def suite_command(self) -> tuple[str, ...] | None:
        """Runs all tests; None when there are none."""
        if not self.tests:
            return None
        if self.runner == "pytest":
            return (*_PYTEST, "--tb=short")
        if not self.folder:
            return ("python", "-m", "unittest", "discover", "-v")
        top = self.folder.split("/")[0]
        start = ("-s", top, "-t", ".") if self.packaged else ("-s", self.folder)
        return ("python", "-m", "unittest", "discover", "-v", *start)


def is_test(path: str) -> bool:
    """Whether a path is a test's by its name or folder, in any language."""
    *folders, name = path.split("/")
    if any(folder.lower() in _FOLDERS_OF_TESTS for folder in folders):
        return True
    return bool(_NAME_OF_TEST.fullmatch(name)) or name == "conftest.py"


def is_runnable(path: str) -> bool:
    """Whether a Python file is named as runners expect of those that hold tests."""
    return bool(_TEST_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def has_tests(text: str) -> bool:
    """Whether Python source defines tests, by its looks."""
    return bool(_TEST_DEFINITION.search(text))


async def detect_conventions(codebase: Codebase) -> Conventions:
    """The conventions of `codebase`; unittest in `tests` for one without tests."""
    texts = await read_test_files(codebase)
    paths = list(texts)
    folder = _folder(paths, codebase)
    near = [path for path in paths if _parent(path) == folder]
    configured = await _has_pytest_config(codebase)
    return Conventions(
        runner=_runner(texts, configured),
        folder=folder,
        suffix=sum(path.endswith("_test.py") for path in near) * 2 > len(near),
        tests=len(paths),
        packaged=f"{folder}/__init__.py".lstrip("/") in codebase.files,
        example=_example(near or paths, texts),
    )


async def read_test_files(codebase: Codebase) -> dict[str, str]:
    """The files that hold tests, by path, in the order of their names."""
    named = sorted(
        path
        for path, file in codebase.files.items()
        if file.regular and file.size < _LARGEST and is_runnable(path)
    )
    read = await _read_texts(codebase, named[:_MOST_READ])
    return {path: text for path, text in read.items() if has_tests(text)}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _folder(paths: Sequence[str], codebase: Codebase) -> str:
    if paths:
        folders = Counter(map(_parent, paths))
        # Most files; then the shallowest, so that a tie goes to `tests` rather than `tests/unit`.
        return min(folders, key=lambda f: (-folders[f], f.count("/"), f))
    tops = {path.split("/")[0] for path in codebase.files if "/" in path}
    # A file, link or submodule of that name has no room for a file of ours.
    free = [name for name in ("tests", "test") if name not in codebase.files]
    return next((name for name in free if name in tops), free[0] if free else "")


def _runner(texts: dict[str, str], configured: bool) -> Runner:
    pytest = sum(bool(_PYTEST_USE.search(text)) for text in texts.values())
    unittest = sum(bool(_UNITTEST_USE.search(text)) for text in texts.values())
    if configured or pytest > 0:
        return "pytest"
    return "unittest" if unittest or not texts else "pytest"


def _example(paths: Sequence[str], texts: dict[str, str]) -> str | None:
    """A file of middling size: enough to show the style, not too much to read."""
    sized = [path for path in paths if "def test" in texts.get(path, "")]
    return min(sized, key=lambda path: abs(len(texts[path]) - 4000), default=None)


async def _read_texts(codebase: Codebase, paths: Sequence[str]) -> dict[str, str]:
    contents = await codebase.read_all(paths)
    texts = {path: decode_text(path, data) for path, data in contents.items()}
    return {path: text.text for path, text in texts.items() if text}


async def _has_pytest_config(codebase: Codebase) -> bool:
    if any(path.rsplit("/", 1)[-1] == "conftest.py" for path in codebase.files):
        return True
    names = ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml")
    texts = await _read_texts(codebase, [name for name in names if name in codebase.files])
    if "pytest.ini" in texts or ".pytest.ini" in texts:
        return True
    sections = "\n".join(texts.values())
    return bool(re.search(r"^[ \t]*\[(tool:|tool\.)?pytest[.\]]", sections, re.MULTILINE))
