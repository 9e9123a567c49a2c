"""The formatters that a repository configures, and how they come into its environment."""

import contextlib
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
_RUN_HERE: Final = ("system", "script", "unsupported", "unsupported_script")
_FORMATS: Final = re.compile(
    r"fmt|format|fix|black|isort|ruff|yapf|prettier|eslint|goimports|rubocop|tidy", re.IGNORECASE
)
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


def list_local_hooks(
    text: str, paths: Iterable[str], languages: Iterable[Language]
) -> list[tuple[Formatter, list[str]]]:
    """The repository's own hooks that format, each with its files among `paths`: those that run by
    what the environment has, with names of files. They are untrusted, as is the repository."""
    found: list[tuple[Formatter, list[str]]] = []
    changed, known = list(paths), {one.facts.name.lower(): one for one in languages}
    for repository in tables(parse_yaml(text[: 64 * 1024]).get("repos")):
        hooks = tables(repository.get("hooks")) if repository.get("repo") == "local" else ()
        for hook in hooks:
            with contextlib.suppress(ValueError):
                words = (*shlex.split(str(hook.get("entry") or "")), *strings(hook.get("args")))
                types = {*strings(hook.get("types")), *strings(hook.get("types_or"))} - {"text"}
                takes = [known[one] for one in types if one in known]
                fit = [p for p in changed if not types or any(one.is_source(p) for one in takes)]
                by_files = (
                    hook.get("language") in _RUN_HERE and hook.get("pass_filenames") != "false"
                )
                if words and fit and by_files and _FORMATS.search(f"{hook.get('id')} {words[0]}"):
                    only = str(hook.get("files") or "")
                    found.append((Formatter(command=words, marks=(), only=only), fit))
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
