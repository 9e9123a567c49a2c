"""The languages of a tree, and the attempts that install it, the most promising first."""

import asyncio
import hashlib
import tarfile
from dataclasses import replace

from pipeline.languages.formatters import HOOKS_FILE, list_packages, list_tools
from pipeline.languages.language import Asked, Identity
from pipeline.languages.manifests import CI_FILE, Manifests
from pipeline.languages.registry import (
    LANGUAGES,
    NAMES,
    is_manifest,
    languages_below,
    languages_with_files,
)
from sandbox.engine import EnvironmentRequest
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.errors import EnvironmentFailed
from sandbox.program import with_variables
from sandbox.tree import Tree

MAX_FILE_BYTES = 8 * 1024 * 1024
"""The largest file that is read: lock files grow large."""
MAX_CI_BYTES = 64 * 1024
MAX_ALL_BYTES = 32 * 1024 * 1024
"""Of all files that are read: equal files are one object in git, so some KB of it name many."""
MAX_ALL_CI_BYTES = 1024 * 1024
"""Of all CI files: YAML takes some ten seconds to parse for these."""


async def plan_attempts(request: EnvironmentRequest) -> tuple[Attempt, ...]:
    """The ways to install the request's tree, the most promising first; at least one.

    Where the maintainers say how (`setup`, `dockerfile`), that is the only one.

    Raises:
        EnvironmentFailed: nothing in the tree can be installed, it has no such Dockerfile, or its
            archive cannot be read.
    """
    return await asyncio.to_thread(make_plan, request)


def make_plan(request: EnvironmentRequest) -> tuple[Attempt, ...]:
    """`plan_attempts`, in this thread."""
    manifests = read_manifests(request.tree, request.dockerfile, request.root, request.language)
    there = languages_with_files(manifests.names)
    tools = () if request.dockerfile else tuple(list_tools(manifests, there))

    known = languages_below(manifests.names, manifests.root, manifests.language)
    is_python = any(one is NAMES["python"] for one in known[:1])

    def complete(attempt: Attempt) -> Attempt:
        recipe = attempt.recipe
        steps = with_variables(recipe.steps, request.env)
        # Python's installer is told the version; its build backends list the files that git knows.
        tag = None if is_python else request.described.rpartition("-")[0].rpartition("-")[0]
        recipe = replace(recipe, tools=(*recipe.tools, *tools), steps=steps, tag=tag)
        return replace(attempt, recipe=recipe)

    return tuple(map(complete, _list_ways(manifests, request)))


def _list_ways(manifests: Manifests, request: EnvironmentRequest) -> tuple[Attempt, ...]:
    """The ways, without what every one of them gets."""
    recipe = make_recipe(manifests, request)
    if request.dockerfile:
        return (Attempt("dockerfile", "The repository's own Dockerfile.", recipe, only=True),)
    if any(line.strip() for line in request.setup):
        return (Attempt("setup", "The repository's own setup lines.", recipe, only=True),)
    published = [Attempt("image", f"{request.image}.", _adopt(request.image))] * bool(request.image)
    languages = languages_below(manifests.names, manifests.root, manifests.language)
    asked = Asked(request.python, request.as_of, request.described)
    ways = (tuple(language.attempts(manifests, asked, recipe)) for language in languages)
    plain = Attempt("today", "Nothing is installed: I know no way for this repository.", recipe)
    first, *others = next(filter(None, ways), (plain,))
    locks = {lock for language in languages for lock in language.facts.locks}
    if unread := next((name for name in manifests.too_large if name in locks), ""):
        most, most_together = MAX_FILE_BYTES >> 20, MAX_ALL_BYTES >> 20
        limit = f"{most} MB per file, {most_together} MB for all manifests together"
        first = replace(
            first, summary=f"{first.summary} {unread} is too large to be read ({limit})."
        )
    return (*published, first, *others)


