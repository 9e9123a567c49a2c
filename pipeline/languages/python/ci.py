"""Derives an installation from the pip lines of a repository's CI, without running them."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Final

from pipeline.languages.ci import CiJob, jobs_of
from pipeline.languages.python.facts import FACTS
from pipeline.languages.python.requirements import (
    NOT_FOR_TESTS,
    TAKES_VALUE,
    TestNeeds,
    names_other_index,
)

RUNS_TESTS: Final = re.compile(FACTS.ci_tests)
INSTALL: Final = re.compile(
    r"^(?:sudo\s+)?(?:(?:uv\s+run\s+)?python[\d.]*\s+-m\s+|uv\s+)?pip3?\s+install\s+(.*)$"
)
REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w.,\s-]+\])?\s*(?:(?:[<>=!~]=?|===)\s*[\w.*+!-]+\s*,?\s*)*(?:;.*)?"
)
OWN: Final = re.compile(r"(?:file:)?\.(?:/)?(?:\[([\w.,\s-]+)\])?")
TOOLS: Final = re.compile(
    r"(pip|setuptools|wheel|build|tox|tox-gh|tox-gh-actions|nox|poetry|pdm|uv|hatch|twine|flit"
    r"|codecov|coveralls|pipenv|virtualenv|pre-commit|flake8|black|ruff|mypy|isort)(?![\w.-])",
    re.IGNORECASE,
)


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
    found = [read_job(job, there) for job in jobs_of(texts, RUNS_TESTS)]
    packages = next((one.system_packages for one in found if one.system_packages), ())
    ranked = sorted(found, key=lambda one: not (one.needs.extras or one.needs.files))
    best = next((one.needs for one in ranked if not one.needs.is_empty), TestNeeds())
    return CiRecipe(best, packages)


def read_job(job: CiJob, names: frozenset[str]) -> CiRecipe:
    """The installs among the lines of a job."""
    extras: list[str] = []
    files: list[str] = []
    requirements: list[str] = []
    for _, line in job.lines:
        pip = INSTALL.match(line)
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
        source=f"as {job.path} installs it",
    )
    return CiRecipe(needs, job.packages)


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
