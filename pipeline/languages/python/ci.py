"""Derives an installation from a repository's CI files, without running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any, Final

from pipeline.languages.manifests import entries, parse_json, parse_yaml, walk_scalars
from pipeline.languages.python.requirements import (
    NOT_FOR_TESTS,
    TAKES_VALUE,
    TestNeeds,
    names_other_index,
)

WORKFLOW: Final = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
SETUP_STEPS: Final = re.compile(r"\.github/workflows/copilot-setup-steps\.ya?ml")
DEVCONTAINER: Final = re.compile(
    r"\.devcontainer(/[\w.-]+)?/devcontainer\.json|\.devcontainer\.json"
)
RUNS_TESTS: Final = re.compile(
    r"\b(pytest|py\.test|unittest|runtests|run_tests|nosetests|trial|make (?:test|check)"
    r"|hatch (?:run|test)|bin/test)\b"
)
NOT_TESTS: Final = re.compile(
    r"bench|doc|lint|release|publish|deploy|coverage|typ(e|ing)|mypy|nightly|schedule|wheel|stale",
    re.IGNORECASE,
)
"""Matches names of workflows and jobs that do not run tests."""
INSTALL: Final = re.compile(
    r"^(?:sudo\s+)?(?:(?:uv\s+run\s+)?python[\d.]*\s+-m\s+|uv\s+)?pip3?\s+install\s+(.*)$"
)
APT: Final = re.compile(
    r"^(?:sudo\s+)?(?:[A-Z_]+=\S+\s+)*apt(?:-get)?\s+(?:-\S+\s+)*install\s+(.*)$"
)
PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]{1,60}")
"""A Debian package; https://www.debian.org/doc/debian-policy/ch-controlfields.html#source"""
NOT_A_LIBRARY: Final = re.compile(
    r"^(sudo|python3?[\d.]*(-dev|-venv|-distutils|-pip)?|git|curl|wget|nodejs|npm|snapd|docker.*"
    r"|texlive.*|latex.*|libreoffice.*|chromium.*|firefox.*|google-.*|nvidia.*|cuda.*|linux-.*|.*-server)$"
)
"""Packages of the runner, services, and packages too large for tests that run without them."""
REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w.,\s-]+\])?\s*(?:(?:[<>=!~]=?|===)\s*[\w.*+!-]+\s*,?\s*)*(?:;.*)?"
)
OWN: Final = re.compile(r"(?:file:)?\.(?:/)?(?:\[([\w.,\s-]+)\])?")
EXPRESSION: Final = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
TOOLS: Final = re.compile(
    r"(pip|setuptools|wheel|build|tox|tox-gh|tox-gh-actions|nox|poetry|pdm|uv|hatch|twine|flit"
    r"|codecov|coveralls|pipenv|virtualenv|pre-commit|flake8|black|ruff|mypy|isort)(?![\w.-])",
    re.IGNORECASE,
)
LONGEST_LINE: Final = 2000
MOST_PACKAGES: Final = 40
MOST_LINES: Final = 2000


@dataclass(frozen=True)
class CiRecipe:
    """The installations of one job that runs the tests."""

    needs: TestNeeds = TestNeeds()  # noqa: RUF009 - frozen
    system_packages: tuple[str, ...] = ()
    """Names of Debian packages."""


def find_ci_recipe(names: Sequence[str], texts: Mapping[str, str]) -> CiRecipe:
    """Find the best of these installations: the setup steps for coding agents, the jobs that run
    the tests on GitHub or GitLab, the development container. Empty if there is none."""
    there = frozenset(names)
    found = [read_lines(list(lines)[:MOST_LINES], there, path) for path, lines in jobs_of(texts)]
    packages = next((one.system_packages for one in found if one.system_packages), ())
    ranked = sorted(found, key=lambda one: not (one.needs.extras or one.needs.files))
    best = next((one.needs for one in ranked if not one.needs.is_empty), TestNeeds())
    return CiRecipe(best, packages)


def jobs_of(texts: Mapping[str, str]) -> Iterator[tuple[str, Iterable[str]]]:
    """The shell lines of each job that may install for tests, the most informative first."""
    workflows = [path for path in sorted(texts) if WORKFLOW.fullmatch(path)]
    for path in sorted(workflows, key=lambda path: not SETUP_STEPS.fullmatch(path)):
        for lines in github_jobs(path, texts[path]):
            yield path, lines
    gitlab = parse_yaml(texts.get(".gitlab-ci.yml", ""))
    shared = list(script_lines(gitlab.get("before_script")))
    for own in map(entries, gitlab.values()):
        script = list(script_lines(own.get("script")))
        if any(RUNS_TESTS.search(line) for line in script):
            before = list(script_lines(own.get("before_script"))) or shared
            yield ".gitlab-ci.yml", [*before, *script]
    for path in sorted(texts):
        if DEVCONTAINER.fullmatch(path):
            container = parse_json(re.sub(r"^[ \t]*//.*$", "", texts[path], flags=re.MULTILINE))
            keys = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
            commands = [container.get(key) for key in keys]
            yield path, [line for command in commands for line in script_lines(command)]


