"""Detects how a repository tests itself: its runner, test folder, and names of test files."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from pipeline.codebase.commit import Codebase
from pipeline.codebase.text import Globs, Places, Wildcards
from pipeline.languages.conventions import Conventions, is_test
from pipeline.languages.manifests import parse_ini, parse_toml, table
from pipeline.languages.python.roots import find_root

_TEST_NAME = re.compile(r"((?:unit)?test_.+|.+_tests?|tests?)\.py")
_TEST_DEFINITION = re.compile(r"^[ \t]*(async )?def test|\bTestCase\b", re.MULTILINE)
_PYTEST_USE = re.compile(r"^[ \t]*(import pytest|from pytest)|^(async )?def test_|@pytest\.", re.M)
_PYTEST_REQUIREMENT = re.compile(r"^[ \t]*pytest\b(?!-)", re.M | re.I)
_UNITTEST_USE = re.compile(r"^[ \t]*(import unittest|from unittest)|\bTestCase\b", re.M)
_PYTEST_SETTINGS = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"),
    *("pyproject.toml", "tox.ini", "setup.cfg"),
)
"""Where pytest looks for its settings, in its order."""
_MOST_MATCHED = 200_000_000
"""Characters of paths that are matched with `python_files`, all patterns together; with more, the
last patterns count for nothing."""
_UNREADABLE = {
    r"--cov\b": ("--no-cov",),
    r"-n\b|--numprocesses": ("-n", "0"),
    r"-x\b|--exitfirst|--maxfail": ("--maxfail=0",),
    r"-q\b|--quiet|-[a-z]*qq": ("-v", "-v"),
}
"""Options in a repository's `addopts` that hide a single test's outcome, and the overrides by
name."""


def is_runnable(path: str) -> bool:
    """Whether runners expect tests in a Python file with this name."""
    return bool(_TEST_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def has_tests(text: str) -> bool:
    """Whether Python source appears to define tests."""
    return bool(_TEST_DEFINITION.search(text))


async def detect_conventions(codebase: Codebase) -> Conventions:
    """Detect the conventions of `codebase`; unittest in `tests` if it has no tests."""
    key = f"conventions of {codebase.root!r}"
    if key not in codebase.once:
        codebase.once[key] = await _detect_conventions(codebase)
    return codebase.once[key]


async def _detect_conventions(codebase: Codebase) -> Conventions:
    texts = await read_test_files(codebase)
    paths = list(texts)
    settings, start = await _read_settings(codebase)
    testpaths = tuple(f"{start}{path}" for path in _find_setting(settings, "testpaths"))
    # A new file lies where the repository's own command collects it.
    inside = await asyncio.to_thread(lambda: list(filter(Places(testpaths).hold, paths)))
    folder = await asyncio.to_thread(_folder, inside or paths, codebase)
    if testpaths and not inside and not re.search(r"[*?\[]", "".join(testpaths)):
        folder = testpaths[0] if testpaths[0] not in codebase.files else folder
    near = [path for path in paths if _parent(path) == folder]
    listed = await codebase.find_paths(_lists_requirements)
    required = await codebase.read_texts(listed[:20])
    configured = await asyncio.to_thread(_has_pytest_config, codebase, settings) or any(
        _PYTEST_REQUIREMENT.search(text) for text in required.values()
    )
    return Conventions(
        runner=_runner(texts, configured),
        folder=folder,
        suffix=sum(path.endswith("_test.py") for path in near) * 2 > len(near),
        tests=len(paths),
        packaged=f"{folder}/__init__.py".lstrip("/") in codebase.files,
        example=_example(near or paths, texts),
        overrides=_overrides(settings),
        pattern=_discovery_pattern(paths),
        spread=len({path.split("/")[0] for path in paths}) > 1,
        testpaths=testpaths,
        norecursedirs=_find_setting(settings, "norecursedirs"),
        python_files=_find_setting(settings, "python_files"),
    )


async def _read_settings(codebase: Codebase) -> tuple[dict[str, str], str]:
    """pytest's files of settings by name, and what stands before the paths in them."""
    root = await asyncio.to_thread(find_root, codebase.files, codebase.root)
    start = f"{root}/" if root else ""
    read = await codebase.read_texts([f"{start}{name}" for name in _PYTEST_SETTINGS])
    return {path.removeprefix(start): text for path, text in read.items()}, start


async def read_test_files(codebase: Codebase, exclude: Sequence[str] = ()) -> dict[str, str]:
    """Read the files that contain tests, by path, in the order of their names, but those that match
    a glob pattern of `exclude`."""
    key = f"test files of {codebase.root!r} except {list(exclude)}"
    if key in codebase.once:
        return await codebase.read_texts(codebase.once[key])
    settings, _ = await _read_settings(codebase)
    patterns = _find_setting(settings, "python_files")
    named = await asyncio.to_thread(_list_test_files, codebase, patterns, exclude)
    read = await codebase.read_texts(named[:2000])
    found = await asyncio.to_thread(
        lambda: {p: text for p, text in read.items() if has_tests(text)}
    )
    # A plugin may take other names for tests, as pytest-relaxed does.
    found = found or {path: text for path, text in read.items() if not is_runnable(path)}
    codebase.once[key] = list(found)
    return found


