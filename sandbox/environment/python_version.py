"""Which Python a repository asks for, and where; read from its files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sandbox.environment.manifests import parse_ini, project_of, strings, table
from sandbox.environment.tox_nox import tox_routine

MINORS: Final = tuple(range(6, 21))
"""Of Python 3; older ones cannot hold the environment."""
PATCHES: Final = 40
DEFAULT_MINOR: Final = 11
"""The base image's; of several accepted versions, the nearest to it is preferred."""
TOX_PYTHON: Final = re.compile(r"(?<![\w.])(?:py3\.?|3\.)(\d+)(?![\w.])")
"""A factor of a tox environment: `py312`, `py3.12`, `3.12`; `py3.14t` and `pypy3.11` are others."""
CHOOSE: Final = "python3 -I /opt/capuchin/choose_python.py"


@dataclass(frozen=True)
class PythonRequirement:
    """Minor versions of Python 3."""

    accepted: tuple[int, ...]
    """Those that the repository installs on, the nearest to the usual one first."""
    wanted: tuple[int, ...]
    """Those of them that it says it is tested on, the newest first; may be empty."""
    text: str
    """The requirement as the repository writes it: untrusted."""
    where: str

    def to_step(self) -> str:
        """The shell line that installs a fitting Python in the environment."""
        versions = {"--accepted": self.accepted, "--wanted": self.wanted}
        words = [word for name, given in versions.items() for word in (name, join_minors(given))]
        return f"{CHOOSE} {shlex.join([*words, '--asked', self.text, '--where', self.where])}"


def join_minors(minors: tuple[int, ...]) -> str:
    return ",".join(f"3.{minor}" for minor in minors)


def find_python_requirement(
    texts: Mapping[str, str], *, configured: str = ""
) -> PythonRequirement | None:
    """None if the files say nothing. `configured` is set by the maintainers and takes precedence.

    A bound (`requires-python`) must hold; what it is tested on (`.python-version`, tox's list
    of environments, classifiers) is preferred among the interpreters that are there.
    """
    if configured:
        minors = matching_minors(f"=={configured}.*")
        return PythonRequirement(minors, minors, configured, "python in its configuration file")
    text, where = next(version_bounds(texts), ("", ""))
    accepted = matching_minors(text) if text else sort_by_distance(MINORS)
    named, place = next(versions_under_test(texts), ((), ""))
    wanted = tuple(sorted(set(named) & set(accepted), reverse=True))
    if not text and not wanted:
        return None
    return PythonRequirement(accepted, wanted, text or join_minors(wanted), where or place)


def version_bounds(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The bounds that can be parsed, each with the place that states it."""
    project = project_of(texts)
    poetry = table(project, "tool", "poetry", "dependencies").get("python")
    setup_py = re.search(r"""python_requires\s*=\s*["']([^"'\n]+)["']""", texts.get("setup.py", ""))
    setup_cfg = parse_ini(texts.get("setup.cfg", ""))
    metadata = re.search(r"^Requires-Python:\s*(\S.*)$", texts.get("PKG-INFO", ""), re.MULTILINE)
    places: list[tuple[object, str]] = [
        (table(project, "project").get("requires-python"), "requires-python in pyproject.toml"),
        (translate_poetry_bound(poetry), "tool.poetry.dependencies in pyproject.toml"),
        (
            setup_cfg.get("options", "python_requires", fallback=None),
            "python_requires in setup.cfg",
        ),
        (setup_py[1] if setup_py else None, "python_requires in setup.py"),
        (metadata[1] if metadata else None, "Requires-Python in PKG-INFO"),
    ]
    for text, where in places:
        if isinstance(text, str) and is_valid_specifier(text):
            yield text.strip(), where


def translate_poetry_bound(value: object) -> str | None:
    """Poetry's caret and tilde as the bounds they mean; https://python-poetry.org/docs/dependency-specification/"""
    if not isinstance(value, str):
        return None
    parts: list[str] = []
    for part in re.split(r"\s*,\s*", value.strip()):
        match = re.fullmatch(r"([\^~]?)\s*(\d+)(?:\.(\d+))?((?:\.\d+)*)(\.\*)?", part)
        if not match:
            parts.append(part)
            continue
        sign, major, minor, rest, star = match.groups(default="")
        low = f"{major}.{minor or 0}{rest}"
        if sign == "^" or (sign == "~" and not minor):
            parts.append(f">={low},<{int(major) + 1}")
        elif sign == "~":
            parts.append(f">={low},<{major}.{int(minor) + 1}")
        else:
            parts.append(f"=={part}" if star else f"=={low}")
    return ",".join(parts)


def versions_under_test(texts: Mapping[str, str]) -> Iterator[tuple[tuple[int, ...], str]]:
    """The minor versions that it is tested on, each list with the place that states it."""
    pinned = re.match(r"\s*(?:cpython-?)?3\.(\d+)", texts.get(".python-version", ""))
    if pinned:
        yield (int(pinned[1]),), ".python-version"
    listed = " ".join(tox_routine(texts).environments).replace("-", " ")
    names = TOX_PYTHON.findall(listed)
    if names:
        yield tuple(int(name) for name in names), "tox's environments"
    project = project_of(texts)
    classifiers = "\n".join(strings(table(project, "project").get("classifiers")))
    for text, where in (
        (classifiers, "pyproject.toml"),
        (texts.get("setup.cfg", ""), "setup.cfg"),
        (texts.get("setup.py", ""), "setup.py"),
    ):
        found = re.findall(r"Programming Language :: Python :: 3\.(\d+)", text)
        if found:
            yield tuple(int(minor) for minor in found), f"classifiers in {where}"


def is_valid_specifier(text: str) -> bool:
    try:
        SpecifierSet(text.strip())
    except InvalidSpecifier:
        return False
    return True


def matching_minors(text: str) -> tuple[int, ...]:
    """The minor versions of which some patch release is within the bounds."""
    bound = SpecifierSet(text)
    return sort_by_distance(
        tuple(m for m in MINORS if any(bound.contains(f"3.{m}.{p}") for p in range(PATCHES)))
    )


def sort_by_distance(minors: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(minors, key=lambda minor: (abs(minor - DEFAULT_MINOR), minor)))
