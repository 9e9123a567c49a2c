"""What tox and nox files install and run, read without running them."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, cast

from pipeline.languages.manifests import parse_ini, parse_toml, strings, table
from pipeline.languages.python.metadata import project_of

TEST_ENVIRONMENTS = ("test", "tests", "py", "unit", "pytest", "unittest")
"""The names of tox environments and nox sessions that run tests, best first."""
CONDITION = re.compile(r"(?!\{posargs)((?:[!\w{}.-]++|\s*+,\s*+)++):(?!//)\s*(\S.*)$")
"""A line with a condition: `py{36,37}-x: requirement`."""
MOST_LINES = 2000
"""Lines of one setting, with those of the settings that it refers to."""
MOST_DEPTH = 5
REFERENCE = re.compile(r"\{\[([^\]]+)\](\w+)\}")
NOT_TESTS = re.compile(
    r"lint|doc|flake|mypy|typ(e|ing)|pre-?commit|style|isort|black|build|package|release|coverage"
    r"|twine|bench|pypy|jython|spelling|format|clean|check|nightly|dev(?=$|-)"
)
"""Environments of tox that do not run the tests, or not like users do."""
ROOT = re.compile(r"\{(toxinidir|tox_root)\}/?")


@dataclass(frozen=True)
class Routine:
    """One test environment of tox, or one session of nox."""

    installs: tuple[tuple[str, ...], ...] = ()
    """Arguments of `pip install`, a command each, paths relative to the root."""
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    """The environments that tox runs by default, with braces expanded: `py38`, `py39-django`."""


def tox_routine(texts: Mapping[str, str], minor: int | None = None) -> Routine:
    """Read tox's test environment from any of the files that tox reads, in tox's order.

    `minor` is the version of Python 3: it selects the environment for it with the fewest factors,
    and lines for its factors count. Without it, only unconditional lines count.

    https://tox.wiki/en/latest/config.html
    """
    for parser, core in _tox_parsers(texts):
        return routine_from_ini(parser, core, minor)
    return routine_from_toml(read_tox(texts))


def tox_settings(texts: Mapping[str, str], key: str) -> Iterator[str]:
    """The lines of a setting of tox's test environment that apply to every Python, from any of the
    INI files that tox reads."""
    for parser, core in _tox_parsers(texts):
        environment = _choose_environment(parser, core)
        sections = [f"testenv:{name}" for name in (environment, *_TEST_NAMES) if name]
        for section in (*dict.fromkeys(sections), "testenv"):
            value = parser.get(section, key, fallback="")
            if value.strip():
                # On which Python it will run is not known here.
                factors = frozenset({*environment.split("-"), ANY_PYTHON})
                yield from filter(None, select_lines(parser, value.replace("\\\n", " "), factors))
                break


def _tox_parsers(texts: Mapping[str, str]) -> Iterator[tuple[ConfigParser, str]]:
    legacy = table(project_of(texts), "tool", "tox").get("legacy_tox_ini")
    for text, core in (
        (texts.get("tox.ini", ""), "tox"),
        (texts.get("setup.cfg", ""), "tox:tox"),
        (legacy if isinstance(legacy, str) else "", "tox"),
    ):
        parser = parse_ini(text)
        if parser.has_section(core) or any(one.startswith("testenv") for one in parser.sections()):
            yield parser, core
            return


def read_tox(texts: Mapping[str, str]) -> Mapping[str, Any]:
    """tox's settings in its own TOML form; empty without any."""
    return table(project_of(texts), "tool", "tox") or parse_toml(texts.get("tox.toml", ""))


