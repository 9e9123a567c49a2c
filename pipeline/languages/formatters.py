"""The formatters that a repository configures, and how they come into its environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pipeline.languages.language import Formatter, Language
from pipeline.languages.manifests import Manifests, parse_yaml, strings, tables

HOOKS_FILE: Final = ".pre-commit-config.yaml"
FOLDER: Final = "/opt/env/formatters"
BIN: Final = f"{FOLDER}/bin"
"""Before all others on the path, so that a pinned version is the one that runs."""
_REVISION: Final = re.compile(r"v?(\d{1,4}(?:\.\d{1,4}){1,3}(?:(?:a|b|rc)\d{1,3})?)")
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][\w.\[\]=<>~!,-]{0,100}", re.ASCII)


class Hook(NamedTuple):
    """A hook of pre-commit at a released version."""

    version: str
    more: tuple[str, ...]
    """What is installed with it, as pip takes it."""


def read_hooks(text: str) -> dict[str, Hook]:
    """The hooks of `.pre-commit-config.yaml` by their names; https://pre-commit.com/#plugins"""
    found: dict[str, Hook] = {}
    for repository in tables(parse_yaml(text[: 64 * 1024]).get("repos")):
        pinned = _REVISION.fullmatch(str(repository.get("rev") or ""))
        if pinned is None:
            continue
        for hook in tables(repository.get("hooks")):
            more = filter(_REQUIREMENT.fullmatch, strings(hook.get("additional_dependencies")))
            found.setdefault(str(hook.get("id")), Hook(pinned[1], tuple(more)))
    return found


def list_packages(manifests: Manifests, languages: Iterable[Language]) -> Iterator[str]:
    """The Debian packages of formatters of which the tree has the file."""
    for one in _list_configured(languages):
        if _has_file(one, manifests.names):
            yield from one.packages


def list_tools(manifests: Manifests, languages: Iterable[Language]) -> Iterator[str]:
    """Shell lines that bring the formatters that pre-commit pins, and those that are `brought`.

    Each has an environment of its own; without it, an edit keeps its form.
    """
    hooks = read_hooks(manifests.texts.get(HOOKS_FILE, ""))
    for one in _list_configured(languages):
        hook = hooks.get(one.hook)
        if not one.pip or not (hook or (one.brought and _has_file(one, manifests.names))):
            continue
        wanted = (f"{one.pip}=={hook.version}", *hook.more) if hook else (one.pip,)
        folder, program = f"{FOLDER}/{one.pip}", one.command[0]
        yield (
            f"python -m venv {folder} && {folder}/bin/pip install --quiet "
            f"{shlex.join(wanted)} && mkdir -p {BIN} && "
            f"ln -sf {folder}/bin/{program} {BIN}/ || true"
        )


def _list_configured(languages: Iterable[Language]) -> Iterator[Formatter]:
    for language in languages:
        yield from language.facts.formatters


def _has_file(formatter: Formatter, names: Iterable[str]) -> bool:
    files = [file for file, says in formatter.marks if not says]
    return any(re.fullmatch(file, name) for file in files for name in names if "/" not in name)
