"""How a repository is installed: as its maintainers say, or as its files suggest."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandbox.environment.manifests import (
    UNKNOWN_VERSION,
    distribution_name,
    project_of,
    release_version,
)
from sandbox.environment.node import CHOOSE as CHOOSE_NODE
from sandbox.environment.node import INSTALL_TOOL as NPM_TOOL
from sandbox.environment.node import is_node, node_steps
from sandbox.environment.python import PYTEST, TOOLS, is_package, is_python, pdm_files, python_steps
from sandbox.environment.python_version import find_python_requirement
from sandbox.errors import EnvironmentFailed
from sandbox.tree import Tree

DEPENDENCY_FILES = re.compile(
    r"pyproject\.toml|setup\.py|setup\.cfg|PKG-INFO|\.python-version|tox\.(ini|toml)|noxfile\.py"
    r"|(uv|poetry|pdm)\.lock|(tests?/)?[^/]*(requirements|constraints)[^/]*\.(txt|in)"
    r"|requirements/[^/]+\.(txt|in)"
    r"|package(-lock)?\.json|npm-shrinkwrap\.json|pnpm-(lock|workspace)\.yaml|yarn\.lock"
    r"|\.yarnrc(\.yml)?|\.npmrc|\.nvmrc|\.node-version"
)
MAX_FILE_BYTES = 20 * 1024 * 1024
"""Lock files grow large."""
DOCKERFILE_STEPS = ("python -c 'import pytest' 2>/dev/null || pip install pytest",)
"""A Dockerfile has installed what the repository needs; pytest may be missing."""
TOOL_STEPS = (CHOOSE_NODE, NPM_TOOL, f"test -x {TOOLS}/")
"""How lines begin that install a package manager or Node, and nothing of the repository."""


@dataclass(frozen=True)
class Recipe:
    """The steps that install a repository, each a line for a shell inside the build container."""

    steps: tuple[str, ...]
    tools: tuple[str, ...] = ()
    """Earlier lines without access to the repository: interpreter and package managers."""
    version: str = UNKNOWN_VERSION
    """The version for packages that would ask git for it."""
    name: str | None = None
    inputs: str = ""
    """A digest of the files that decide which dependencies are installed."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and texts of files that the steps find in the build's incoming folder."""
    dockerfile: str | None = None
    """The text of the Dockerfile whose image the repository is installed in."""

    @property
    def digest(self) -> str:
        own = (self.files, self.dockerfile)
        text = repr((self.tools, self.steps, self.version, self.name, self.inputs, *own))
        return hashlib.sha256(text.encode()).hexdigest()


def detect_recipe(
    tree: Tree, *, setup: Sequence[str] = (), dockerfile: str = "", python: str = ""
) -> Recipe:
    """How to install `tree`: with the lines of `setup` if there are any, else as its files suggest.

    `dockerfile` is the path of one in `tree`; the steps run in its image. `python` is the version
    that the maintainers want, `3.N`.

    Raises:
        EnvironmentFailed: `tree` holds nothing to install or no such Dockerfile, or its archive
            cannot be read.
    """
    names, texts = read_manifests(tree, dockerfile)
    if not (is_python(names) or is_node(names)):
        raise EnvironmentFailed(
            "There is no Python file in this repository, and no package.json.",
            command="detect",
            log="",
        )
    inputs = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()
    version = release_version(texts.get("PKG-INFO", ""))
    given = tuple(line for line in setup if line.strip())
    if dockerfile:
        text = read_dockerfile(dockerfile, texts)
        steps = given or tuple(dockerfile_steps(names, texts))
        name = distribution_name(texts)
        return Recipe(steps, (), version, name, inputs, dockerfile=text)
    found = tuple(detect_steps(names, texts))
    tools = (
        *interpreter_steps(names, texts, python),
        *(line for line in found if is_tool_step(line)),
    )
    steps = given or tuple(line for line in found if not is_tool_step(line))
    name, files = distribution_name(texts), tuple(pdm_files(names, texts).items())
    return Recipe(steps, tools, version, name, inputs, () if given or is_node(names) else files)


def is_tool_step(line: str) -> bool:
    return line.startswith(TOOL_STEPS)


def interpreter_steps(names: Sequence[str], texts: Mapping[str, str], python: str) -> Iterator[str]:
    """The step that installs the Python that the repository asks for, if it asks for one."""
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


def read_manifests(tree: Tree, extra_path: str = "") -> tuple[list[str], dict[str, str]]:
    """The paths of all files, and the text of those that say something about dependencies."""
    names: list[str] = []
    texts: dict[str, str] = {}
    try:
        with tree.tar.open() as tar, tarfile.open(fileobj=tar, mode="r:*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not member.isdir():
                    names.append(name)
                telling = name == extra_path or DEPENDENCY_FILES.fullmatch(name)
                if member.isreg() and member.size <= MAX_FILE_BYTES and telling:
                    source = archive.extractfile(member)
                    texts[name] = source.read().decode(errors="replace") if source else ""
    except tarfile.TarError as error:
        raise EnvironmentFailed(
            f"The checkout's archive cannot be read: {error}", command="detect", log=""
        ) from error
    return names, texts
