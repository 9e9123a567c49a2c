"""The languages that exist, and which of them a tree or a file has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.languages import test_command
from pipeline.languages.code_scan import CodeScan
from pipeline.languages.conventions import Conventions
from pipeline.languages.language import Facts, Language
from pipeline.languages.node.node import Node
from pipeline.languages.python.python import Python

LANGUAGES: Final[tuple[Language, ...]] = (Node(), Python())
"""Node comes first: it claims only trees without a manifest of Python."""
_DEFAULT: Final = LANGUAGES[-1]
_UNKNOWN: Final = Language(Facts(name="", sign="", suffixes=(), manifests=()))
_MOST_SCANNED: Final = 5000
_LARGEST_SCANNED_BYTES: Final = 2_000_000
_MANIFESTS: Final = re.compile(
    "|".join(chain(*(one.facts.manifests for one in LANGUAGES)))
    + r"|\.devcontainer(/[\w.-]+)?/devcontainer\.json|\.devcontainer\.json|\.readthedocs\.ya?ml"
)


def languages_of(paths: Iterable[str]) -> tuple[Language, ...]:
    """The languages of a tree with these paths, the one that installs it first."""
    known = tuple(paths)
    return tuple(language for language in LANGUAGES if language.claims(known))


def main_language(paths: Iterable[str]) -> Language:
    """The language in which the repository's tests are run and written."""
    return next((one for one in languages_of(paths) if one.facts.runners), _DEFAULT)


def language_of(path: str) -> Language:
    """The language of a file; one without abilities for any other file."""
    return next((one for one in LANGUAGES if path.endswith(one.facts.suffixes)), _UNKNOWN)


def is_runnable(path: str) -> bool:
    """Whether runners expect tests in a file with this name."""
    return language_of(path).is_runnable(path)


async def detect_conventions(codebase: Codebase) -> Conventions:
    """How `codebase` tests itself; without tests, how its language usually does."""
    found = await main_language(codebase.files).conventions(codebase)
    assert found is not None  # a language with runners has conventions
    return found


async def read_test_files(codebase: Codebase, exclude: Sequence[str] = ()) -> dict[str, str]:
    """Read the files that contain tests, by path, in the order of their names, except those that
    match a glob pattern of `exclude`."""
    return await main_language(codebase.files).read_test_files(codebase, exclude)


async def scan_codebase(codebase: Codebase) -> CodeScan:
    """Scan the source files of the main language for imports and functions."""
    language = main_language(codebase.files)
    suffix = language.facts.suffixes[0]
    paths = sorted(p for p, file in codebase.files.items() if file.regular and p.endswith(suffix))
    texts = await codebase.read_texts(paths[:_MOST_SCANNED], largest=_LARGEST_SCANNED_BYTES)
    return await language.scan_code(texts)


def find_runner(words: Sequence[str]) -> int | None:
    """The position where a command starts a known test runner."""
    return test_command.find_runner(words, (r for one in LANGUAGES for r in one.facts.runners))


def is_manifest(path: str) -> bool:
    """Whether a file at this path decides what is installed."""
    return bool(_MANIFESTS.fullmatch(path))
