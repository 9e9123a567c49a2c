"""What common code asks of a language.

A language is a folder: `language.toml` (its `Facts`), and a subclass of `Language` that overrides
what data cannot say. What a language leaves out, common code does without: Node, for example, only
knows how to install a repository so far.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources
from typing import Literal, NamedTuple

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import FileDiff
from pipeline.data.types import TestScript
from pipeline.languages.code_scan import CodeScan
from pipeline.languages.conventions import Conventions
from pipeline.languages.manifests import Manifests
from pipeline.languages.test_command import Runner, TestCommand
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.frozen import Frozen
from sandbox.program import Program


class Facts(Frozen):
    """`language.toml`: what is data about a language."""

    name: str
    sign: str
    """What shows that a tree has code of the language, to follow "this repository has no"."""
    suffixes: tuple[str, ...]
    """Endings of source files; the first is that of files whose imports are read."""
    manifests: tuple[str, ...]
    """Patterns of the paths of files that decide what is installed."""
    locks: tuple[str, ...] = ()
    """Lock files at the root that `Language.attempts` reads, in order of precedence."""
    runners: tuple[Runner, ...] = ()
    """Empty: its tests cannot be run yet."""
    too_old: str = ""
    """Which versions of the language cannot be had, as a sentence."""


@dataclass(frozen=True)
class Asked:
    """What the maintainers and git say about an installation."""

    version: str = ""
    """The language's version that the maintainers want; empty: as the files say."""
    as_of: date | None = None
    described: str = ""
    """The output of `git describe --tags --long`."""


class Identity(NamedTuple):
    """What the files call the package; empty values where they state none."""

    name: str | None = None
    version: str = ""
    version_source: str = ""


class Collected(NamedTuple):
    """The tests that a command runs by itself."""

    tests: int | None = None
    """None if the runner does not report the number in time."""
    files: frozenset[str] = frozenset()


class Language:
    """A language without abilities. Subclasses know no model, no sandbox session, and no other
    language."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    # Installation

    def claims(self, paths: Iterable[str]) -> bool:
        """Whether a tree with these paths has code of the language."""
        return any(path.endswith(self.facts.suffixes) for path in paths)

    def may_state_version(self, path: str) -> bool:
        """Whether a file at this path may state the package's version."""
        return False

    def identify(self, manifests: Manifests, described: str) -> Identity:
        """Find the package's name and version; `described` is `Asked.described`."""
        return Identity()

    def attempts(self, manifests: Manifests, asked: Asked, plain: Recipe) -> Sequence[Attempt]:
        """The ways to install the tree, the most promising first; the last resort is the recipe
        `plain`, made of the `steps` of the tree's languages."""
        return ()

    def steps(
        self, manifests: Manifests, asked: Asked, *, alone: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Shell lines that install the tree in the plainest way: those for the toolchain, which
        need no repository, and those for the tree itself. `alone`: no other language installs
        it."""
        return (), ()

    def steps_in_dockerfile(self, manifests: Manifests) -> Sequence[str]:
        """Shell lines that complete the image of the repository's own Dockerfile."""
        return ()

    async def distribution(self, codebase: Codebase) -> str:
        """The name under which the package is published; empty if it is unknown."""
        return ""

    async def reads_version_from_git(self, codebase: Codebase) -> bool:
        """Whether an installation needs git's tags."""
        return False

    def refuse_version(self, version: str) -> str:
        """Why no environment can have this version, as a sentence; empty if one may."""
        return ""

    # Health of an environment

    async def variables(self, codebase: Codebase) -> Mapping[str, str]:
        """The environment variables that the repository itself sets for its tests."""
        return {}

    async def packages(self, codebase: Codebase) -> tuple[str, ...]:
        """What the repository provides, by import name."""
        return ()

    def load_program(self, packages: Sequence[str], mark: str) -> Program | None:
        """A program that loads `packages` one by one, and prints its report after `mark`."""
        return None

    def collect_program(self, command: TestCommand) -> Program | None:
        """A program that lists the tests of `command`; None if its runner cannot."""
        return None

    def read_collection(self, output: str, paths: Iterable[str]) -> Collected:
        """Read the output of `collect_program`; `paths` are the files of the tree."""
        return Collected()

    # The repository's tests

    def is_runnable(self, path: str) -> bool:
        """Whether runners expect tests in a file with this name."""
        return False

    async def conventions(self, codebase: Codebase) -> Conventions | None:
        """How the repository tests itself."""
        return None

    async def read_test_files(
        self, codebase: Codebase, exclude: Sequence[str] = ()
    ) -> dict[str, str]:
        """Read the files that contain tests, by path, except those that match a glob of
        `exclude`."""
        return {}

    async def find_commands(
        self, codebase: Codebase, configured: Sequence[str] = ()
    ) -> Sequence[TestCommand]:
        """Only the configured command if there is one; otherwise possible ones, the likeliest
        first."""
        return ()

    async def scan_code(self, texts: Mapping[str, str]) -> CodeScan:
        """Scan source files, by path, for imports and functions."""
        return CodeScan()

    def find_added_tests(self, diff: str, path: str, text: str) -> tuple[str, ...]:
        """The names of the tests that `diff` adds to `path`, whose new content is `text`."""
        return ()

    # Tests as source

    def build_test_script(
        self, files: Mapping[str, bytes], conventions: Conventions
    ) -> tuple[TestScript | None, str]:
        """Build a script that runs the tests in `files`, or say why not; None and "" without
        tests."""
        return None, ""

    def to_test_script(
        self, name: str, text: str, conventions: Conventions, taken: Collection[str]
    ) -> TestScript:
        """Return a script unchanged; turn a test file into a script that runs it."""
        return TestScript(text=text)

    async def build_failing_script(self, text: str, nonce: str) -> str:
        """A script of `build_test_script` with every test in it made to fail; empty if `text` is no
        such script."""
        return ""

    async def make_tests_fail(self, path: str, text: str, nonce: str) -> bytes:
        """The test file `path` with every test in it made to fail under its own name; empty if that
        cannot be done."""
        return b""

    def write_control(self, kind: str, beside: str, nonce: str) -> tuple[str, bytes] | None:
        """The path and content of tests named after `nonce` that must fail, for a command of
        `kind`, in a new file in the folder of `beside`; None if such a command takes none."""
        return None

    def wrap_script(
        self, script: TestScript, style: Literal["pytest", "unittest"], words: str
    ) -> str:
        """The text of a test file that runs `script`; `words` (untrusted) name its one test."""
        return script.text

    # Edits

    async def find_syntax_errors(self, files: Mapping[str, bytes]) -> dict[str, str]:
        """Find the files that do not parse, by path, each with what is wrong with it."""
        return {}

    def spoil(self, diff: str) -> tuple[str, ...]:
        """A few versions of a diff, each with one thing wrong."""
        return ()

    def find_suspicious(self, file: FileDiff) -> Iterator[str]:
        """How a change could steer or forge the tests: sentences without a subject."""
        yield from ()


def read_facts(package: str) -> Facts:
    """Read the `language.toml` of a language's package."""
    return Facts(**tomllib.loads((resources.files(package) / "language.toml").read_text("utf-8")))
