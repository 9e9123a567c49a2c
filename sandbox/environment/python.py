"""The steps that install a Python repository, derived from its files.

They install the package with its extra or dependency group for tests; else requirement files; else
the dependencies in tox or nox files. Where this is not enough, the installer (`installer_plan.py`)
does better.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sandbox.environment.manifests import (
    is_package,
    parse_ini,
    project_of,
    table,
)
from sandbox.environment.tox_nox import Routine, nox_routine, tox_routine

TEST_NAMES: Final = ("test", "tests", "testing", "dev")
"""Extras and dependency groups for a test suite, in order of precedence."""
REQUIREMENTS: Final = re.compile(r"(?:requirements/|tests?/)?[^/]*\.txt")
GENERAL_REQUIREMENTS: Final = re.compile(
    r"requirements\.txt|requirements/(base|common|main|requirements)\.txt"
)
TEST_RUNNER: Final = re.compile(r"^(pytest|nose2?|tox|nox)\b", re.MULTILINE)
VERSION_SUFFIX: Final = re.compile(r"[-_.]?(?:py)?[23]\.?\d*(?=\.txt$)")
PYTEST: Final = "pip install pytest"
INCOMING: Final = "/opt/incoming"
"""The folder of a build's input files."""
TOOLS: Final = "/opt/tools"
"""The folder of package managers in the build container, separate from what they install."""


def is_python(names: Sequence[str]) -> bool:
    return any(name.endswith((".py", ".pyi", ".pyx")) for name in names)


def python_steps(names: Sequence[str], texts: Mapping[str, str]) -> Iterator[str]:
    """Lines for a shell, in order; pytest comes last."""
    project = project_of(texts)
    yield from fallback_steps(names, texts, project)
    yield PYTEST


def fallback_steps(
    names: Sequence[str], texts: Mapping[str, str], project: Mapping[str, Any]
) -> Iterator[str]:
    """The lines for the package with its extra, its group, requirement files, and tox or nox."""
    tox = tox_routine(texts)
    extra = best_test_name(extra_names(project, texts)) or next(iter(tox.extras), None)
    group = best_test_name(table(project, "dependency-groups")) or next(iter(tox.groups), None)
    package = is_package(project, names)
    if package:
        target = f".[{extra}]" if extra else "."
        yield f"pip install --editable {shlex.quote(target)}"
    if group:
        yield "pip install --upgrade 'pip>=25.1'"  # older versions do not know groups
        yield f"pip install --group {shlex.quote(group)}"
    if package and (extra or group):
        return
    files = requirement_files(texts, package=package)
    for name in files:
        yield f"pip install --requirement {shlex.quote('./' + name)}"
    if not any("test" in name or "dev" in name for name in files):
        yield from routine_steps(tox if tox.installs else nox_routine(texts), set(files))


def routine_steps(routine: Routine, files: set[str]) -> Iterator[str]:
    """The lines for tox's or nox's dependencies, without those already installed."""
    for arguments in routine.installs:
        if arguments[-1].removeprefix("./") not in files:
            yield f"pip install {shlex.join(arguments)}"


def best_test_name(names: Iterable[str]) -> str | None:
    """The one extra or group to install: the narrowest that suffices for tests."""
    return next((name for name in TEST_NAMES if name in set(names)), None)


def requirement_files(texts: Mapping[str, str], *, package: bool) -> list[str]:
    """The general file first, then those for tests.

    For a package, only those for tests: its metadata names its requirements, and a plain
    requirements.txt often pins a deployment that no longer installs. The exception is a
    requirements.txt that names a test runner. A file for one version of Python (`tests37.txt`) is
    left out if there is a general one.
    """
    files = [name for name in sorted(texts) if REQUIREMENTS.fullmatch(name)]
    files = [name for name in files if "constraints" not in name]
    files = [
        name
        for name in files
        if name == without_version(name) or without_version(name) not in files
    ]
    general = [] if package else [name for name in files if GENERAL_REQUIREMENTS.fullmatch(name)]
    files = [name for name in files if name not in general]
    tests = [name for name in files if "test" in name]
    tests = tests or [name for name in files if "dev" in name]
    if not tests and package:
        general = (
            ["requirements.txt"] if TEST_RUNNER.search(texts.get("requirements.txt", "")) else []
        )
    return general + tests


def without_version(name: str) -> str:
    """The name of a requirement file without a trailing Python version."""
    return VERSION_SUFFIX.sub("", name)


def group_names(project: Mapping[str, Any]) -> set[str]:
    """The standard's dependency groups, and those of poetry and pdm."""
    found = set(table(project, "dependency-groups"))
    found |= set(table(project, "tool", "poetry", "group"))
    return found | set(table(project, "tool", "pdm", "dev-dependencies"))


def extra_names(project: Mapping[str, Any], texts: Mapping[str, str]) -> set[str]:
    """The extras declared in any of the three places; setup.py is read, never run."""
    found = set(table(project, "project", "optional-dependencies"))
    found |= set(table(project, "tool", "poetry", "extras"))
    found |= set(table(project, "tool", "setuptools", "dynamic", "optional-dependencies"))
    parser = parse_ini(texts.get("setup.cfg", ""))
    if parser.has_section("options.extras_require"):
        found |= set(parser.options("options.extras_require"))
    script = texts.get("setup.py", "")
    if "extras_require" in script.lower():
        found |= {name for name in TEST_NAMES if re.search(rf"""["']{name}["']\s*[\]:]""", script)}
    return found
