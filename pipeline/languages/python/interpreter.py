"""Finds the Python that a repository requests, from its files."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from packaging.specifiers import SpecifierSet

from pipeline.languages.manifests import CI_FILE, parse_ini, parse_toml, strings, table
from pipeline.languages.python.facts import FACTS
from pipeline.languages.python.metadata import project_of
from pipeline.languages.python.tox_nox import tox_routine
from sandbox.layout import SYSTEM_PYTHON

MINORS: Final = tuple(range(6, 21))
"""Minor versions of Python 3; older ones cannot run the environment."""
PATCHES: Final = 40
DEFAULT_MINOR: Final = 11
"""The base image's version; the nearest accepted version is preferred."""
TOX_PYTHON: Final = re.compile(r"(?<![\w.])(?:py3\.?|3\.)(\d{1,3})(?![\w.])")
"""A factor of a tox environment: `py312`, `py3.12`, `3.12`; `py3.14t` and `pypy3.11` are others."""
CHOOSE: Final = f"{SYSTEM_PYTHON} -I /opt/capuchin/choose_python.py"
RELEASED: Final = {
    6: date(2016, 12, 23),
    7: date(2018, 6, 27),
    8: date(2019, 10, 14),
    9: date(2020, 10, 5),
    10: date(2021, 10, 4),
    11: date(2022, 10, 24),
    12: date(2023, 10, 2),
    13: date(2024, 10, 7),
    14: date(2025, 10, 7),
}
"""The release day of each minor version; https://devguide.python.org/versions/"""
MATURE: Final = timedelta(days=180)
"""The delay of wheels after a new Python's release."""
PINNED: Final = re.compile(r"\s*(?:cpython-?)?3\.(\d{1,3})(?!\d)")
CI_PYTHON: Final = re.compile(
    r"(?im)^[ -]*+[\w.-]{0,60}python[\w.-]{0,60}[ \t]*:[ \t]*"
    r"(\[[^\]]{0,2000}\]|(?:\n[ \t]*-[^\n]*){1,30}|[^\n]*)"
)
LONGEST_LINE: Final = 500
CI_MINOR: Final = re.compile(r"(?<![\d.])3\.(\d{1,2})(?!\d)")
CI_TOX: Final = re.compile(r"\bTOXENV[=: ]++[^\n]{0,200}?py3\.?(\d{1,3})(?!\d)")


@dataclass(frozen=True)
class PythonRequirement:
    """Minor versions of Python 3."""

    accepted: tuple[int, ...]
    """Versions on which the repository installs, the nearest to the default first."""
    wanted: tuple[int, ...]
    """Accepted versions on which it declares to be tested, the newest first; may be empty."""
    text: str
    """The requirement in the repository's words: untrusted."""
    where: str
    fetch: bool = False
    """Whether to fetch one of `wanted` if none is available, before another of `accepted`."""

    def to_step(self) -> str:
        """The shell line that installs a suitable Python in the environment."""
        versions = {"--accepted": self.accepted, "--wanted": self.wanted}
        words = [word for name, given in versions.items() for word in (name, join_minors(given))]
        words += ["--asked", self.text, "--where", self.where]
        return f"{CHOOSE} {shlex.join([*words, *(['--fetch'] if self.fetch else [])])}"


def refuse_version(version: str) -> str:
    """Why no environment can have that Python, as a sentence; empty if one may."""
    if re.match(r"2\b", version):
        return FACTS.too_old
    minor = re.fullmatch(r"3\.(\d{1,2})", version)
    if minor is None:
        return "<python> takes a version such as 3.8."
    return FACTS.too_old if int(minor[1]) < MINORS[0] else ""


def join_minors(minors: tuple[int, ...]) -> str:
    return ",".join(f"3.{minor}" for minor in minors)


