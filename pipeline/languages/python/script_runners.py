"""Recognises test scripts of a repository that take labels (like Django's) or files (SymPy's)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from pipeline.codebase.commit import Codebase
from sandbox.frozen import Frozen

_NAME = re.compile(r"(?:(?:tests?|testing)/)?(?:run_?tests?|test_?runner)\.py")
_LABELS = re.compile(r"""["'](?:modules|labels|test_labels|tests)["']""")
_MANAGE = re.compile(r"(?:[^/]+/)?manage\.py")
_FILES = "bin/test"
_RECIPES = (".travis.yml", "tox.ini", "README.md", "README.rst", "Makefile", "setup.py")


class OwnScript(Frozen):
    """A script that runs the repository's tests, or those that its arguments name."""

    argv: tuple[str, ...]
    """The command: a single process that prints a line for each test."""
    takes: str
    """`labels`: dotted paths below `folder`; `files`: paths."""
    folder: str = ""


async def find_scripts(codebase: Codebase) -> list[OwnScript]:
    """Find the scripts of known kinds by their text, the likeliest first."""
    found: list[OwnScript] = []
    for path in sorted(filter(_NAME.fullmatch, codebase.files)):
        text = await codebase.read_text(path) or ""
        if _runs_labels(text):
            found.append(_labels(path, text))
    for path in sorted(filter(_MANAGE.fullmatch, codebase.files)):
        text = await codebase.read_text(path) or ""
        if "django" in text.lower():
            argv = ("python", path, "test", "--verbosity", "2")
            found.append(OwnScript(argv=argv, takes="labels", folder=_folder(path)))
    if script := await _find_file_script(codebase):
        found.append(script)
    return found


async def recognise_script(codebase: Codebase, argv: Sequence[str]) -> OwnScript | None:
    """The script that a configured command starts by `python SCRIPT`; None for any other
    command."""
    words = tuple(argv)
    if len(words) < 2 or not re.fullmatch(r"python[\d.]*", words[0].rpartition("/")[2]):
        return None
    path = str(PurePosixPath(words[1]))
    if path not in codebase.files:
        return None
    text = await codebase.read_text(path) or ""
    if _NAME.fullmatch(path) and _runs_labels(text):
        return OwnScript(argv=words, takes="labels", folder=_folder(path))
    if _MANAGE.fullmatch(path) and words[2:3] == ("test",):
        return OwnScript(argv=words, takes="labels", folder=_folder(path))
    script = await _find_file_script(codebase)
    return OwnScript(argv=words, takes="files") if script and path == _FILES else None


def _runs_labels(text: str) -> bool:
    return bool(_LABELS.search(text)) and ("django" in text.lower() or "unittest" in text)


def _labels(path: str, text: str) -> OwnScript:
    verbose = ("--verbosity", "2") if "--verbosity" in text else ("-v",) if '"-v"' in text else ()
    # Other processes report results without each test's outcome, or not at all.
    alone = ("--parallel", "1") if "--parallel" in text else ()
    argv = ("python", path, *verbose, *alone)
    return OwnScript(argv=argv, takes="labels", folder=_folder(path))


async def _find_file_script(codebase: Codebase) -> OwnScript | None:
    """Find a `bin/test` like SymPy's; newer ones start pytest, so we start pytest directly."""
    text = await codebase.read_text(_FILES) or "" if _FILES in codebase.files else ""
    head = text.partition("\n")[0]
    if not head.startswith("#!") or "python" not in head or "--verbose" not in text:
        return None
    if "use-sympy-runner" in text or re.search(r"^[ \t]*import pytest", text, re.MULTILINE):
        return None
    told = [await codebase.read_text(n) or "" for n in _RECIPES if n in codebase.files]
    if not any(_FILES in recipe for recipe in told):
        return None
    plain = ("-C",) if '"-C"' in text or "'-C'" in text else ()
    return OwnScript(argv=("python", _FILES, *plain, "--verbose"), takes="files")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def to_label(path: str, folder: str) -> str | None:
    """The dotted path of a test file below `folder`; None if the file is elsewhere."""
    if not path.endswith(".py"):
        return None
    inside = path.removesuffix(".py").removesuffix("/__init__")
    if folder:
        if not inside.startswith(folder + "/"):
            return None
        inside = inside.removeprefix(folder + "/")
    return inside.replace("/", ".")
