"""The recipe that installs a repository: from its maintainers' settings, or from its files."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandbox.environment.manifests import distribution_name, is_package, project_of
from sandbox.environment.node import CHOOSE as CHOOSE_NODE
from sandbox.environment.node import INSTALL_TOOL as NPM_TOOL
from sandbox.environment.node import is_node, node_steps
from sandbox.environment.python import PYTEST, is_python, python_steps
from sandbox.environment.python_version import CI_FILE, find_python_requirement
from sandbox.environment.versions import CHANGELOGS, VERSION_FILES, find_version
from sandbox.errors import EnvironmentFailed
from sandbox.tree import Tree

DEPENDENCY_FILES = re.compile(
    r"pyproject\.toml|setup\.py|setup\.cfg|PKG-INFO|\.python-version|tox\.(ini|toml)|noxfile\.py"
    r"|hatch\.toml|(uv|poetry|pdm)\.lock|(tests?/)?[^/]*(requirements|constraints)[^/]*\.(txt|in)"
    r"|requirements/[^/]+\.(txt|in)|tests?/requirements/[^/]+\.txt"
    r"|(ci/)?(requirements/|requirements-)?(py3\d+|environment|test|environment-dev)\.ya?ml"
    r"|package(-lock)?\.json|npm-shrinkwrap\.json|pnpm-(lock|workspace)\.yaml|yarn\.lock"
    r"|\.yarnrc(\.yml)?|\.npmrc|\.nvmrc|\.node-version"
    r"|\.devcontainer(/[\w.-]+)?/devcontainer\.json|\.devcontainer\.json|\.readthedocs\.ya?ml"
)
VERSION_TEXTS = re.compile(f"{VERSION_FILES.pattern}|{CHANGELOGS.pattern}|PKG-INFO")
MAX_FILE_BYTES = 8 * 1024 * 1024
"""The largest file that is read: lock files grow large."""
MAX_TEXT_BYTES = 256 * 1024
"""The largest file that only states a version."""
MAX_CI_BYTES = 64 * 1024
MAX_TEXTS = 400
MAX_ALL_BYTES = 32 * 1024 * 1024
"""Of all files that are read: equal files are one object in git, so some KB of it name many."""
MAX_ALL_CI_BYTES = 1024 * 1024
"""Of all CI files: YAML takes some ten seconds to parse for these."""
DOCKERFILE_STEPS = ("python -c 'import pytest' 2>/dev/null || pip install pytest",)
"""The steps after a Dockerfile, which installs the requirements except perhaps pytest."""
TOOL_STEPS = (CHOOSE_NODE, NPM_TOOL)
"""The beginnings of lines that install only a package manager or Node."""


@dataclass(frozen=True)
class Manifests:
    """The contents of a tree's files, without running any of them."""

    names: tuple[str, ...]
    """The paths of all files."""
    texts: Mapping[str, str]
    """The texts of files about dependencies, versions or CI."""
    too_large: tuple[str, ...] = ()
    """Files that are too large to read."""

    @property
    def inputs(self) -> str:
        """A digest of the files that decide which dependencies are installed."""
        telling = sorted(item for item in self.texts.items() if not is_version_only(item[0]))
        return hashlib.sha256(repr(telling).encode()).hexdigest()


@dataclass(frozen=True)
class Recipe:
    """The steps that install a repository, each a line for a shell inside the build container."""

    steps: tuple[str, ...]
    tools: tuple[str, ...] = ()
    """Earlier lines without access to the repository: interpreter and package managers."""
    version: str = ""
    """The version for packages that would ask git for it; empty if the index must provide it."""
    version_source: str = ""
    name: str | None = None
    inputs: str = ""
    """A digest of the files that decide which dependencies are installed."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and texts of files that the steps find in the build's incoming folder."""
    dockerfile: str | None = None
    """The text of the Dockerfile in whose image the repository is installed."""
    system_packages: tuple[str, ...] = ()
    """Debian packages installed first, without access to the repository."""

    @property
    def digest(self) -> str:
        """A digest that changes with everything that decides dependencies, but not the package's
        version."""
        own = (self.files, self.dockerfile, self.system_packages)
        text = repr((self.tools, self.steps, self.name, self.inputs, *own))
        return hashlib.sha256(text.encode()).hexdigest()


def is_version_only(path: str) -> bool:
    return bool(VERSION_TEXTS.fullmatch(path)) and not DEPENDENCY_FILES.fullmatch(path)


