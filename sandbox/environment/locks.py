"""Reads lock files into requirements with hashes, which any index can serve."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandbox.environment.manifests import is_package, parse_toml, project_of, strings, table, tables
from sandbox.environment.poetry_lock import poetry_requirements
from sandbox.environment.python import best_test_name, extra_names, group_names
from sandbox.environment.recipe import Manifests

LOCKS: Final = ("uv.lock", "poetry.lock", "pdm.lock")
"""In order of precedence."""
REQUIREMENTS_FILE: Final = "locked.txt"
HASH: Final = re.compile(r"sha(256|384|512):[0-9a-f]+")
SAFE: Final = re.compile(r"[^\r\n]*")


@dataclass(frozen=True)
class Lock:
    """The contents of one lock file."""

    path: str
    requirements: str = ""
    """A complete requirement file."""
    uv_export: tuple[str, ...] = ()
    """Arguments of `uv export`, for uv.lock."""
    package: bool = True
    """Whether the package itself is installed too."""


def read_lock(manifests: Manifests, minor: int) -> Lock | None:
    """The tree's first lock file, with the group and the extra for tests, for Python 3.`minor`.

    None if there is no lock file, or only one that is too large to read.
    """
    texts, project = manifests.texts, project_of(manifests.texts)
    path = next((name for name in LOCKS if name in texts), "")
    if not path or not project:
        return None
    extra = best_test_name(extra_names(project, texts))
    group = best_test_name(group_names(project))
    package = is_package(project, manifests.names)
    if path == "uv.lock":
        chosen = [*(("--extra", extra) if extra else ()), *(("--group", group) if group else ())]
        package = package and table(project, "tool", "uv").get("package") is not False
        return Lock(path, uv_export=("--no-annotate", *chosen), package=package)
    lock = parse_toml(texts[path])
    groups, extras = [group] if group else [], [extra] if extra else []
    if path == "poetry.lock":
        found = poetry_requirements(lock, project, groups=groups, extras=extras, minor=minor)
        package = package and is_package_mode(project)
    else:
        found = pdm_requirements(lock, {"default", "dev", *groups, *extras})
        package = package and bool(table(project, "tool", "pdm").get("distribution", True))
    lines = [
        " ".join([requirement, *(f"--hash={value}" for value in hashes)])
        for requirement, hashes in found
        if SAFE.fullmatch(requirement)
    ]
    return Lock(path, "".join(f"{line}\n" for line in lines), package=package) if lines else None


def pdm_requirements(
    lock: Mapping[str, Any], groups: set[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The requirements that pdm locked for `groups`, each with the permitted hashes of its files.

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


def is_package_mode(project: Mapping[str, Any]) -> bool:
    """False if poetry is configured to install dependencies only."""
    return table(project, "tool", "poetry").get("package-mode") is not False
