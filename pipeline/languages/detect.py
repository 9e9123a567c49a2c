"""The languages of a tree, and the attempts that install it, the most promising first."""

from __future__ import annotations

import asyncio
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Final

from pipeline.languages.manifests import (
    DEPENDENCY_FILES,
    VERSION_TEXTS,
    Manifests,
    distribution_name,
    find_version,
    is_package,
    project_of,
)
from pipeline.languages.node.install import CHOOSE as CHOOSE_NODE
from pipeline.languages.node.install import INSTALL_TOOL as NPM_TOOL
from pipeline.languages.node.install import is_node, node_steps
from pipeline.languages.python.install import AttemptMaker
from pipeline.languages.python.interpreter import CI_FILE, find_python_requirement
from pipeline.languages.python.locks import LOCKS
from pipeline.languages.python.requirements import PYTEST, is_python, python_steps
from sandbox.engine import EnvironmentRequest
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.errors import EnvironmentFailed
from sandbox.tree import Tree

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


MOST_ATTEMPTS: Final = 5
NAMES: Final = re.compile(r'"attempt": "\w+"')


def make_plan(
    tree: Tree,
    *,
    setup: Sequence[str] = (),
    dockerfile: str = "",
    python: str = "",
    as_of: date | None = None,
    described: str = "",
) -> tuple[Attempt, ...]:
    """Plan the attempts for `tree`: only the lines of `setup` or the image of `dockerfile` if the
    maintainers set one of them; otherwise the attempts that its files suggest.

    `python` is the version that the maintainers want, `3.N`; `as_of` and `described` come from git.

    Raises:
        EnvironmentFailed: `tree` contains nothing to install or no such Dockerfile, or its archive
            cannot be read.
    """
    manifests = read_manifests(tree, dockerfile)
    recipe = detect_recipe(
        manifests, setup=setup, dockerfile=dockerfile, python=python, described=described
    )
    if dockerfile:
        return (Attempt("dockerfile", "The repository's own Dockerfile.", recipe, only=True),)
    if any(line.strip() for line in setup):
        return (Attempt("setup", "The repository's own setup lines.", recipe, only=True),)
    if is_node(manifests.names):
        return (Attempt("today", "What package.json and its lock file say.", recipe),)
    maker = AttemptMaker(manifests, python, as_of, described)
    recipe = replace(recipe, system_packages=maker.packages)
    last = Attempt("today", "The newest packages, each by itself with pip.", recipe)
    different: dict[str, Attempt] = {}
    for attempt in (*maker.make_attempts(), last):
        different.setdefault(key_of(attempt.recipe), attempt)
    found = list(different.values())[:MOST_ATTEMPTS]
    unread = [name for name in manifests.too_large if name in LOCKS]
    if unread:
        most, most_together = MAX_FILE_BYTES >> 20, MAX_ALL_BYTES >> 20
        limit = f"{most} MB for a file, {most_together} MB for all that say what to install"
        note = f" {unread[0]} is too large to be read ({limit})."
        found[0] = replace(found[0], summary=found[0].summary + note)
    return tuple(found)


def key_of(recipe: Recipe) -> str:
    """A key that is equal for recipes with the same installation, under any attempt name."""
    files = [(name, NAMES.sub("", text)) for name, text in recipe.files]
    return repr((recipe.steps, recipe.tools, recipe.system_packages, files))


async def plan_attempts(request: EnvironmentRequest) -> tuple[Attempt, ...]:
    """The ways to install the request's tree, the most promising first; at least one.

    Where the maintainers say how (`setup`, `dockerfile`), that is the only one.

    Raises:
        EnvironmentFailed: nothing in the tree can be installed.
    """
    return await asyncio.to_thread(
        make_plan,
        request.tree,
        setup=request.setup,
        dockerfile=request.dockerfile,
        python=request.python,
        as_of=request.as_of,
        described=request.described,
    )
