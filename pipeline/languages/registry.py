"""The languages that exist, and which of them a tree or a file has."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import PurePosixPath
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.data.suite_reports import TestOutcome
from pipeline.data.types import Reproduction
from pipeline.languages import printed, test_command
from pipeline.languages.code_scan import CodeScan
from pipeline.languages.conventions import Conventions, is_test
from pipeline.languages.described import Described
from pipeline.languages.language import Facts, Language
from pipeline.languages.node.node import Node
from pipeline.languages.printed import Printed
from pipeline.languages.python.packages import find_packages
from pipeline.languages.python.python import Python
from pipeline.languages.roots import IS_DATA, cut_root, list_projects
from prompts.text import strip_ansi
from sandbox.program import Execution

_PYTHON: Final = Python()
_END: Final = 10_000
"""Characters at the end of an output in which a runner counts its tests."""
_DESCRIBED: Final = tuple(
    Described(f"pipeline.languages.{name}")
    for name in ("go", "rust", "c", "java", "ruby", "php", "csharp")
)
_OTHER: Final = Described("pipeline.languages.other")
_NODE: Final = Node()
LANGUAGES: Final[tuple[Language, ...]] = (_NODE, _PYTHON, *_DESCRIBED, _OTHER)
"""Node comes first: it claims only trees without a manifest of Python."""
NAMES: Final = {
    "python": _PYTHON,
    "javascript": _NODE,
    **dict(zip(("go", "rust", "c", "java", "ruby", "php", "csharp"), _DESCRIBED, strict=True)),
    "other": _OTHER,
}
"""By what maintainers call a language in their settings."""
_UNKNOWN: Final = Language(Facts(name="", suffixes=(), manifests=()))
_MOST_SCANNED: Final = 5000
_LARGEST_SCANNED_BYTES: Final = 2_000_000
_TELLS_NOTHING: Final = re.compile(r"(?i)\W*exit\w*( with)?( code| status)?\W*\d+\W*|.*-help\b.*")
"""A last line that leaves the cause to those above it."""
_OF_SERVICES: Final = re.compile(
    r"\.devcontainer(/[\w.-]+)?/devcontainer\.json|\.devcontainer\.json|\.readthedocs\.ya?ml"
)


def languages_of(codebase: Codebase) -> tuple[Language, ...]:
    """The languages of a codebase, the one that installs it first."""
    return languages_below(codebase.files, codebase.root, codebase.language)


def main_language(codebase: Codebase) -> Language:
    """The language in which the project's tests are run and written."""
    key = f"language of {codebase.root!r}, stated as {codebase.language!r}"
    if key not in codebase.once:
        known = cut_root(codebase.files, codebase.root)
        codebase.once[key] = _choose_main(known, codebase.language)
    return codebase.once[key]


def name_language(codebase: Codebase) -> str:
    """What people call the main language: the name of most of its sources; empty if unknown."""
    facts = main_language(codebase).facts
    found = Counter(
        facts.named.get(PurePosixPath(path).suffix, facts.name)
        for path in cut_root(codebase.files, codebase.root)
        if facts.suffixes and path.endswith(facts.suffixes)
    )
    return max(found, key=lambda one: found[one], default=facts.name if facts.suffixes else "")


def languages_below(paths: Iterable[str], root: str, language: str = "") -> tuple[Language, ...]:
    """The languages of the project in the folder `root` of a tree with these paths, the one that
    installs it first."""
    known = cut_root(paths, root)
    main = _choose_main(known, language)
    if main not in (_NODE, _PYTHON):
        return (main,)
    node = main is _NODE or ("package.json" in known and not _PYTHON.has_manifest(known))
    there = ((_NODE, node), (_PYTHON, _PYTHON.claims(known)))
    return tuple(one for one, is_there in there if is_there)


