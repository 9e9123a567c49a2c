"""The steps that install a Python repository, derived from its files.

The first of these that exists: a lock file (uv, poetry, pdm), installed as locked; the package with
its extra or dependency group for tests; requirement files; what tox or nox would install.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sandbox.environment.manifests import parse_ini, parse_toml, project_of, strings, table, tables
from sandbox.environment.tox_nox import Routine, nox_routine, tox_routine

TEST_NAMES: Final = ("test", "tests", "testing", "dev")
"""Extras and dependency groups that hold what a test suite needs, in the order we look for them."""
REQUIREMENTS: Final = re.compile(r"(?:requirements/|tests?/)?[^/]*\.txt")
GENERAL_REQUIREMENTS: Final = re.compile(
    r"requirements\.txt|requirements/(base|common|main|requirements)\.txt"
)
TEST_RUNNER: Final = re.compile(r"^(pytest|nose2?|tox|nox)\b", re.MULTILINE)
VERSION_SUFFIX: Final = re.compile(r"[-_.]?(?:py)?[23]\.?\d*(?=\.txt$)")
PYTEST: Final = "pip install pytest"
INCOMING: Final = "/opt/incoming"
"""Where a build finds its input files."""
HASHED_FILE: Final = "pdm-hashed.txt"
UNHASHED_FILE: Final = "pdm.txt"
HASH: Final = re.compile(r"sha(256|384|512):[0-9a-f]+")
TOOLS: Final = "/opt/tools"
"""Where package managers live in the build container, apart from what they install."""


def is_python(names: Sequence[str]) -> bool:
    return any(name.endswith((".py", ".pyi", ".pyx")) for name in names)


def python_steps(names: Sequence[str], texts: Mapping[str, str]) -> Iterator[str]:
    """Lines for a shell, in order; pytest comes last."""
    project = project_of(texts)
    locked = list(lock_steps(names, texts, project))
    yield from locked or fallback_steps(names, texts, project)
    yield PYTEST


def lock_steps(
    names: Sequence[str], texts: Mapping[str, str], project: Mapping[str, Any]
) -> Iterator[str]:
    """Install as locked, with the group and the extra for tests; empty without a lock file."""
    if not project:
        return
    extra, group = best_test_name(extra_names(project, texts)), best_test_name(group_names(project))
    if "uv.lock" in names:
        yield install_tool_step("uv")
        # Inexact: pip itself stays.
        chosen = command_option("--extra", extra) + command_option("--group", group)
        yield f"{TOOLS}/uv/bin/uv sync --frozen --inexact{chosen}"
    elif "poetry.lock" in names:
        yield install_tool_step("poetry")
        root = "" if is_package(project, names) and is_package_mode(project) else " --no-root"
        chosen = command_option("--extras", extra) + command_option("--with", group)
        yield f"{TOOLS}/poetry/bin/poetry install --no-interaction --no-ansi{root}{chosen}"
    elif "pdm.lock" in names:
        for name in pdm_files(names, texts):
            sure = " --require-hashes" if name == HASHED_FILE else ""
            yield f"pip install --no-deps{sure} --requirement {INCOMING}/{name}"
        if is_package(project, names) and table(project, "tool", "pdm").get("distribution", True):
            yield "pip install --no-deps --editable ."


def pdm_files(names: Sequence[str], texts: Mapping[str, str]) -> dict[str, str]:
    """What pdm locked, as requirement files by name: those with hashes, and the others.

    pip can install them without pdm. Empty if another lock file takes precedence.
    """
    if "pdm.lock" not in names or {"uv.lock", "poetry.lock"} & set(names):
        return {}
    project = project_of(texts)
    chosen = best_test_name(group_names(project)), best_test_name(extra_names(project, texts))
    groups = {"default", "dev", *filter(None, chosen)}
    lines: dict[str, list[str]] = {HASHED_FILE: [], UNHASHED_FILE: []}
    for requirement, hashes in pdm_requirements(parse_toml(texts.get("pdm.lock", "")), groups):
        line = " ".join([requirement, *(f"--hash={value}" for value in hashes)])
        lines[HASHED_FILE if hashes else UNHASHED_FILE].append(line)
    return {name: "\n".join(found) + "\n" for name, found in lines.items() if found}


def pdm_requirements(
    lock: Mapping[str, Any], groups: set[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What pdm locked for `groups`, each with the hashes that its files may have.

    https://pdm-project.org/en/latest/usage/lockfile/
    """
    for package in tables(lock.get("package")):
        name, version, url = (package.get(key) for key in ("name", "version", "url"))
        wanted = strings(package.get("groups"))
        if not isinstance(name, str) or "path" in package or (wanted and not groups & {*wanted}):
            continue
        marker = package.get("marker")
        tail = f" ; {marker}" if isinstance(marker, str) else ""
        if "git" in package:
            yield f"{name} @ git+{package['git']}@{package.get('revision', 'HEAD')}{tail}", ()
            continue
        stated = [file.get("hash") for file in tables(package.get("files"))]
        hashes = tuple(h for h in stated if isinstance(h, str) and HASH.fullmatch(h))
        source = f"{name} @ {url}" if isinstance(url, str) else f"{name}=={version}"
        yield source + tail, hashes