def routine_from_ini(parser: ConfigParser, core: str, minor: int | None) -> Routine:
    listed = ""
    if parser.has_section(core):
        listed = parser[core].get("envlist") or parser[core].get("env_list") or ""
    names = ["testenv", *(f"testenv:{name}" for name in TEST_ENVIRONMENTS)]
    factors = frozenset[str]()
    if minor is not None:
        chosen = choose_environment(tuple(expand_environments(listed)), minor)
        own = [
            name
            for name in parser.sections()
            if name.startswith("testenv:")
            and chosen in expand_environments(name.removeprefix("testenv:"))
        ]
        names = [*own, *names]
        factors = frozenset({*chosen.split("-"), f"py3{minor}", "py3", "py"})
    sections = [parser[name] for name in names if parser.has_section(name)]

    def lines(key: str) -> list[str]:
        stated = [section[key] for section in sections if section.get(key, "").strip()]
        return list(plain_lines(select_lines(parser, stated[0], factors))) if stated else []

    return Routine(
        installs=(
            *map(requirement, lines("deps")),
            *pip_installs([*lines("commands_pre"), *lines("commands")]),
        ),
        extras=tuple(split_words(lines("extras"))),
        groups=tuple(split_words(lines("dependency_groups"))),
        environments=tuple(expand_environments(listed)),
    )


def choose_environment(environments: tuple[str, ...], minor: int) -> str:
    """tox's environment for the tests on Python 3.`minor`: the one with the fewest factors."""
    known = [name for name in environments if not NOT_TESTS.search(name)]
    for factor in (f"py3{minor}", f"py3.{minor}", f"3.{minor}", "py3", "py", *TEST_ENVIRONMENTS):
        fitting = [name for name in known if factor in name.split("-")]
        if fitting:
            return min(fitting, key=lambda name: len(name.split("-")))
    return f"py3{minor}"


def select_lines(
    parser: ConfigParser, value: str, factors: frozenset[str], depth: int = 0
) -> list[str]:
    """The lines of a setting that apply to `factors`, without their conditions, and those of the
    settings they refer to."""
    kept: list[str] = []
    for line in value.splitlines()[:MOST_LINES]:
        text = line[:_LONGEST_LINE].split(" #")[0].strip()
        if match := CONDITION.match(text):
            conditions = [one for part in expand_environments(match[1]) for one in part.split(",")]
            if not any(holds(condition, factors) for condition in conditions):
                continue
            text = match[2].strip()
        other = REFERENCE.fullmatch(text)
        if other and depth < MOST_DEPTH and parser.has_option(other[1], other[2]):
            kept += select_lines(parser, parser.get(other[1], other[2]), factors, depth + 1)
        else:
            kept.append(text)
        if len(kept) >= MOST_LINES:  # references multiply
            break
    return kept[:MOST_LINES]


def holds(condition: str, factors: frozenset[str]) -> bool:
    """Whether a condition such as `py38-!django` holds: all its factors are present, those after
    `!` absent. With `ANY_PYTHON` among `factors`, one about a Python 3 holds in any case."""
    for factor in filter(None, condition.strip().split("-")):
        name = factor.removeprefix("!")
        if ANY_PYTHON in factors and _PYTHON.fullmatch(name):
            if name.startswith("py2"):
                return False
        elif (name in factors) == factor.startswith("!"):
            return False
    return True


def routine_from_toml(native: Mapping[str, Any]) -> Routine:
    base = table(native, "env_run_base")
    named = [table(native, "env", name) for name in TEST_ENVIRONMENTS]
    merged = {**base, **next(filter(None, named), dict[str, Any]())}
    return Routine(
        installs=tuple(requirement(line) for line in plain_lines(strings(merged.get("deps")))),
        extras=tuple(strings(merged.get("extras"))),
        groups=tuple(strings(merged.get("dependency_groups"))),
        environments=tuple(expand_environments(",".join(strings(native.get("env_list"))))),
    )


def plain_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines without the root's name, and without those that hold a value of tox (`{env:X}`)."""
    for line in lines:
        text = ROOT.sub("./", line.split(" #")[0].strip())
        if text and not text.startswith("#") and "{" not in text.replace("{posargs", ""):
            yield text


_PIP: Final = re.compile(r"-?\s*(?:\S+ -m |uv )?pip3? install (.+)")