def github_jobs(path: str, text: str) -> Iterator[list[str]]:
    """The lines of the jobs of one workflow that run tests."""
    setup = bool(SETUP_STEPS.fullmatch(path))
    for name, job in entries(parse_yaml(text).get("jobs")).items():
        lines = list(github_lines(entries(job)))
        if setup or (
            not NOT_TESTS.search(f"{path.rpartition('/')[2]} {name}")
            and any(RUNS_TESTS.search(line) for line in lines)
        ):
            yield lines


def github_lines(job: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a job's `run` steps, with the first values of its matrix."""
    strategy = entries(job.get("strategy"))
    matrix = first_values(entries(strategy.get("matrix")))

    def fill(match: re.Match[str]) -> str:
        return matrix.get(match[1].removeprefix("matrix."), match[0])

    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else ():  # pyright: ignore[reportUnknownVariableType]
        for line in script_lines(entries(step).get("run")):
            yield EXPRESSION.sub(fill, line)


def first_values(matrix: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in matrix.items():
        first = next(walk_scalars(value), None)
        if first is not None:
            found[key] = first
    return found


def script_lines(value: Any) -> Iterator[str]:
    """The commands of a script: lines, and the parts of lines that `&&` and `;` join."""
    for text in walk_scalars(value):
        for line in re.sub(r"\\\r?\n\s*", " ", text).splitlines():
            if len(line) > LONGEST_LINE:
                continue
            for part in split_commands(line):
                if part and not part.startswith("#"):
                    yield part


def split_commands(line: str) -> Iterator[str]:
    """Split a line at `&&`, `||` and `;` outside quotes."""
    quote, begun = "", 0
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == ";" or line[at : at + 2] in {"&&", "||"}:
            yield line[begun:at].strip(" \t&|")
            begun = at + 1
    yield line[begun:].strip(" \t&|")


def read_lines(lines: Sequence[str], names: frozenset[str], path: str) -> CiRecipe:
    """The installs among the lines of a job."""
    extras: list[str] = []
    files: list[str] = []
    requirements: list[str] = []
    packages: list[str] = []
    for line in lines:
        apt, pip = APT.match(line), INSTALL.match(line)
        if apt:
            packages += [word for word in apt[1].split() if is_library(word)]
        for kind, word in install_arguments(pip[1]) if pip else ():
            if kind == "file" and word in names and not NOT_FOR_TESTS.search(word):
                files.append(word)
            elif kind == "extra":
                extras.append(word)
            elif kind == "requirement":
                requirements.append(word)
    needs = TestNeeds(
        tuple(dict.fromkeys(extras)),
        tuple(dict.fromkeys(files)),
        tuple(dict.fromkeys(requirements)),
        source=f"as {path} installs it",
    )
    return CiRecipe(needs, tuple(dict.fromkeys(packages))[:MOST_PACKAGES])


def is_library(word: str) -> bool:
    return bool(PACKAGE.fullmatch(word)) and not NOT_A_LIBRARY.match(word)


def install_arguments(text: str) -> Iterator[tuple[str, str]]:
    """The safe arguments of one `pip install`: files, extras of the package, requirements."""
    try:
        typed = shlex.split(text.split(" #")[0])
    except ValueError:
        return
    words, other = iter(typed), names_other_index(typed)
    for word in words:
        file = re.fullmatch(r"(?:-r|--requirement)=?(.*)", word)
        if file:
            yield "file", normpath(file[1] or next(words, ""))
        elif TAKES_VALUE.fullmatch(word):
            next(words, "")
        elif match := OWN.fullmatch(word):
            named = (match[1] or "").split(",")
            yield from (("extra", one.strip()) for one in named if one.strip())
        elif not other and is_requirement(word):
            yield "requirement", word


def is_requirement(word: str) -> bool:
    """Whether it names a package that tests may need, as opposed to a tool of CI."""
    plain = len(word) < 200 and "$" not in word
    return plain and bool(REQUIREMENT.fullmatch(word)) and not TOOLS.match(word)
