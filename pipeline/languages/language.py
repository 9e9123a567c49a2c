"""What common code asks of a language.

A language is a folder: `language.toml` (its `Facts`), and a subclass of `Language` that overrides
what data cannot say. What a language leaves out, common code does without.
"""

import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from importlib import resources
from typing import Literal, NamedTuple

from pydantic import Field

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import FileDiff
from pipeline.data.types import Reproduction, TestScript
from pipeline.languages.code_scan import CodeScan
from pipeline.languages.conventions import Conventions, is_test
from pipeline.languages.file_runner import FileRunner
from pipeline.languages.manifests import Manifests
from pipeline.languages.printed import Printed, shows_none_passed
from pipeline.languages.readers import ran_nothing
from pipeline.languages.test_command import Runner, TestCommand
from prompts.text import strip_ansi
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.frozen import Frozen
from sandbox.program import NO_BUILD, NO_ENV, EditBuild, Execution, Program


class Way(Frozen):
    """One way in which repositories of a language are built and tested."""

    name: str
    """What installs and builds, for people."""
    mark: str = ""
    """A pattern of a file at the root that shows it; empty: it fits every tree."""
    says: str = ""
    """What that file must say, as a pattern; empty: anything."""
    packages: tuple[str, ...] = ()
    """Debian packages that bring the toolchain; of `a|b` the first that is known."""
    tools: tuple[str, ...] = ()
    """Shell lines that bring a toolchain from an index; `{version}` is what pip takes for the one
    that is asked for."""
    steps: tuple[str, ...] = ()
    """Shell lines with a network that fetch what the repository needs."""
    build: tuple[str, ...] = ()
    """Shell lines without a network that build it: in the environment, and again for each edit."""
    outputs: tuple[str, ...] = ()
    """Names of folders that the build writes to."""
    test: tuple[str, ...] = ()
    """The words of the command that runs all tests."""
    report: tuple[str, ...] = ()
    """Words behind its program that make it tell results by name: put into the lines of CI, too."""
    alias: str = "(?!)"
    """A pattern of other names for its program, which starts them itself: a wrapper's."""
    without: str = "(?!)"
    """A pattern of the options in CI's lines that the sandbox cannot run, or that tell nothing."""
    ci_build: str = ""
    """A pattern of CI's lines before its tests that take the place of `build`; the way fits only
    where there are some."""
    each: Literal["", "module", "project"] = ""
    """It runs in each folder with a manifest of its own: in every module (`Facts.projects`), or in
    projects beside each other that hold their parts."""
    test_files: tuple[str, ...] = ()
    """The words of one that runs some files of tests, with the same names in its results; a word
    with `{path}`, `{folder}` or `{stem}` is repeated for each. Empty: only all tests can be run."""
    reader: str = ""
    """Which of `readers.READERS` reads what that prints; empty: JUnit files, else its exit code."""
    variables: dict[str, str] = Field(default_factory=dict[str, str])
    """Set for the tests, to get results by name; `{report}` is a folder for them."""


class TestFiles(Frozen):
    """A test file of a language that is described by data: where it lies, how it runs."""

    __test__ = False

    style: str = ""
    """The framework for which a test file is written."""
    pattern: str = "(?!)"
    """What the path of a test file holds."""
    folder: str = ""
    """Where a new one lies if none is near."""
    file: str = "{name}.test"
    """The name of a new one."""
    beside: str = "(?!)"
    """What the path of a source file holds that may have tests among its code."""
    names: str = ""
    """A pattern of the line that begins a test, with its name as the first group."""
    command: tuple[str, ...] = ()
    """Runs one file: `{path}`, `{folder}`, `{stem}`, `{names}`. Empty: a script is one for a
    shell."""
    passed: str = "(?!)"
    """A pattern of what the command prints for a test that passed."""
    failed: str = "(?!)"
    """The same for one that failed by its own check."""
    broken: str = "(?!)"
    """The same for one that did not run, or ended in another error."""
    probe: str = ""
    """A test file that passes."""
    comment: str = "//"
    head: str = ""
    """A pattern of the line of a test file that another one beside it needs: `{head}`."""
    failing: tuple[tuple[str, str, str, str], ...] = ()
    """How tests are made to run to their end and fail, the first that fits: a text that the file
    holds, a pattern of the beginning of a test, what replaces it, and what the file needs at its
    end; `{nonce}` is a name."""


class Formatter(Frozen):
    """What puts one file of source into the repository's form."""

    command: tuple[str, ...]
    """Without the file, which it changes in place."""
    marks: tuple[tuple[str, str], ...]
    """What shows that a repository uses it, one of these: the pattern of a file's name, and of what
    the file says."""
    only: str = ""
    """A pattern of the paths that it takes, untrusted: for the sandbox to read; empty: all."""
    packages: tuple[str, ...] = ()
    """Debian packages that bring it; of `a|b` the first that is known."""
    pip: str = ""
    """Its name on the Python package index."""
    hook: str = ""
    """The name of its hook of pre-commit, whose version is the one that runs."""
    brought: bool = False
    """Whether the newest on that index is brought where no hook says which."""


