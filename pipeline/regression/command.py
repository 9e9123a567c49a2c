"""The command that runs a repository's own tests: configured, or found in its files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from pipeline.codebase.commit import Codebase
from pipeline.languages.conventions import detect_conventions
from pipeline.languages.python.script_runners import (
    OwnScript,
    find_scripts,
    recognise_script,
    to_label,
)
from pipeline.languages.python.tox_nox import nox_lines, tox_lines
from sandbox.frozen import Frozen, replace

Kind = Literal["pytest", "unittest", "labels", "files", "other"]
Source = Literal["configuration", "tox", "nox", "detection"]

NO_COMMAND = (
    "I found no tests in this repository, and no test command in its configuration: "
    "set `test` in .github/capuchin.yml."
)
_GUEST_PACKAGE = "capuchin_inside"
_STARTS = ("", "run", "exec", "--")
"""Words before a program's name; the empty one is the beginning of the command."""
_MOST_COMMANDS = 4
"""Commands tried before the tests count as not runnable."""
_MOST_NAMED = 300
"""Files named on a command line; beyond that, the recorder filters inside."""
_NOSE = ("python", "-m", "nose", "-v", "--with-xunit")
_POSARGS = re.compile(r"\{posargs(?::([^{}]*))?\}")


class RequestedTests(Frozen):
    """The tests to run; None: all."""

    tests: tuple[str, ...] | None = None
    files: tuple[str, ...] | None = None
    """Files that are collected."""
    functions: bool = False
    """Whether to record which functions each test runs."""
    named: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """By file of `files`: the tests of it to run, with or without their class and parameters; empty
    for the whole file. A runner that takes files alone (`TestCommand.kind`) runs all of them."""

    @property
    def are_chosen(self) -> bool:
        """Whether these are a choice, not all tests that the command runs."""
        return self.tests is not None or self.files is not None

    def key(self) -> str:
        """The same for equal requests, also of runs that are saved."""
        return self.model_dump_json(exclude=None if self.named else {"named"})


class TestCommand(Frozen):
    """The command that starts the tests."""

    __test__ = False

    argv: tuple[str, ...]
    kind: Kind
    """The runner, which decides how tests are distinguished and chosen (not possible for `other`).
    `labels` and `files` are a repository's own script that takes such arguments."""
    source: Source
    folder: str = ""
    """For `labels`: the folder to which the dotted paths are relative."""
    places: tuple[str, ...] = ()
    """The words of `argv` that name files or folders of the repository."""
    testpaths: tuple[str, ...] = ()
    """What pytest collects if `argv` names no place, as globs; empty: everything."""
    norecursedirs: tuple[str, ...] = ()
    """Folders that pytest does not enter, as globs."""
    python_files: tuple[str, ...] = ()
    """The names of test files for pytest, as globs; empty: the usual ones."""

    def argv_with_recorder(self, files: Sequence[str] | None = None) -> tuple[str, ...]:
        """`argv` with our recorder, if it can be added, restricted to `files`."""
        named = files if files and len(files) <= _MOST_NAMED else ()
        if self.kind == "labels":
            labels = (to_label(path, self.folder) for path in named)
            launch = (self.argv[0], "-m", f"{_GUEST_PACKAGE}.script_main")
            return (*launch, *self.argv[1:], *filter(None, labels))
        if self.kind == "files":
            return (*self.argv, *named)
        at = find_runner(self.argv)
        words = self.argv
        if at is None:
            return words
        if self.kind == "unittest":
            return (*words[:at], f"{_GUEST_PACKAGE}.unittest_main", *words[at + 1 :])
        if named and "--pyargs" not in words:
            words = (*(w for w in words if w not in self.places), *named)
        # Report every broken test. After a lone -- nothing is an option.
        options = ("--maxfail=0", "--continue-on-collection-errors")
        end = words.index("--", at) if "--" in words[at:] else len(words)
        plugin = ("-p", f"{_GUEST_PACKAGE}.pytest_plugin")
        return (*words[: at + 1], *plugin, *words[at + 1 : end], *options, *words[end:])

    def covers(self, files: Sequence[str]) -> tuple[str, ...]:
        """Those of `files` that the command can run separately."""
        if self.kind == "labels":
            return tuple(path for path in files if to_label(path, self.folder))
        return () if self.kind == "other" else tuple(files)

    def collects(self, files: Sequence[str]) -> tuple[str, ...]:
        """Those of `files` that the command itself runs; all if none, or if that is unknown.

        Tests elsewhere, as those of examples, may need what the environment lacks, and pytest runs
        nothing if one of their `conftest.py` fails.
        """
        roots = self.places or self.testpaths
        entered = tuple(path for path in files if not self._skips(path))
        inside = tuple(path for path in entered if any(_lies_in(path, root) for root in roots))
        return inside or entered or tuple(files)

    def _skips(self, path: str) -> bool:
        """Whether pytest does not enter a folder of `path`, if nobody names it."""
        folders = [str(folder) for folder in PurePosixPath(path).parents][:-1]
        return any(
            fnmatchcase(f"/{folder}", f"*/{pattern}")
            for folder in folders
            for pattern in self.norecursedirs
        )


