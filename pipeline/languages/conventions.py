"""How a repository tests itself: its runner, test folder, and names of test files."""

import re
from collections.abc import Collection
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict

from pipeline.codebase.unified_diff import FileDiff

COMMON_STEMS = frozenset({"base", "common", "core", "init", "main", "models", "util", "utils"})
"""Names of modules that say little: many packages have one."""
_FOLDERS_OF_TESTS = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs", "e2e"})
_NAME_OF_TEST = re.compile(
    r"(test_.+|tests?|.+[_-](test|spec)s?|.+\.(test|spec|e2e)|[A-Z]\w*Tests?)\.\w{1,5}"
)
"""`test_a.py`, `a_test.go`, `a-test.js`, `a_spec.rb`, `a.test.ts`, `ATest.java`, `ATests.cs`."""
_PYTEST = ("python", "-m", "pytest")


class Conventions(BaseModel):
    """The form of a new test file in this repository."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runner: str
    """`pytest` or `unittest`; in another language, its framework in words."""
    folder: str
    """The folder of test files, without a trailing slash; empty for the root."""
    suffix: bool
    """Whether files are named `x_test.py` rather than `test_x.py`."""
    form: str = ""
    """The name of a new file with `{name}` in it; empty: Python's, by `suffix`."""
    tests: int
    """The number of test files."""
    packaged: bool
    """Whether `folder` is a package (has `__init__.py`)."""
    example: str | None
    """The path of a test file that shows the style."""
    overrides: tuple[str, ...] = ()
    """Options of pytest that undo those of the repository that hide a single test's outcome."""
    pattern: str = ""
    """For `unittest discover`, if its own pattern would miss test files."""
    spread: bool = False
    """Whether test files lie in several top-level folders."""
    testpaths: tuple[str, ...] = ()
    """What pytest collects if no path is given, by its settings; empty: everything."""
    norecursedirs: tuple[str, ...] = ()
    """Patterns of folders that pytest does not enter, by its settings."""
    python_files: tuple[str, ...] = ()
    """Patterns of test files, by pytest's settings; empty: the usual ones."""

    def fresh_path(self, words: str, taken: Collection[str]) -> str:
        """A path for a new test file about `words` that is not among `taken`, in any case."""
        slug = "_".join(re.findall(r"[a-z0-9]+", words.lower())[:6])[:48].strip("_") or "issue"
        there = {low for path in taken if slug in (low := path.lower())}
        for number in range(1, len(there) + 2):
            name = slug if number == 1 else f"{slug}_{number}"
            file = self._name_file(name)
            path = f"{self.folder}/{file}" if self.folder else file
            if path.lower() not in there:
                return path
        raise AssertionError("more names than paths")

    def _name_file(self, name: str) -> str:
        if self.form:
            return self.form.format(name=name)
        usual = f"{name}_test.py" if self.suffix else f"test_{name}.py"
        names = [pattern for pattern in self.python_files if "/" not in pattern]
        if not names or any(fnmatchcase(usual, pattern) for pattern in names):
            return usual
        plain = (p for p in names if p.count("*") == 1 and not re.search(r"[?\[]", p))
        return next((pattern.replace("*", name) for pattern in plain), usual)

    def command_for(self, path: str) -> tuple[str, ...]:
        """The command that runs one test file."""
        if self.runner == "pytest":
            return (*_PYTEST, *self.overrides, path)
        return ("python", "-m", "unittest", "-v", path)

    def suite_command(self) -> tuple[str, ...] | None:
        """The command that runs all tests; None if there are none."""
        if not self.tests:
            return None
        if self.runner == "pytest":
            return _PYTEST
        pattern = ("-p", self.pattern) if self.pattern else ()
        if not self.folder or self.spread:
            return ("python", "-m", "unittest", "discover", "-v", *pattern)
        top = self.folder.split("/")[0]
        start = ("-s", top, "-t", ".") if self.packaged else ("-s", self.folder)
        return ("python", "-m", "unittest", "discover", "-v", *start, *pattern)


_VENDORED = re.compile(
    r"(?:^|/)(?:third[_-]party|vendor|node_modules|googletest|gtest|Catch2)/|(?:^|/)catch\.hpp$"
)
"""Others' code, test frameworks with tests of their own among it."""


def is_test(path: str) -> bool:
    """Whether a path's name or folder marks a test of the repository, in any language."""
    *folders, name = path.split("/")
    if _VENDORED.search(path):
        return False
    if any(folder.lower() in _FOLDERS_OF_TESTS for folder in folders):
        return True
    return bool(_NAME_OF_TEST.fullmatch(name)) or name == "conftest.py"


def is_test_diff(file: FileDiff) -> bool:
    """Whether a file is a test, by its old and its new path."""
    return all(is_test(path) for path in (file.old, file.new) if path)
