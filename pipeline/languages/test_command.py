"""The command that runs a repository's own tests, and the runner that it starts."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, Literal

from pipeline.codebase.text import Places, Wildcards
from sandbox.frozen import Frozen

Source = Literal["configuration", "tox", "nox", "detection"]
GUEST_PACKAGE = "capuchin_inside"
"""The package of `TestCommand.recorder_files` in the sandbox."""
_WRAPPERS = ("", "run", "exec", "--")
"""Words before the name of a program; the empty one is the beginning of the command."""


class Runner(Frozen):
    """A test runner, and how a command line starts it."""

    name: str
    programs: tuple[str, ...] = ()
    """As a program, with or without a folder before it: `pytest`."""
    modules: tuple[str, ...] = ()
    """As a module of the interpreter: `python -m unittest`."""


_QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
_SHELL = re.compile(r"[|&;<>$`()*~]|^\s*[A-Za-z_]\w*=|^\s*cd\s")


def needs_shell(line: str) -> bool:
    """Whether a command line means what it says only to a shell: it sets variables, changes the
    folder, joins programs, or names files by patterns."""
    return bool(_SHELL.search(_QUOTED.sub("", line)))


def find_runner(words: Sequence[str], runners: Iterable[Runner]) -> int | None:
    """The position where a command starts one of `runners`: directly, by `-m`, by `uv run` etc."""
    known = tuple(runners)
    modules = {module for runner in known for module in runner.modules}
    programs = {program for runner in known for program in runner.programs}
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if word in modules and before == "-m":
            return at
        if word.rpartition("/")[2] in programs and before in _WRAPPERS:
            return at
    return None


class TestCommand(Frozen):
    """The command that starts the tests; one of no known runner, unless a language overrides how it
    is recorded and restricted to some files."""

    __test__ = False

    argv: tuple[str, ...]
    kind: str = "other"
    """The runner, which decides how tests are distinguished and chosen (not possible for `other`).
    `labels` and `files` are a repository's own script that takes such arguments."""
    source: Source
    folder: str = ""
    """For `labels` and for `some`: the folder to which paths are relative."""
    some: tuple[str, ...] = ()
    """`Way.test_files`."""
    takes: str = ""
    """A pattern of the paths of files that `some` takes."""
    places: tuple[str, ...] = ()
    """The words of `argv` that name files or folders of the repository."""
    testpaths: tuple[str, ...] = ()
    """What the runner collects if `argv` names no place, as globs; empty: everything."""
    norecursedirs: tuple[str, ...] = ()
    """Folders that the runner does not enter, as globs."""
    python_files: tuple[str, ...] = ()
    """The names of test files for the runner, as globs; empty: the usual ones."""

    folders: tuple[str, ...] = ()
    """Those in which the runners start whose results get the folder before their names; see
    `run_in_turn`."""

    reader: str = ""
    """Which of `readers.READERS` reads what it prints; empty: JUnit files, else its exit code."""
    variables: Mapping[str, str] = {}
    """Set for it, to get results by name; `{report}` is a folder for them."""

    @property
    def can_choose(self) -> bool:
        """Whether a part of the tests can be run."""
        return self.kind != "other"

    def argv_with_recorder(self, files: Sequence[str] | None = None) -> tuple[str, ...]:
        """`argv` with our recorder, if it can be added, restricted to `files`."""
        if not files or not self.some:
            return self.argv
        inside = [path.removeprefix(f"{self.folder}/") for path in files]
        return run_in(self.folder, repeat_for(self.some, inside))

    def recorder_options(self) -> str:
        """What pytest reads from PYTEST_ADDOPTS, if it runs in any way; `{folder}` stands for the
        folder of the recorder."""
        return "" if self.can_choose else "--junitxml={folder}/junit.xml"

    def recorder_files(self) -> Mapping[str, str]:
        """The recorder's files, by name."""
        return {}

    def covers(self, files: Sequence[str]) -> tuple[str, ...]:
        """Those of `files` that the command can run separately."""
        below = f"{self.folder}/" if self.folder else ""
        fit = (path for path in files if path.startswith(below) and re.search(self.takes, path))
        return tuple(fit) if self.some else ()

    def collects(self, files: Sequence[str]) -> tuple[str, ...]:
        """Those of `files` that the command itself runs; all if none, or if that is unknown.

        Tests elsewhere, as those of examples, may need what the environment lacks, and pytest runs
        nothing if one of their `conftest.py` fails.
        """
        roots = Places(root.split("::")[0] for root in self.places or self.testpaths)
        skipped = Wildcards(f"*/{pattern}" for pattern in self.norecursedirs)
        above = {path: [f"/{one}" for one in PurePosixPath(path).parents][:-1] for path in files}
        # The runner does not enter these, if nobody names them.
        left_out = set(filter(skipped.match, {one for some in above.values() for one in some}))
        entered = tuple(path for path in files if left_out.isdisjoint(above[path]))
        inside = tuple(path for path in entered if roots.hold(path))
        return inside or entered or tuple(files)


def run_in(folder: str, words: Sequence[str]) -> tuple[str, ...]:
    """A command that runs in a folder of the checkout; empty for its root."""
    if not folder or not words:
        return tuple(words)
    return ("sh", "-c", f"cd {shlex.quote(folder)} && {shlex.join(words)}")


_ROOT: Final = "."
_PLACE: Final = re.compile(r"^\[in ([\w.@+/ -]{1,300})\]$", re.MULTILINE)


def run_in_turn(parts: Sequence[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """One command of several, each in a folder of the checkout; all run, whichever fails."""
    if len(parts) == 1:
        return run_in(*parts[0])
    lines = "".join(
        f"echo {shlex.quote(f'[in {folder or _ROOT}]')}; "
        f"({f'cd {shlex.quote(folder)} && ' if folder else ''}{shlex.join(words)}) || code=$?; "
        for folder, words in parts
    )
    return ("sh", "-c", f"code=0; {lines}exit $code")


def split_places(output: str) -> Iterator[tuple[str, str]]:
    """What each of the commands of `run_in_turn` printed, with its folder."""
    texts = _PLACE.split(output)
    for folder, text in zip((_ROOT, *texts[1::2]), texts[::2], strict=True):
        yield "" if folder == _ROOT else folder, text


def repeat_for(command: Sequence[str], paths: Sequence[str]) -> tuple[str, ...]:
    """A command whose words with `{path}`, `{folder}` or `{stem}` are repeated for each of `paths`,
    equal ones once."""
    found: list[str] = []
    for word in command:
        if not re.search(r"\{(path|folder|stem)\}", word):
            found.append(word)
            continue
        for place in map(PurePosixPath, paths):
            filled = word.replace("{path}", str(place)).replace("{folder}", str(place.parent))
            filled = "." if filled == "./." else filled.replace("{stem}", place.stem)
            found += [filled] if filled not in found else []
    return tuple(found)


def to_label(path: str, folder: str) -> str | None:
    """The dotted path of a test file below `folder`; None if it is no Python file there."""
    if not path.endswith(".py"):
        return None
    inside = path.removesuffix(".py").removesuffix("/__init__")
    if folder:
        if not inside.startswith(folder + "/"):
            return None
        inside = inside.removeprefix(folder + "/")
    return inside.replace("/", ".")