def _adopt(image: str) -> Recipe:
    """What `image` has installed and built; the base of ours clears /testbed, where it lies."""
    dockerfile = (
        f"FROM {image}\nRUN mv /testbed /opt/published\n"
        "ENV PATH=/opt/miniconda3/envs/testbed/bin:$PATH\n"
    )
    # What it built in place is not in the tree; what is in the tree stays as it is.
    kept = "tar -C /opt/published --exclude=./.git -c . | tar -x --skip-old-files"
    return Recipe((kept,), dockerfile=dockerfile)


def make_recipe(manifests: Manifests, request: EnvironmentRequest) -> Recipe:
    """How to install the request's tree: with the lines of its `setup` if there are any, else as
    the files suggest; then it is built.

    Raises:
        EnvironmentFailed: the tree has no such Dockerfile as the request names.
    """
    asked = Asked(request.python, request.as_of, request.described)
    dockerfile = request.dockerfile
    languages = languages_below(manifests.names, manifests.root, manifests.language)
    identities = (one.identify(manifests, asked.described) for one in languages)
    identity = next(filter(any, identities), Identity())
    tools: list[str] = []
    steps: list[str] = []
    packages: list[str] = []
    if dockerfile:
        for language in languages:
            steps += language.steps_in_dockerfile(manifests)
    else:
        for language in languages:
            more_tools, more = language.steps(manifests, asked)
            tools += more_tools
            steps += more
            packages += language.system_packages(manifests)
        packages += list_packages(manifests, languages_with_files(manifests.names))
    given = [line for line in request.setup if line.strip()]
    build = request.build or [line for one in languages for line in one.build_lines(manifests)]
    return Recipe(
        (*(given or steps), *build),
        tuple(tools),
        identity.version,
        identity.version_source,
        identity.name,
        manifests.inputs,
        system_packages=tuple(packages),
        dockerfile=_read_dockerfile(dockerfile, manifests) if dockerfile else None,
    )


def _read_dockerfile(path: str, manifests: Manifests) -> str:
    if path not in manifests.texts:
        raise EnvironmentFailed(
            f'There is no file "{path}" in this repository, which its configuration names as '
            "`dockerfile`.",
            command=f"read {path}",
            log="",
        )
    return manifests.texts[path]


def read_manifests(
    tree: Tree, extra_path: str = "", root: str = "", language: str = ""
) -> Manifests:
    """Read the relevant files of a tree whose project lies in the folder `root`, and the one at
    `extra_path`.

    Raises:
        EnvironmentFailed: the tree has no such folder, or its archive cannot be read.
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
                most = _limit_bytes(name, extra_path, root)
                if not (most and member.isreg() and (len(texts) < 400 or "/" not in name)):
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
    if root and not any(name.startswith(f"{root}/") for name in names):
        raise EnvironmentFailed(
            f'There is no folder "{root}" in this repository, which its configuration names as '
            "`root`.",
            command=f"cd {root}",
            log="",
        )
    languages = languages_below(names, root, language)
    # Not those of other languages, nor what states the package's version alone.
    telling = sorted(
        item
        for item in texts.items()
        if is_manifest(item[0], root, languages)
        or not (is_manifest(item[0], root) or _may_state_version(item[0]))
    )
    inputs = hashlib.sha256(repr(telling).encode()).hexdigest()
    return Manifests(tuple(names), texts, tuple(too_large), root, language, inputs)


def _may_state_version(path: str) -> bool:
    return any(language.may_state_version(path) for language in LANGUAGES)


def _limit_bytes(path: str, extra_path: str, root: str) -> int:
    """The largest size at which a file is read; 0 for an irrelevant file."""
    if path == extra_path or is_manifest(path, root):
        return MAX_FILE_BYTES
    if CI_FILE.fullmatch(path) or path == HOOKS_FILE:
        return MAX_CI_BYTES
    return 256 * 1024 if _may_state_version(path) else 0
