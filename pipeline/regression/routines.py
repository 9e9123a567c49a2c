"""Reads the test commands in a repository's tox and nox files, without running the files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from configparser import ConfigParser
from typing import Any, cast

from sandbox.environment.manifests import parse_ini, parse_toml

_SESSION = re.compile(r"session\.run\(\s*((?:[rbuf]?[\"'][^\"'\n]*[\"']\s*(?:,\s*)?)+)")
_LITERAL = re.compile(r"[\"']([^\"'\n]*)[\"']")
_OTHER_WORK = re.compile(
    r"lint|doc|flake|mypy|pre-?commit|style|isort|black|build|package|release|coverage|twine"
    r"|bench|pypy|jython|spelling|format|clean|check"
)
_PYTHON = re.compile(r"py(?:thon|py)?\d?(?:\.?\d+)?")
_TEST_NAMES = ("py3", "py", "test", "tests", "unit", "pytest", "unittest")
_MOST_LINE = 4000
_MOST_ENVIRONMENTS = 200


def tox_lines(ini: str, pyproject: str) -> Iterator[str]:
    """The commands of tox's test environment, in tox's own formats.

    Uses the environment for a Python with the fewest factors; leaves out lines for other factors.
    https://tox.wiki/en/latest/config.html
    """
    yield from _ini_lines(ini)
    tox: Any = parse_toml(pyproject)
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


def nox_lines(script: str) -> Iterator[str]:
    """The programs that a noxfile's sessions run with literal words; the file never runs here."""
    for match in _SESSION.finditer(script):
        yield shlex.join(_LITERAL.findall(match[1]))


def _ini_lines(ini: str) -> Iterator[str]:
    parser = parse_ini(ini)
    environment = _choose_environment(parser)
    sections = [f"testenv:{name}" for name in (environment, *_TEST_NAMES) if name]
    for section in (*dict.fromkeys(sections), "testenv"):
        commands = parser.get(section, "commands", fallback="")
        if commands.strip():
            factors = frozenset(environment.split("-"))
            for line in commands.replace("\\\n", " ").splitlines():
                if kept := _applicable_part(line[:_MOST_LINE].strip(), factors):
                    yield kept
            return


def _choose_environment(parser: ConfigParser) -> str:
    """Choose the environment that tests a Python and has the fewest other factors."""
    listed = parser.get("tox", "envlist", fallback="") or parser.get("tox", "env_list", fallback="")
    names = [name for name in _expand(listed[:_MOST_LINE]) if not _OTHER_WORK.search(name)]
    tested = [n for n in names if _PYTHON.fullmatch(n.split("-")[0]) or n in _TEST_NAMES]
    tested = [name for name in tested if not name.startswith("py2")] or tested
    return min(tested, key=lambda name: name.count("-"), default="")


def _expand(listed: str) -> Iterator[str]:
    """Expand `py{38,39}-{a,b}` into its four names."""
    count = 0
    for name in re.findall(r"(?:[^\s,{}]|\{[^{}]*\})+", listed):
        names = [""]
        for part in re.split(r"(\{[^{}]*\})", name)[:9]:
            choices = part[1:-1].split(",") if part.startswith("{") else [part]
            names = [head + choice.strip() for head in names for choice in choices][:64]
        for one in names:
            count += 1
            if count > _MOST_ENVIRONMENTS:
                return
            yield one.strip("-")


def _applicable_part(line: str, factors: frozenset[str]) -> str:
    """The line without its condition; empty if the condition is false.

    A condition on only the Python version counts as true, because the version is unknown here.
    """
    condition, colon, rest = line.partition(": ")
    if not colon or not re.fullmatch(r"[\w,!{}. -]{1,200}", condition):
        return line
    if any(_holds(one, factors) for one in _expand(condition.replace(" ", ""))):
        return rest.strip()
    return ""


def _holds(condition: str, factors: frozenset[str]) -> bool:
    for factor in filter(None, condition.split("-")):
        name = factor.removeprefix("!")
        if _PYTHON.fullmatch(name):
            if name.startswith("py2"):
                return False
            continue
        if (name in factors) == factor.startswith("!"):
            return False
    return True