def _choose_main(known: Sequence[str], stated: str = "") -> Language:
    """The language that the maintainers state; else a manifest of Python at the root decides.
    Where another language has one there, too, a package must come with it: a file of a tool makes
    no project.

    Else it is the language of most source files, among those whose tests the tree says how to run,
    at its root or else in a folder below; without any, the one that knows nothing but the test
    command.
    """
    if stated in NAMES:
        return NAMES[stated]
    top = [path for path in known if "/" not in path]
    others = (*_DESCRIBED, _NODE)
    claiming = [one for one in others if one.claims(top)]
    if _PYTHON.has_manifest(top) and (not claiming or find_packages(known, {})):
        return _PYTHON
    claiming = claiming or [one for one in others if one.claims(known)]
    claiming += [_PYTHON] if _PYTHON.claims(known) else []
    if len(claiming) < 2:
        return next(iter(claiming), _OTHER if known else _PYTHON)
    files = Counter(language_of(path).facts.name for path in known)
    return max(claiming, key=lambda one: files[one.facts.name])


def language_of(path: str) -> Language:
    """The language of a file; one without abilities for any other file."""
    return next((one for one in LANGUAGES if path.endswith(one.facts.suffixes)), _UNKNOWN)


def languages_with_files(paths: Iterable[str]) -> list[Language]:
    """The languages of which a tree with these paths has source files."""
    known = tuple(paths)
    return [one for one in LANGUAGES if any(map(one.is_source, known))]


def read_test_outcome(path: str, run: Execution) -> TestOutcome:
    """The outcome of a run of the test file `path`, or of a script where that is empty."""
    if run.passed:
        return "passes" if not path or language_of(path).shows_pass(run) else "not run"
    return "fails" if language_of(path).shows_failure(run) else "not run"


def passes_after(test: Reproduction) -> bool:
    """Whether the reproduction test passes with the edit, as far as its runner says."""
    return read_test_outcome(test.path, test.after) == "passes"


def find_error(path: str, output: str) -> str:
    """The first error that a run of the test file `path` printed, its own language's words first;
    else the last line that tells something, above a command's usage text. Untrusted."""
    text = strip_ansi(output)
    found = (one.find_error(text) for one in _list_prints_near(path))
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    if not path:
        usage = (at for at, line in enumerate(lines) if line.casefold().startswith("usage"))
        lines = lines[: next(usage, len(lines))] or lines[:1]
    telling = (line for line in reversed(lines) if not _TELLS_NOTHING.fullmatch(line))
    return next(filter(None, (*found, *telling, *lines[::-1])), "")


def find_counts(path: str, output: str) -> str:
    """The counts of results, as in `1 failed, 2 passed`; empty if the output does not say."""
    text = strip_ansi(output)
    return next(filter(None, (one.find_counts(text) for one in _list_prints_near(path))), "")


def shorten_failures(output: str, path: str = "") -> str:
    """The first failure and the summary of a run of tests, such as those of the file `path`,
    without its progress."""
    text = drop_progress(output)
    own = language_of(path).facts.printed
    prints = [own] if own.errors else _find_runners(text) or [_PYTHON.facts.printed]
    return reduce(lambda text, one: one.shorten(text), prints, text)


def _find_runners(output: str) -> list[Printed]:
    """By what a runner says at its end: how many tests passed and failed."""
    end = strip_ansi(output[-_END:])
    return [one.facts.printed for one in LANGUAGES if one.facts.printed.find_counts(end)]


def show_end(output: str) -> str:
    """The summary of a run of tests that passed, else the whole output."""
    text = drop_progress(output)
    return next(filter(None, (one.facts.printed.find_end(text) for one in LANGUAGES)), text)


def drop_progress(output: str) -> str:
    """The output without a runner's preparations, progress, and many lines of passed tests."""
    return printed.drop_progress([one.facts.printed for one in LANGUAGES], output)


def _list_prints_near(path: str) -> list[Printed]:
    own = language_of(path)
    return [one.facts.printed for one in sorted(LANGUAGES, key=lambda one: one is not own)]


def is_runnable(path: str) -> bool:
    """Whether runners expect tests in a file with this name."""
    return language_of(path).is_runnable(path)


def is_source(path: str) -> bool:
    """Whether a file with this name is code of a language that we know."""
    return language_of(path).is_source(path)


async def detect_conventions(codebase: Codebase) -> Conventions:
    """How `codebase` tests itself; without tests, how its language usually does."""
    found = await main_language(codebase).conventions(codebase)
    assert found is not None  # a language with runners has conventions
    return found