def pip_installs(lines: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The arguments of the `pip install` among the commands of an environment."""
    for line in lines:
        if match := _PIP.match(line):
            with suppress(ValueError):
                yield tuple(shlex.split(match[1].replace("{toxinidir}", ".")))


def requirement(line: str) -> tuple[str, ...]:
    """A line of `deps` as arguments of pip: `-rfile`, `-r file` or a requirement."""
    match = re.match(r"(-r|-c|-e|--requirement|--constraint|--editable)[\s=]*(\S+)$", line)
    return (match[1], match[2]) if match else (line,)


def split_words(lines: list[str]) -> list[str]:
    return [word for line in lines for word in re.split(r"[\s,]+", line) if word]


def expand_environments(listed: str) -> Iterator[str]:
    """`py{38,39}-{a,b}` as its four names; `py3{8-10}` as its three.

    https://tox.wiki/en/latest/config.html#generative-environment-list
    """
    for name in re.findall(r"(?:[^\s,{}]|\{[^{}]*\})+", listed):
        names = [""]
        for part in re.split(r"(\{[^{}]*\})", name)[:9]:
            choices = list(expand_brace(part[1:-1])) if part.startswith("{") else [part]
            names = [head + choice.strip() for head in names for choice in choices][:64]
        yield from names


def expand_brace(listed: str) -> Iterator[str]:
    """The parts of a brace: words, and ranges of numbers, which may be open at their end."""
    for part in listed.split(","):
        bounds = re.fullmatch(r"(\d{1,9})-(\d{0,9})", part.strip())
        if bounds:
            low = int(bounds[1])
            yield from map(str, range(low, min(int(bounds[2] or low), low + 63) + 1))
        else:
            yield part


_SESSION = re.compile(r"session\.run\(\s*((?:[rbuf]?[\"'][^\"'\n]*[\"']\s*(?:,\s*)?)+)")
_LITERAL = re.compile(r"[\"']([^\"'\n]*)[\"']")
ANY_PYTHON = "*"
_PYTHON = re.compile(r"py(?:thon|py)?\d?(?:\.?\d+)?")
_TEST_NAMES = ("py3", *TEST_ENVIRONMENTS)
_LONGEST_LINE = 4000


def tox_lines(texts: Mapping[str, str]) -> Iterator[str]:
    """The commands of tox's test environment, in any of tox's own formats and files.

    Uses the environment for a Python with the fewest factors; leaves out lines for other factors.
    https://tox.wiki/en/latest/config.html
    """
    yield from tox_settings(texts, "commands")
    commands = table(read_tox(texts), "env_run_base").get("commands")
    for line in cast(list[Any], commands) if isinstance(commands, list) else []:
        yield shlex.join(strings(line))


def tox_folder(texts: Mapping[str, str]) -> str:
    """The folder of the repository in which tox runs the tests; empty for the root, or another."""
    stated = [*tox_settings(texts, "changedir"), *tox_settings(texts, "change_dir")]
    native = table(read_tox(texts), "env_run_base").get("change_dir")
    folder = ROOT.sub("", next(iter((*stated, *strings([native]))), "")).strip("/ ")
    return "" if folder.startswith(".") or "{" in folder else folder


def nox_lines(script: str) -> Iterator[str]:
    """The programs that a noxfile's sessions run with literal words; the file never runs here."""
    for match in _SESSION.finditer(script):
        yield shlex.join(_LITERAL.findall(match[1]))


def _choose_environment(parser: ConfigParser, core: str) -> str:
    """Choose the environment that tests a Python and has the fewest other factors."""
    listed = parser.get(core, "envlist", fallback="") or parser.get(core, "env_list", fallback="")
    expanded = islice(expand_environments(listed[:_LONGEST_LINE]), 200)
    names = [name.strip("-") for name in expanded if not NOT_TESTS.search(name)]
    tested = [n for n in names if _PYTHON.fullmatch(n.split("-")[0]) or n in _TEST_NAMES]
    tested = [name for name in tested if not name.startswith("py2")] or tested
    return min(tested, key=lambda name: name.count("-"), default="")