def find_python_requirement(
    texts: Mapping[str, str], *, configured: str = ""
) -> PythonRequirement | None:
    """Find the requirement in the files; None if there is none. `configured` is set by the
    maintainers and takes precedence.

    A bound (`requires-python`) must hold; tested versions (`.python-version`, tox's list of
    environments, classifiers) are preferred among the available interpreters.
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


def find_python_at(texts: Mapping[str, str], day: date) -> PythonRequirement:
    """Find the Pythons for a commit of `day`, the best first.

    The best is the newest declared version that was mature by then; without declared versions, the
    newest mature one within its bounds. A Python released later is the last resort.
    """
    text, where = next(version_bounds(texts), ("", ""))
    within = set(matching_minors(text) if text else MINORS)
    declared, places = find_declared(texts)
    pinned = PINNED.match(texts.get(".python-version", ""))
    declared = ({int(pinned[1])} if pinned else declared) & within
    known = declared or within
    out = {minor: RELEASED.get(minor, date.max) for minor in within}
    mature = [minor for minor in known if out[minor] != date.max and out[minor] + MATURE <= day]
    young = [minor for minor in known if out[minor] <= day and minor not in mature]
    wanted = [*sorted(mature, reverse=True), *sorted(young, reverse=True)]
    later = sorted(declared - set(wanted))
    rest = sorted(within - {*wanted, *later}, key=lambda m: (abs((out[m] - day).days), m))
    order = [*wanted, *later, *rest]
    return PythonRequirement(
        tuple(order),
        tuple(wanted or order[:3]),
        text or join_minors(tuple(sorted(declared))),
        where or places,
        fetch=True,
    )


def find_declared(texts: Mapping[str, str]) -> tuple[set[int], str]:
    """The minor versions in classifiers, tox and CI files, and the place of the first ones."""
    found: set[int] = set()
    first = ""
    for minors, place in versions_under_test(texts):
        found |= set(minors)
        first = first or place
    for path, whole in texts.items():
        if CI_FILE.fullmatch(path):
            # The pattern is slow on a long line, which no such file needs.
            text = "\n".join(line for line in whole.splitlines() if len(line) < LONGEST_LINE)
            blocks = CI_PYTHON.findall(text)
            minors = [minor for block in blocks for minor in CI_MINOR.findall(block)]
            found |= {int(minor) for minor in [*minors, *CI_TOX.findall(text)]}
            first = first or (path if minors else "")
    return found & set(MINORS), first


def version_bounds(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The bounds that can be parsed, each with the place that states it."""
    project = project_of(texts)
    poetry = table(project, "tool", "poetry", "dependencies").get("python")
    setup_py = re.search(r"""python_requires\s*=\s*["']([^"'\n]+)["']""", texts.get("setup.py", ""))
    setup_cfg = parse_ini(texts.get("setup.cfg", ""))
    metadata = re.search(r"^Requires-Python:\s*(\S.*)$", texts.get("PKG-INFO", ""), re.MULTILINE)
    pipenv = table(parse_toml(texts.get("Pipfile", "")), "requires").get("python_version")
    places: list[tuple[object, str]] = [
        (table(project, "project").get("requires-python"), "requires-python in pyproject.toml"),
        (translate_poetry_bound(poetry), "tool.poetry.dependencies in pyproject.toml"),
        (
            setup_cfg.get("options", "python_requires", fallback=None),
            "python_requires in setup.cfg",
        ),
        (setup_py[1] if setup_py else None, "python_requires in setup.py"),
        (metadata[1] if metadata else None, "Requires-Python in PKG-INFO"),
        (f"=={pipenv}.*" if isinstance(pipenv, str) else None, "python_version in Pipfile"),
    ]
    for text, where in places:
        if isinstance(text, str) and is_valid_specifier(text):
            yield text.strip(), where


def translate_poetry_bound(value: object) -> str | None:
    """Translate poetry's caret and tilde into bounds;
    https://python-poetry.org/docs/dependency-specification/"""
    if not isinstance(value, str):
        return None
    parts: list[str] = []
    for part in map(str.strip, value.split(",")):
        match = re.fullmatch(r"([\^~]?)\s*(\d{1,9})(?:\.(\d{1,9}))?((?:\.\d+)*)(\.\*)?", part)
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
    """The minor versions on which it is tested, each list with the place that states it."""
    pinned = PINNED.match(texts.get(".python-version", ""))
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
        found = re.findall(r"Programming Language :: Python :: 3\.(\d{1,3})(?!\d)", text)
        if found:
            yield tuple(int(minor) for minor in found), f"classifiers in {where}"


def is_valid_specifier(text: str) -> bool:
    try:
        bound = SpecifierSet(text.strip())
        # One after the other: versions are converted where they are compared.
        for part in bound:
            part.contains(f"3.{DEFAULT_MINOR}")
    except ValueError:  # `InvalidSpecifier`, or more digits than Python converts
        return False
    return True


def matching_minors(text: str) -> tuple[int, ...]:
    """The minor versions with a patch release within the bounds."""
    bound = SpecifierSet(text)
    return sort_by_distance(
        tuple(m for m in MINORS if any(bound.contains(f"3.{m}.{p}") for p in range(PATCHES)))
    )


def sort_by_distance(minors: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(minors, key=lambda minor: (abs(minor - DEFAULT_MINOR), minor)))