def detect_recipe(
    manifests: Manifests,
    *,
    setup: Sequence[str] = (),
    dockerfile: str = "",
    python: str = "",
    described: str = "",
) -> Recipe:
    """How to install a tree: with the lines of `setup` if there are any, else as its files suggest.

    `dockerfile` is the path of one in the tree; the steps run in its image. `python` is the version
    that the maintainers want, `3.N`; `described` what `git describe` says.

    Raises:
        EnvironmentFailed: the tree has no such Dockerfile.
    """
    names, texts = manifests.names, manifests.texts
    inputs = manifests.inputs
    name = distribution_name(texts)
    version, source = find_version(name, texts, described)
    given = tuple(line for line in setup if line.strip())
    if dockerfile:
        text = read_dockerfile(dockerfile, texts)
        steps = given or tuple(dockerfile_steps(names, texts))
        return Recipe(steps, (), version, source, name, inputs, dockerfile=text)
    found = tuple(detect_steps(names, texts))
    tools = (
        *interpreter_steps(names, texts, python),
        *(line for line in found if is_tool_step(line)),
    )
    steps = given or tuple(line for line in found if not is_tool_step(line))
    return Recipe(steps, tools, version, source, name, inputs)


def is_tool_step(line: str) -> bool:
    return line.startswith(TOOL_STEPS)


def interpreter_steps(names: Sequence[str], texts: Mapping[str, str], python: str) -> Iterator[str]:
    """The step that installs the requested Python, if the repository requests one."""
    requirement = find_python_requirement(texts, configured=python) if is_python(names) else None
    if requirement:
        yield requirement.to_step()


def detect_steps(names: Sequence[str], texts: Mapping[str, str]) -> Iterator[str]:
    if not is_node(names):
        yield from python_steps(names, texts)
        return
    yield from node_steps(names, texts)
    if is_python(names):
        yield PYTEST


def dockerfile_steps(names: Sequence[str], texts: Mapping[str, str]) -> Iterator[str]:
    """Install the checkout itself: the Dockerfile cannot know its path."""
    if is_package(project_of(texts), names):
        yield "pip install --no-deps --editable ."
    if is_python(names):
        yield from DOCKERFILE_STEPS


def read_dockerfile(path: str, texts: Mapping[str, str]) -> str:
    if path not in texts:
        raise EnvironmentFailed(
            f'There is no file "{path}" in this repository, which its configuration names as '
            "`dockerfile`.",
            command=f"read {path}",
            log="",
        )
    return texts[path]


def read_manifests(tree: Tree, extra_path: str = "") -> Manifests:
    """Read the relevant files of a tree, and the one at `extra_path`.

    Raises:
        EnvironmentFailed: the tree contains nothing to install, or its archive cannot be read.
    """
    names: list[str] = []
    texts: dict[str, str] = {}
    too_large: list[str] = []
    left, left_for_ci = MAX_ALL_BYTES, MAX_ALL_CI_BYTES
    try:
        with tree.tar.open() as tar, tarfile.open(fileobj=tar, mode="r:*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not member.isdir():
                    names.append(name)
                most = most_bytes(name, extra_path)
                if not (most and member.isreg() and len(texts) < MAX_TEXTS):
                    continue
                is_ci = most == MAX_CI_BYTES
                if member.size > min(most, left, left_for_ci if is_ci else left):
                    too_large.append(name)
                    continue
                left -= member.size
                left_for_ci -= member.size if is_ci else 0
                source = archive.extractfile(member)
                texts[name] = source.read().decode(errors="replace") if source else ""
    except tarfile.TarError as error:
        raise EnvironmentFailed(
            f"The checkout's archive cannot be read: {error}", command="detect", log=""
        ) from error
    if not (is_python(names) or is_node(names)):
        raise EnvironmentFailed(
            "There is no Python file in this repository, and no package.json.",
            command="detect",
            log="",
        )
    return Manifests(tuple(names), texts, tuple(too_large))


def most_bytes(name: str, extra_path: str) -> int:
    """The largest size at which a file is read; 0 for an irrelevant file."""
    if name == extra_path or DEPENDENCY_FILES.fullmatch(name):
        return MAX_FILE_BYTES
    if CI_FILE.fullmatch(name):
        return MAX_CI_BYTES
    return MAX_TEXT_BYTES if VERSION_TEXTS.fullmatch(name) else 0
