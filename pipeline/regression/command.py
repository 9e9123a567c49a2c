"""The command that runs a repository's own tests: configured, or found in its files."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

from pipeline.codebase.commit import Codebase
from pipeline.codebase.conventions import detect_conventions
from pipeline.types import Frozen

Kind = Literal["pytest", "unittest", "other"]

NO_COMMAND = (
    "I found no tests in this repository, and no test command in its configuration: "
    "set `test` in .github/capuchin.yml."
)
_GUEST_PACKAGE = "capuchin_inside"
_STARTS = ("", "run", "exec", "--")
"""Words after which a program stands; the first is the command's beginning."""
_MOST_COMMANDS = 4
"""Commands that are tried before the tests count as not to be run."""
_DJANGO = {
    "tests/runtests.py": ("python", "tests/runtests.py", "-v", "2"),
    "runtests.py": ("python", "runtests.py"),
    "manage.py": ("python", "manage.py", "test", "-v", "2"),
}
_POSARGS = re.compile(r"\{posargs(?::([^{}]*))?\}")
_SESSION = re.compile(r"session\.run\(\s*((?:[rbuf]?[\"'][^\"'\n]*[\"']\s*,?\s*)+)")
_LITERAL = re.compile(r"[\"']([^\"'\n]*)[\"']")


class TestCommand(Frozen):
    """How the tests are started."""

    __test__ = False

    argv: tuple[str, ...]
    kind: Kind
    """Whose tests can be told apart and chosen: pytest's and unittest's."""
    source: Literal["configuration", "tox", "nox", "detection"]

    def argv_with_recorder(self) -> tuple[str, ...]:
        """`argv` with our recorder in it, where there is a place for it."""
        at = find_runner(self.argv)
        words = self.argv
        if at is None:
            return words
        if self.kind == "unittest":
            return (*words[:at], f"{_GUEST_PACKAGE}.unittest_main", *words[at + 1 :])
        # Every broken test is to be named. After a lone -- nothing is an option.
        options = ("--maxfail=0", "--continue-on-collection-errors")
        end = words.index("--", at) if "--" in words[at:] else len(words)
        plugin = ("-p", f"{_GUEST_PACKAGE}.pytest_plugin")
        return (*words[: at + 1], *plugin, *words[at + 1 : end], *options, *words[end:])


async def find_commands(
    codebase: Codebase, configured: Sequence[str] = ()
) -> tuple[TestCommand, ...]:
    """The configured command alone; else what may run the tests, the likeliest first.

    Those are Django's own way, what tox or nox would run (they themselves need a network) where
    that is pytest or unittest, and what the test files look like. Empty when there is nothing.
    """
    if configured:
        return (_to_command(configured, "configuration"),)
    found: list[TestCommand] = []
    for path, argv in _DJANGO.items():
        if path in codebase.files and "django" in (await codebase.read_text(path) or "").lower():
            found.append(_to_command(argv, "detection"))
    texts = await _read_texts(codebase, ("tox.ini", "pyproject.toml", "noxfile.py"))
    tox = _tox_lines(texts.get("tox.ini", ""), texts.get("pyproject.toml", ""))
    found += [_to_command(argv, "tox") for argv in filter(None, map(_parse_line, tox))]
    nox = _nox_lines(texts.get("noxfile.py", ""))
    found += [_to_command(argv, "nox") for argv in filter(None, map(_parse_line, nox))]
    if argv := (await detect_conventions(codebase)).suite_command():
        found.append(_to_command(argv, "detection"))
    return tuple({command.argv: command for command in found}.values())[:_MOST_COMMANDS]


def find_runner(words: Sequence[str]) -> int | None:
    """Where the command starts pytest or unittest: as itself, by `-m`, by `uv run` and its like."""
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if word in ("pytest", "unittest") and before == "-m":
            return at
        if word.rpartition("/")[2] in ("pytest", "py.test") and before in _STARTS:
            return at
    return None


def _to_command(
    argv: Sequence[str], source: Literal["configuration", "tox", "nox", "detection"]
) -> TestCommand:
    at = find_runner(argv)
    kind: Kind = "other" if at is None else "unittest" if argv[at] == "unittest" else "pytest"
    return TestCommand(argv=tuple(argv), kind=kind, source=source)


async def _read_texts(codebase: Codebase, paths: Sequence[str]) -> dict[str, str]:
    found = {path: await codebase.read_text(path) for path in paths if path in codebase.files}
    return {path: text for path, text in found.items() if text}


def _tox_lines(ini: str, pyproject: str) -> Iterator[str]:
    """The lines of `[testenv] commands` in tox's own formats: https://tox.wiki/en/latest/config.html"""
    yield from _ini_lines(ini)
    try:
        document: dict[str, Any] = tomllib.loads(pyproject)
    except tomllib.TOMLDecodeError:
        return
    tox: Any = document
    for key in ("tool", "tox"):
        tox = cast(dict[str, Any], tox).get(key) if isinstance(tox, dict) else None
    if not isinstance(tox, dict):
        return
    table = cast(dict[str, Any], tox)
    yield from _ini_lines(str(table.get("legacy_tox_ini", "")))
    base: Any = table.get("env_run_base")
    commands: Any = cast(dict[str, Any], base).get("commands") if isinstance(base, dict) else None
    for line in cast(list[Any], commands) if isinstance(commands, list) else []:
        words = cast(list[Any], line) if isinstance(line, list) else []
        yield shlex.join(word for word in words if isinstance(word, str))


def _ini_lines(ini: str) -> Iterator[str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(ini)
    except configparser.Error:
        return
    commands = parser.get("testenv", "commands", fallback="")
    yield from commands.replace("\\\n", " ").splitlines()


def _nox_lines(script: str) -> Iterator[str]:
    """The programs that a noxfile's sessions run with plain words; the file is never run here."""
    for match in _SESSION.finditer(script):
        yield shlex.join(_LITERAL.findall(match[1]))


def _parse_line(line: str) -> tuple[str, ...] | None:
    """A line of tox as a command that needs no tox; None unless it runs pytest or unittest."""
    line = line.partition(": ")[2] if re.match(r"[\w,!-]+: ", line) else line
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
    words = words[at:]  # without `coverage run` and its like, which the image may not have
    rest = [word for word in words[1:] if not word.startswith(("--cov", "--junit"))]
    return ("python", "-m", words[0].rpartition("/")[2].replace("py.test", "pytest"), *rest)
