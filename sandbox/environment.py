"""How a repository gets installed: found out from its files, or told by its maintainers."""

from __future__ import annotations

import hashlib
import io
import re
import shlex
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from typing import Any, cast

from sandbox.base import EnvironmentFailed
from sandbox.tree import Tree

TEST_NAMES = ("test", "tests", "testing", "dev")
"""Extras and dependency groups that hold what a test suite needs, in the order we look for them."""
DEPENDENCY_FILES = re.compile(
    r"pyproject\.toml|setup\.py|setup\.cfg|PKG-INFO|[^/]*(requirements|constraints)[^/]*\.(txt|in)"
    r"|requirements/[^/]+\.(txt|in)"
)
REQUIREMENTS = re.compile(r"(?:requirements/)?[^/]*\.txt")
UNKNOWN_VERSION = "99.0.0"
"""For packages that read their version from git, which the sandbox does not have; high, so that
whoever needs "at least" is content."""
GENERAL = re.compile(r"requirements\.txt|requirements/(base|common|main|requirements)\.txt")
MAX_FILE = 1024 * 1024


@dataclass(frozen=True)
class Recipe:
    """The steps that install a repository, each a line for a shell inside the build container."""

    steps: tuple[str, ...]
    version: str = UNKNOWN_VERSION
    """What a package that asks git for its version is told instead."""
    name: str | None = None
    inputs: str = ""
    """A digest of the files that decide which dependencies are installed."""

    @property
    def digest(self) -> str:
        text = repr((self.steps, self.version, self.name, self.inputs))
        return hashlib.sha256(text.encode()).hexdigest()


def recipe_of(tree: Tree, *, setup: Sequence[str] = ()) -> Recipe:
    """How to install `tree`: with `setup` where it is given, else by what its files say.

    Raises:
        EnvironmentFailed: there is no Python in it, or its archive cannot be read.
    """
    names, texts = read(tree)
    if not any(name.endswith((".py", ".pyi", ".pyx")) for name in names):
        raise EnvironmentFailed(
            "There is no Python file in this repository.", command="detect", log=""
        )
    inputs = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()
    version = known_version(texts.get("PKG-INFO", ""))
    steps = tuple(line for line in setup if line.strip()) or tuple(detect(names, texts))
    return Recipe(steps, version, distribution_name(texts), inputs)


def read(tree: Tree) -> tuple[list[str], dict[str, str]]:
    """The paths of all files, and the text of those that say something about dependencies."""
    names: list[str] = []
    texts: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(tree.tar), mode="r:*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not member.isdir():
                    names.append(name)
                if member.isreg() and member.size <= MAX_FILE and DEPENDENCY_FILES.fullmatch(name):
                    source = archive.extractfile(member)
                    texts[name] = source.read().decode(errors="replace") if source else ""
    except tarfile.TarError as error:
        raise EnvironmentFailed(
            f"The checkout's archive cannot be read: {error}", command="detect", log=""
        ) from error
    return names, texts


def detect(names: Sequence[str], texts: Mapping[str, str]) -> Iterator[str]:
    """The steps, in order: the package itself with its extra, requirement files, then pytest."""
    project = parse_toml(texts.get("pyproject.toml", ""))
    extra = best(extras_of(project, texts))
    group = best(table(project, "dependency-groups"))
    package = is_package(project, names)
    if package:
        yield f"pip install --editable '.[{extra}]'" if extra else "pip install --editable ."
    if group:
        yield "pip install --upgrade 'pip>=25.1'"  # older ones do not know groups
        yield f"pip install --group {group}"
    if not (package and (extra or group)):
        for name in requirement_files(texts, package=package):
            yield f"pip install --requirement {shlex.quote('./' + name)}"
    yield "pip install pytest"


def best(names: Iterable[str]) -> str | None:
    """The one extra or group to install: the narrowest that is enough to run tests."""
    return next((name for name in TEST_NAMES if name in set(names)), None)


def is_package(project: Mapping[str, Any], names: Sequence[str]) -> bool:
    if "setup.py" in names or {"project", "build-system"} & set(project):
        return True
    return "poetry" in table(project, "tool")


def requirement_files(texts: Mapping[str, str], *, package: bool) -> list[str]:
    """The general file first, then those for tests.

    Of a package only the latter: its own metadata name what it needs, and a bare requirements.txt
    beside them often pins a deployment that no longer installs.
    """
    files = [name for name in sorted(texts) if REQUIREMENTS.fullmatch(name)]
    files = [name for name in files if "constraints" not in name]
    general = [] if package else [name for name in files if GENERAL.fullmatch(name)]
    files = [name for name in files if name not in general]
    tests = [name for name in files if "test" in name]
    return general + (tests or [name for name in files if "dev" in name])


def extras_of(project: Mapping[str, Any], texts: Mapping[str, str]) -> set[str]:
    """The extras that any of the three places declares; setup.py is read, never run, here."""
    found = set(table(project, "project", "optional-dependencies"))
    found |= set(table(project, "tool", "poetry", "extras"))
    found |= set(table(project, "tool", "setuptools", "dynamic", "optional-dependencies"))
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(texts.get("setup.cfg", ""))
    except ConfigError:
        parser = ConfigParser()
    if parser.has_section("options.extras_require"):
        found |= set(parser.options("options.extras_require"))
    script = texts.get("setup.py", "")
    if "extras_require" in script.lower():
        found |= {name for name in TEST_NAMES if re.search(rf"""["']{name}["']\s*[\]:]""", script)}
    return found


def parse_toml(text: str) -> dict[str, Any]:
    """A file that is not TOML says nothing here; pip will say what is wrong with it."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def table(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The table at `path`, empty where there is none."""
    value: Any = document
    for key in path:
        if not isinstance(value, dict):
            return {}
        value = cast(dict[str, Any], value).get(key)
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def known_version(metadata: str) -> str:
    """The version that a source release states in its PKG-INFO."""
    match = re.search(r"^Version:\s*([0-9][0-9A-Za-z.!+]*)\s*$", metadata, re.MULTILINE)
    return match[1] if match else UNKNOWN_VERSION


def distribution_name(texts: Mapping[str, str]) -> str | None:
    """What the package calls itself, where a file says so without being run."""
    project = parse_toml(texts.get("pyproject.toml", ""))
    stated = table(project, "project").get("name") or table(project, "tool", "poetry").get("name")
    if isinstance(stated, str):
        return stated
    for name, pattern in (("PKG-INFO", r"^Name:\s*(\S+)"), ("setup.cfg", r"^name\s*=\s*(\S+)")):
        match = re.search(pattern, texts.get(name, ""), re.MULTILINE)
        if match:
            return match[1]
    return None


def scm_versions(version: str, name: str | None) -> dict[str, str]:
    """Environment that tells setuptools_scm, hatch-vcs, pbr, poetry and pdm a version.

    Where the package's name is known the first two apply it to no dependency that is built too:
    https://setuptools-scm.readthedocs.io/en/latest/overrides/
    """
    suffix = "_FOR_" + re.sub(r"[-_.]+", "_", name).upper() if name else ""
    return {
        f"SETUPTOOLS_SCM_PRETEND_VERSION{suffix}": version,
        "PBR_VERSION": version,
        "POETRY_DYNAMIC_VERSIONING_BYPASS": version,
        "PDM_BUILD_SCM_VERSION": version,
    }