def install_tool_step(name: str) -> str:
    """Install a package manager in a folder of its own, once for all layers."""
    home = f"{TOOLS}/{name}"
    return (
        f"test -x {home}/bin/{name} || "
        f"{{ python3 -m venv {home} && {home}/bin/pip install --quiet {name}; }}"
    )


def command_option(name: str, value: str | None) -> str:
    return f" {name} {shlex.quote(value)}" if value else ""


def fallback_steps(
    names: Sequence[str], texts: Mapping[str, str], project: Mapping[str, Any]
) -> Iterator[str]:
    """The package itself with its extra, its group, requirement files, what tox or nox install."""
    tox = tox_routine(texts)
    extra = best_test_name(extra_names(project, texts)) or next(iter(tox.extras), None)
    group = best_test_name(table(project, "dependency-groups")) or next(iter(tox.groups), None)
    package = is_package(project, names)
    if package:
        target = f".[{extra}]" if extra else "."
        yield f"pip install --editable {shlex.quote(target)}"
    if group:
        yield "pip install --upgrade 'pip>=25.1'"  # older ones do not know groups
        yield f"pip install --group {shlex.quote(group)}"
    if package and (extra or group):
        return
    files = requirement_files(texts, package=package)
    for name in files:
        yield f"pip install --requirement {shlex.quote('./' + name)}"
    if not any("test" in name or "dev" in name for name in files):
        yield from routine_steps(tox if tox.installs else nox_routine(texts), set(files))


def routine_steps(routine: Routine, files: set[str]) -> Iterator[str]:
    """What tox or nox install, without what is installed already."""
    for arguments in routine.installs:
        if arguments[-1].removeprefix("./") not in files:
            yield f"pip install {shlex.join(arguments)}"


def best_test_name(names: Iterable[str]) -> str | None:
    """The one extra or group to install: the narrowest that is enough to run tests."""
    return next((name for name in TEST_NAMES if name in set(names)), None)


def is_package(project: Mapping[str, Any], names: Sequence[str]) -> bool:
    if "setup.py" in names or {"project", "build-system"} & set(project):
        return True
    return "poetry" in table(project, "tool")


def is_package_mode(project: Mapping[str, Any]) -> bool:
    """False if poetry is configured to install dependencies only."""
    return table(project, "tool", "poetry").get("package-mode") is not False


def requirement_files(texts: Mapping[str, str], *, package: bool) -> list[str]:
    """The general file first, then those for tests.

    Of a package only the latter: its own metadata name what it needs, and a bare requirements.txt
    beside them often pins a deployment that no longer installs; unless it names a test runner.
    A file for one version of Python (`tests37.txt`) is left out where there is one for all.
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
    """The name of the file of requirements without a version of Python at its end."""
    return VERSION_SUFFIX.sub("", name)


def group_names(project: Mapping[str, Any]) -> set[str]:
    """Dependency groups of the standard, and those of poetry and pdm."""
    found = set(table(project, "dependency-groups"))
    found |= set(table(project, "tool", "poetry", "group"))
    return found | set(table(project, "tool", "pdm", "dev-dependencies"))


def extra_names(project: Mapping[str, Any], texts: Mapping[str, str]) -> set[str]:
    """The extras that any of the three places declares; setup.py is read, never run, here."""
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