async def find_commands(
    codebase: Codebase, configured: Sequence[str] = ()
) -> tuple[TestCommand, ...]:
    """Return only the configured command; otherwise possible commands, the likeliest first.

    The possible commands are a test script of the repository, the pytest or unittest commands of
    tox or nox (which themselves need a network), and the runner that the test files suggest. Empty
    if there is none. For the choice of a tox environment see `pipeline.languages.python.tox_nox`.
    """
    places = _folders_and_files(codebase)
    if configured:
        script = await recognise_script(codebase, configured)
        if script:
            return (_from_script(script, "configuration"),)
        return (_to_command(configured, "configuration", places),)
    texts = await codebase.read_texts(("tox.ini", "pyproject.toml", "noxfile.py"))
    tox = [*tox_lines(texts.get("tox.ini", ""), texts.get("pyproject.toml", ""))]
    nox = [*nox_lines(texts.get("noxfile.py", ""))]
    scripts = [_from_script(script, "detection") for script in await find_scripts(codebase)]
    lines = [
        _to_command(argv, source, places)
        for source, found in _by_source(tox, nox)
        for argv in filter(None, map(_parse_line, found))
    ]
    named = {_name(script.argv[1]) for script in scripts}
    # A script that tox or nox does not run alongside pytest is a leftover.
    own = not lines or any(_mentions(line, named) for line in (*tox, *nox))
    found = [*scripts, *lines] if own else [*lines, *scripts]
    conventions = await detect_conventions(codebase)
    if argv := conventions.suite_command():
        found.append(_to_command(argv, "detection", places))
    if any(_mentions(line, {"nosetests", "nose"}) for line in (*tox, *nox)):
        found.append(_to_command(_NOSE, "tox", places))
    unique = [*{command.argv: command for command in found}.values()][:_MOST_COMMANDS]
    settings = {
        "testpaths": conventions.testpaths,
        "norecursedirs": conventions.norecursedirs,
        "python_files": conventions.python_files,
    }
    return tuple(replace(one, **settings) if one.kind == "pytest" else one for one in unique)


def find_runner(words: Sequence[str]) -> int | None:
    """The position where the command starts pytest or unittest: directly, by `-m`, by `uv run`
    etc."""
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if word in ("pytest", "unittest") and before == "-m":
            return at
        if word.rpartition("/")[2] in ("pytest", "py.test") and before in _STARTS:
            return at
    return None


def _by_source(tox: list[str], nox: list[str]) -> tuple[tuple[Source, list[str]], ...]:
    return ("tox", tox), ("nox", nox)


def _mentions(line: str, names: Collection[str]) -> bool:
    return any(_name(word) in names for word in line.split())


def _lies_in(path: str, root: str) -> bool:
    """Whether `path` is `root` or lies below it; `root` may have wildcards."""
    root = root.removeprefix("./").rstrip("/").split("::")[0]
    if root in (".", ""):
        return True
    parts, depth = path.split("/"), root.count("/") + 1
    return fnmatchcase("/".join(parts[:depth]), root)


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _from_script(script: OwnScript, source: Source) -> TestCommand:
    kind: Kind = "labels" if script.takes == "labels" else "files"
    return TestCommand(argv=script.argv, kind=kind, source=source, folder=script.folder)


def _to_command(argv: Sequence[str], source: Source, places: Collection[str]) -> TestCommand:
    at = find_runner(argv)
    kind: Kind = "other" if at is None else "unittest" if argv[at] == "unittest" else "pytest"
    after = argv[at + 1 :] if at is not None and kind == "pytest" else ()
    named = [word for word in after if word.removeprefix("./").rstrip("/").split("::")[0] in places]
    return TestCommand(argv=tuple(argv), kind=kind, source=source, places=tuple(named))


def _folders_and_files(codebase: Codebase) -> frozenset[str]:
    found = {".", ""}
    for path in codebase.files:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return frozenset(found)


def _parse_line(line: str) -> tuple[str, ...] | None:
    """Parse a line of tox into a command independent of tox; None unless it runs pytest or
    unittest."""
    line = _POSARGS.sub(lambda match: match[1] or "", line.strip().lstrip("-@ "))
    line = line.replace("{envpython}", "python").replace("{envbindir}/", "")
    line = line.replace("{toxinidir}", ".").replace("{tox_root}", ".")
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    at = find_runner(words)
    if at is None or any("{" in word for word in words):
        return None
    words = words[at:]  # without `coverage run` and similar, which the image may lack
    rest = [word for word in words[1:] if not word.startswith(("--cov", "--junit"))]
    return ("python", "-m", words[0].rpartition("/")[2].replace("py.test", "pytest"), *rest)