def _list_test_files(
    codebase: Codebase, patterns: Sequence[str], exclude: Sequence[str]
) -> list[str]:
    """The paths of what may hold tests, by name or by pytest's `python_files`.

    https://docs.pytest.org/en/stable/reference/reference.html#confval-python_files
    """
    left_out = Globs(exclude)
    patterns = patterns[: _MOST_MATCHED // (sum(map(len, codebase.files)) + 1)]
    # One that says nothing of the name makes tests of the files in their folders alone.
    telling = [
        one for one in patterns if re.search(r"[a-z]", one.rpartition("/")[2].removesuffix(".py"))
    ]
    anywhere, among_tests = _compile_names(telling), _compile_names(patterns)

    def is_named(path: str) -> bool:
        if is_runnable(path):
            return True
        name = path.rpartition("/")[2]
        if not path.endswith(".py") or name in ("conftest.py", "__init__.py"):
            return False
        by_name, by_path = among_tests if is_test(path) else anywhere
        return by_name.match(name) or by_path.match(f"/{path}")

    return sorted(
        path
        for path, file in codebase.files.items()
        if file.regular
        and file.size < 200_000
        and is_named(path)
        and not left_out.first_match(path)
    )


def _compile_names(patterns: Sequence[str]) -> tuple[Wildcards, Wildcards]:
    """What matches a file's name, and what a slash and its path."""
    return (
        Wildcards(one for one in patterns if "/" not in one),
        Wildcards(f"*/{one}" for one in patterns if "/" in one),
    )


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _folder(paths: Sequence[str], codebase: Codebase) -> str:
    if paths:
        folders = Counter(map(_parent, paths))
        # Most files, then the shallowest: a tie goes to `tests` rather than `tests/unit`.
        return min(folders, key=lambda f: (-folders[f], f.count("/"), f))
    tops = {path.split("/")[0] for path in codebase.files if "/" in path}
    # A file, link or submodule of that name cannot contain a file of ours.
    free = [name for name in ("tests", "test") if name not in codebase.files]
    return next((name for name in free if name in tops), free[0] if free else "")


def _runner(texts: dict[str, str], configured: bool) -> Literal["pytest", "unittest"]:
    pytest = sum(bool(_PYTEST_USE.search(text)) for text in texts.values())
    unittest = sum(bool(_UNITTEST_USE.search(text)) for text in texts.values())
    if configured or pytest > 0:
        return "pytest"
    return "unittest" if unittest or not texts else "pytest"


def _example(paths: Sequence[str], texts: dict[str, str]) -> str | None:
    """A file of medium size: enough to show the style, not too much to read."""
    sized = [path for path in paths if "def test" in texts.get(path, "")]
    return min(sized, key=lambda path: abs(len(texts[path]) - 4000), default=None)


def _lists_requirements(path: str) -> bool:
    """Whether `path` is named as files of requirements are: `requirements-test.txt` at the top, or
    `requirements/test.in`."""
    folder, name = _parent(path), path.rsplit("/", 1)[-1]
    named = folder == "requirements" or (folder == "" and "requirements" in name)
    return named and name.endswith((".txt", ".in"))


def _has_pytest_config(codebase: Codebase, settings: dict[str, str]) -> bool:
    if any(path.rsplit("/", 1)[-1] == "conftest.py" for path in codebase.files):
        return True
    if any(name in settings for name in _PYTEST_SETTINGS[:4]):
        return True
    sections = "\n".join(settings.values())
    return bool(re.search(r"^[ \t]*\[(tool:|tool\.)?pytest[.\]]", sections, re.MULTILINE))


def _find_setting(settings: Mapping[str, str], option: str) -> tuple[str, ...]:
    """The paths of a pytest `option`, from the first file that has settings for it.

    https://docs.pytest.org/en/stable/reference/customize.html#configuration-file-formats
    """
    for name in _PYTEST_SETTINGS:
        found: Any = None
        if name.endswith(".toml"):
            document = parse_toml(settings.get(name, ""))
            own = table(
                document, *(("tool", "pytest") if name == "pyproject.toml" else ("pytest",))
            )
            found = own.get("ini_options") or own or None  # pytest 9 has no `ini_options`
        else:
            parser = parse_ini(settings.get(name, ""))
            section = "tool:pytest" if name == "setup.cfg" else "pytest"
            found = dict(parser.items(section, raw=True)) if parser.has_section(section) else None
        if isinstance(found, dict):
            listed: Any = cast(dict[str, Any], found).get(option, "")
            words = listed.split() if isinstance(listed, str) else listed
            paths = cast(list[Any], words) if isinstance(words, list) else []
            plain = (path.removeprefix("./").rstrip("/") for path in paths if isinstance(path, str))
            return tuple(path for path in plain if path not in ("", "."))[:100]
    return ()


def _overrides(settings: dict[str, str]) -> tuple[str, ...]:
    found = " ".join(line for text in settings.values() for line in _addopts(text))
    hidden = (
        words for what, words in _UNREADABLE.items() if re.search(rf"(?<![\w-])({what})", found)
    )
    return tuple(word for words in hidden for word in words)


def _addopts(text: str) -> Iterator[str]:
    """The lines of pytest's `addopts` option, in an INI or a TOML file."""
    inside = False
    for line in text.split("\n"):
        starts = re.match(r"[ \t]{0,8}addopts[ \t]{0,8}=", line)
        inside = bool(starts) or (inside and line[:1] in " \t]" and bool(line.strip()))
        if inside:
            yield line[:2000]


def _discovery_pattern(paths: Sequence[str]) -> str:
    """The pattern for discovery; empty if unittest's own, `test*.py`, finds every test file."""
    names = [path.rsplit("/", 1)[-1] for path in paths]
    if all(name.startswith("test") for name in names):
        return ""
    return "*_test.py" if all(name.endswith("_test.py") for name in names) else "*test*.py"