async def read_test_files(codebase: Codebase, exclude: Sequence[str] = ()) -> dict[str, str]:
    """Read the files that contain tests, by path, in the order of their names, except those that
    match a glob pattern of `exclude`."""
    return await main_language(codebase).read_test_files(codebase, exclude)


def aim(codebase: Codebase, issue: str, *, root: str = "", language: str = "") -> Codebase:
    """The codebase with the project that is worked on: the one that its maintainers state by `root`
    and `language`; else, where none lies at the root, the one that the text of the `issue` speaks
    of. Takes seconds where there are 300,000 files; the language is known from then on."""
    stated = replace(codebase, root=root, language=language)
    projects, main = find_projects(codebase.files), main_language(stated)
    all_of_it = not main.find_root(codebase.files)
    at_root = all_of_it and any(main.is_manifest(one) for one in codebase.files if "/" not in one)
    if root or at_root or len(projects) < 2:
        return stated
    said = Counter(re.findall(r"\w+", issue[:100_000]))
    spoken = {
        folder: 100 * issue.count(f"{folder}/")
        + 10 * issue.count(folder)
        + said[folder.rpartition("/")[2]]
        + sum(said[name] for name in find_packages(cut_root(codebase.files, folder), {}))
        for folder in projects
    }
    first, second = sorted(spoken, key=lambda folder: -spoken[folder])[:2]
    aimed = replace(stated, root=first) if spoken[first] > spoken[second] else stated
    is_there = main_language(aimed) is main and all_of_it
    return stated if is_there else aimed


def find_projects(paths: Iterable[str], languages: Iterable[Language] = LANGUAGES) -> list[str]:
    """The folders of a tree that have a manifest of their own, in one of `languages`; empty for the
    root."""
    return list_projects(paths, "|".join(f"(?:{one.facts.projects})" for one in languages))


async def list_tests(codebase: Codebase) -> dict[str, tuple[str, ...]]:
    """The test files of the main language, and those in projects of others, with the names of their
    tests where these are read."""
    main, others = main_language(codebase), languages_with_files(codebase.files)
    found = await main.list_tests(codebase)
    for other in others:
        own = list_projects(codebase.files, other.facts.projects) if other is not main else []
        listed = await other.list_tests(codebase) if own else {}
        found |= {
            path: names
            for path, names in listed.items()
            if any(path.startswith(f"{folder}/".lstrip("/")) for folder in own)
        }
    return {path: names for path, names in found.items() if not IS_DATA.search(path)}


async def make_suite_fail(codebase: Codebase, nonce: str) -> dict[str, bytes]:
    """The repository's test files by path, each with every test in it made to fail; only those of
    languages that can (`Language.make_fail`)."""
    paths = [
        path
        for path, file in sorted(codebase.files.items())
        if file.regular and language_of(path).facts.tests.failing
        if is_test(path) or is_runnable(path)
    ]
    texts = await codebase.read_texts(paths[:_MOST_SCANNED], largest=_LARGEST_SCANNED_BYTES)

    def make() -> dict[str, bytes]:
        made = ((path, language_of(path).make_fail(text, nonce)) for path, text in texts.items())
        return {path: text.encode() for path, text in made if text}

    return await asyncio.to_thread(make)


async def scan_codebase(codebase: Codebase) -> CodeScan:
    """Scan the source files of the main language for imports and functions."""
    language = main_language(codebase)
    files = codebase.files
    paths = await codebase.find_paths(lambda p: files[p].regular and language.is_source(p))
    texts = await codebase.read_texts(paths[:_MOST_SCANNED], largest=_LARGEST_SCANNED_BYTES)
    return await language.scan_code(texts)


def find_runner(words: Sequence[str]) -> int | None:
    """The position where a command starts a known test runner."""
    return test_command.find_runner(words, (r for one in LANGUAGES for r in one.facts.runners))


def is_manifest(path: str, root: str, languages: Iterable[Language] = LANGUAGES) -> bool:
    """Whether a file at this path decides what is installed for one of `languages`, in a project
    that lies in the folder `root`."""
    inside = path.removeprefix(f"{root}/")
    return bool(_OF_SERVICES.fullmatch(path)) or any(
        one.is_manifest(path) or one.is_manifest(inside) for one in languages
    )