class PromptLanguage(NamedTuple):
    """What templates need of a language."""

    name: str
    rules: str
    """What a script is like; empty: a stand-alone Python script."""
    suffix: str
    fails: str = "exit with code 2"
    """What a script does where the issue is not fixed."""
    passes: str = "exit with code 0"
    some_files: bool = True
    """Whether single files of its tests can be run."""


class Facts(Frozen):
    """`language.toml`: what is data about a language."""

    name: str
    suffixes: tuple[str, ...]
    """Endings of source files; the first is that of files whose imports are read."""
    named: dict[str, str] = Field(default_factory=dict[str, str])
    """By ending of a source file: what people call a project most of whose files have it."""
    manifests: tuple[str, ...]
    """Patterns of the paths of files that decide what is installed."""
    projects: str = "(?!)"
    """A pattern of the name of the file that makes its folder a project, with tests of its own."""
    locks: tuple[str, ...] = ()
    """Lock files at the root that `Language.attempts` reads, in order of precedence."""
    runners: tuple[Runner, ...] = ()
    """Empty: its tests cannot be run yet."""
    ways: tuple[Way, ...] = ()
    """How it is installed and tested, the first that fits; for a language without code."""
    formatters: tuple[Formatter, ...] = ()
    """In the order in which they run."""
    tests: TestFiles = TestFiles()
    printed: Printed = Printed()
    forges: str = "(?!)"
    """A pattern of what can end a program, or a run of tests, as if all were right."""
    steers: str = "(?!)"
    """A pattern of the paths of files that say how tests run."""
    installs: str = "(?!)"
    """A pattern of the lines by which CI installs what a way's steps install, too."""
    ci_tests: str = "(?!)"
    """A pattern of the lines by which CI runs tests."""
    versions: tuple[str, ...] = ()
    """Versions of the toolchain that can be had, the usual one first; empty: none is chosen."""
    stated: tuple[tuple[str, str, str], ...] = ()
    """What asks for a version, the first that does: a pattern of a file, one of what it says, and
    the bound that this is (`>=`); or `ci`, and the input of the action that sets it up."""
    extensions: tuple[str, str] = ("(?!)", "")
    """A pattern of what manifests say that asks for an extension of the interpreter by its name,
    and the Debian package that `{name}` comes with."""
    calibrated: bool = False
    """Whether the confidence was fitted on edits in this language."""
    rules: str = ""
    """What a model is told about a script that shows an issue."""
    toolchain: str = ""
    """A line for a shell that prints the toolchain's name and version."""
    nothing: str = ""
    """What any function may return in place of its value; empty: there is no such value."""
    untrue: str = ""
    """What a condition is never; empty: its contrary serves as a fault."""
    opening: str = ""
    """What can stand before the lines of a function, so that they are read as code."""
    too_old: str = ""
    """Which versions of the language cannot be had, as a sentence."""

    def to_prompt(self, seconds: str) -> PromptLanguage:
        """What a model is told about scripts that may run for `seconds`."""
        rules = self.rules.strip().replace("{seconds}", seconds)
        some_files = bool(self.runners) or any(way.test_files for way in self.ways)
        suffix = self.suffixes[0] if self.suffixes else ""
        told = PromptLanguage(self.name, rules, suffix, some_files=some_files)
        if self.tests.command:
            return told._replace(fails="fail by its own check", passes="pass")
        return told


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

    def is_manifest(self, path: str) -> bool:
        """Whether a file at this path decides what is installed."""
        return bool(self._manifest.fullmatch(path))

    @cached_property
    def _manifest(self) -> re.Pattern[str]:
        return re.compile("|".join(self.facts.manifests) or "(?!)")

    def claims(self, paths: Iterable[str]) -> bool:
        """Whether a tree with these paths has code of the language."""
        return any(path.endswith(self.facts.suffixes) for path in paths)

    def may_state_version(self, path: str) -> bool:
        """Whether a file at this path may state the package's version."""
        return False

    def identify(self, manifests: Manifests, described: str) -> Identity:
        """Find the package's name and version; `described` is `Asked.described`."""
        return Identity()

    def attempts(self, manifests: Manifests, asked: Asked, plain: Recipe, /) -> Sequence[Attempt]:
        """The ways to install the tree, the most promising first; the last resort is the recipe
        `plain`, made of the `steps` of the tree's languages."""
        return ()

    def steps(self, manifests: Manifests, asked: Asked, /) -> tuple[Sequence[str], Sequence[str]]:
        """Shell lines that install the tree in the plainest way: those for the toolchain, which
        need no repository, and those for the tree itself."""
        return (), ()

    def system_packages(self, manifests: Manifests) -> Sequence[str]:
        """Debian packages that bring the toolchain; of `a|b` the first that is known."""
        return ()

    def build_lines(self, manifests: Manifests) -> Sequence[str]:
        """Shell lines that build the tree once its maintainers' own lines have set it up."""
        return ()

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

    def find_root(self, paths: Iterable[str], stated: str = "") -> str:
        """The folder of the project that is installed: the one that its maintainers state, if
        any."""
        return stated

    async def list_tests(self, codebase: Codebase) -> dict[str, tuple[str, ...]]:
        """The files of the whole tree that hold tests, each with the names of these; empty where
        they are not read."""
        return {
            path: ()
            for path, file in codebase.files.items()
            if file.regular and file.size and is_test(path) and self.is_runnable(path)
        }

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

    # Scripts

    interpreter: str = "sh"
    """The program that runs a script as a file of the repository."""

    @property
    def script_suffix(self) -> str:
        """The ending of a script's name."""
        return ""

    def script_program(
        self,
        text: str,
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Program:
        """The program that runs a script: exit code 0 for fixed, 2 for not fixed, another for a
        broken script. Equal ones may share one run."""
        raise NotImplementedError

    def compiles(self, script: str) -> bool:
        """Whether a script compiles by itself what it needs, so that no build goes before it."""
        return False

    def place_script(self, text: str, otherwise: str) -> str:
        """Where a script says that it lies as a test; `otherwise` if it does not."""
        return otherwise

    async def edit_build(self, codebase: Codebase) -> EditBuild:
        """How the code is built again for each edit."""
        return NO_BUILD

    # One file of tests

    def shows_pass(self, run: Execution) -> bool:
        """Whether a run of tests that ended well shows that one passes: others skip all of them, or
        find none."""
        text = strip_ansi(run.output)
        counts = self.facts.printed.find_counts(text)
        none = shows_none_passed(counts) if counts else ran_nothing(text)
        return run.passed and not none

    def shows_failure(self, run: Execution) -> bool:
        """Whether a run of tests that did not pass shows that tests fail. Runners end with codes
        of their own: cargo with 101, ctest with 8, Mocha with the number of failed tests."""
        return run.exit_code not in (None, 126, 127)

    def file_runners(
        self, commands: Sequence[TestCommand], conventions: Conventions, /
    ) -> Sequence[FileRunner]:
        """The ways to run one file of tests, those of the repository's own `commands` first."""
        return ()

    def drop_options(self, command: Sequence[str]) -> list[str]:
        """A command without the options that only the sandbox needs."""
        return list(command)

    def advise_command(self, test: Reproduction, names: Sequence[str]) -> str:
        """The command of `test` as one types it, naming the new tests `names` if there are any."""
        return shlex.join(self.drop_options(test.command))

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

    async def change_expectations(self, text: str, nonce: str) -> tuple[str, str] | None:
        """The script `text` with fresh values in place of those that it expects, and with values
        that nothing equals; None if it expects none that can be changed."""
        return None

    def write_control_script(self, text: str, diff: str, nonce: str, /) -> str:
        """A script that runs what `text` and `diff` do and must say "not fixed"; empty: none."""
        return ""

    def write_failing_test(
        self, diff: str, conventions: Conventions, taken: Collection[str]
    ) -> str:
        """A script that runs a new test, which must fail, beside those of `diff`; empty: none."""
        return ""

    async def make_tests_fail(self, path: str, text: str, nonce: str) -> bytes:
        """The test file `path` with every test in it made to fail under its own name; empty if that
        cannot be done."""
        return b""

    def make_fail(self, text: str, nonce: str) -> str:
        """A test file with every test in it made to run to its end and fail; empty if that cannot
        be done, or `write_control` serves."""
        return ""

    def write_control(self, kind: str, beside: str, nonce: str) -> tuple[str, bytes] | None:
        """The path and content of tests named after `nonce` that must fail, for a command of
        `kind`, in a new file in the folder of `beside`; None if such a command takes none."""
        return None

    def wrap_script(self, script: TestScript, style: str, words: str) -> str:
        """The text of a test file that runs `script`; `words` (untrusted) name its one test."""
        return script.text

    # Edits

    def is_source(self, path: str) -> bool:
        """Whether a file with this name is code of the language."""
        return path.endswith(self.facts.suffixes)

    def find_startup_file(self, diff: str) -> str:
        """The first file of `diff` that runs before every script and test; empty if none."""
        return ""

    async def find_syntax_errors(self, files: Mapping[str, bytes]) -> dict[str, str]:
        """Find the files that do not parse, by path, each with what is wrong with it."""
        return {}

    def find_suspicious(self, file: FileDiff) -> Iterator[str]:
        """How a change could steer or forge the tests: sentences without a subject."""
        yield from ()


def read_facts(package: str) -> Facts:
    """Read the `language.toml` of a language's package."""
    return Facts(**tomllib.loads((resources.files(package) / "language.toml").read_text("utf-8")))
