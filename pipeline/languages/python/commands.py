"""The commands that run a Python repository's tests, by pytest, unittest or a script of its own."""

import asyncio
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import PurePosixPath

from pipeline.codebase.commit import Codebase
from pipeline.languages import test_command
from pipeline.languages.ci import jobs_of
from pipeline.languages.manifests import CI_FILE
from pipeline.languages.python.ci import RUNS_TESTS
from pipeline.languages.python.conventions import detect_conventions
from pipeline.languages.python.facts import FACTS
from pipeline.languages.python.roots import find_root, read_below
from pipeline.languages.python.tox_nox import nox_lines, tox_folder, tox_lines
from pipeline.languages.test_command import GUEST_PACKAGE, Source, TestCommand, run_in, to_label
from sandbox.frozen import replace

_MOST_COMMANDS = 4
"""Commands tried before the tests count as not runnable."""
_MOST_NAMED = 300
"""Files named on a command line; beyond that, the recorder filters inside."""
ROUTINES = ("tox.ini", "tox.toml", "setup.cfg", "pyproject.toml", "noxfile.py")
"""Where tox and nox have their settings."""
_NOSE = ("python", "-m", "nose", "-v", "--with-xunit")
_POSARGS = re.compile(r"\{posargs(?::([^{}]*))?\}")


class PythonCommand(TestCommand):
    """A command whose tests the recorder observes, if they run by pytest or unittest."""

    def argv_with_recorder(self, files: Sequence[str] | None = None) -> tuple[str, ...]:
        named = files if files and len(files) <= _MOST_NAMED else ()
        main = f"{GUEST_PACKAGE}.main"
        if self.kind == "labels":
            labels = (to_label(path, self.folder) for path in named)
            return (self.argv[0], "-m", main, *self.argv[1:], *filter(None, labels))
        if self.kind == "files":
            return (*self.argv, *named)
        at = find_runner(self.argv)
        words = self.argv
        if at is None:
            return words
        if self.kind == "unittest":
            return (*words[:at], main, *words[at:])
        if named and "--pyargs" not in words:
            words = (*(w for w in words if w not in self.places), *named)
        # Report every broken test. After a lone -- nothing is an option.
        options = ("--maxfail=0", "--continue-on-collection-errors")
        end = words.index("--", at) if "--" in words[at:] else len(words)
        plugin = ("-p", f"{GUEST_PACKAGE}.pytest_plugin")
        return (*words[: at + 1], *plugin, *words[at + 1 : end], *options, *words[end:])

    def recorder_options(self) -> str:
        if self.kind != "pytest" or find_runner(self.argv) is not None:
            return super().recorder_options()
        return f"-p {GUEST_PACKAGE}.pytest_plugin --maxfail=0 --continue-on-collection-errors"

    def recorder_files(self) -> Mapping[str, str]:
        return _read_recorder()

    def covers(self, files: Sequence[str]) -> tuple[str, ...]:
        if self.kind == "labels":
            return tuple(path for path in files if to_label(path, self.folder))
        return tuple(files) if self.can_choose else ()


@cache
def _read_recorder() -> Mapping[str, str]:
    folder = resources.files("pipeline.languages.python.recorder")
    found = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.is_file()}
    names = resources.files("pipeline.languages") / "test_names.py"
    return {**found, "test_names.py": names.read_text("utf-8")}


async def find_commands(
    codebase: Codebase, configured: Sequence[str] = ()
) -> tuple[PythonCommand, ...]:
    """See `Language.find_commands`.

    The possible commands are a test script of the repository, the pytest or unittest commands of
    tox or nox (which themselves need a network), and the runner that the test files suggest. Empty
    if there is none. For the choice of a tox environment see `pipeline.languages.python.tox_nox`.
    """
    places = await asyncio.to_thread(_folders_and_files, codebase)
    if configured:
        script = await _recognise_script(codebase, configured)
        return (script or _to_command(configured, "configuration", places),)
    root = await asyncio.to_thread(find_root, codebase.files, codebase.root)
    start = f"{root}/" if root else ""
    texts = await read_below(codebase, root, ROUTINES)
    tox = [*tox_lines(texts)]
    nox = [*nox_lines(texts.get("noxfile.py", ""))]
    scripts = await _find_scripts(codebase)
    inside = f"{start}{tox_folder(texts)}".rstrip("/")
    folders = {"tox": inside if inside in places else root, "nox": root}
    by_source: tuple[tuple[Source, list[str]], ...] = (("tox", tox), ("nox", nox))
    lines = [
        _to_command(run_in(folders[source], argv), source, places)
        for source, found in by_source
        for argv in filter(None, map(_parse_line, found))
    ]
    lines += [_to_command(argv, "detection", places) for argv in await _find_in_ci(codebase, root)]
    named = {_name(script.argv[1]) for script in scripts}
    # A script that tox or nox does not run alongside pytest is a leftover.
    own = not (tox or nox) or any(_mentions(line, named) for line in (*tox, *nox))
    found = [*scripts, *lines] if own else [*lines, *scripts]
    conventions = await detect_conventions(codebase)
    if argv := conventions.suite_command():
        # pytest reads the settings of the folder that it is given.
        below = (root,) if root and argv[-1] == "pytest" else ()
        found.append(_to_command((*argv, *below), "detection", places))
    if any(_mentions(line, {"nosetests", "nose"}) for line in (*tox, *nox)):
        found.append(_to_command(_NOSE, "tox", places))
    unique = [*{command.argv: command for command in found}.values()][:_MOST_COMMANDS]
    settings = {
        "testpaths": conventions.testpaths,
        "norecursedirs": conventions.norecursedirs,
        "python_files": conventions.python_files,
    }
    return tuple(replace(one, **settings) if one.kind == "pytest" else one for one in unique)


async def _find_in_ci(codebase: Codebase, root: str) -> list[tuple[str, ...]]:
    """The commands of the job of CI that runs the tests, for the project in the folder `root`."""
    paths = await codebase.find_paths(CI_FILE.fullmatch)
    texts = await codebase.read_texts(paths, largest=64 * 1024, most=512 * 1024)

    def find() -> list[tuple[str, ...]]:
        job = next(jobs_of(texts, RUNS_TESTS), None)
        lines = job.split(RUNS_TESTS)[1] if job else []
        return [
            run_in(folder, words)
            for folder, line in lines
            if f"{folder}/".startswith(f"{root}/" if root else "")
            if (words := _parse_line(_RUN_BY.sub("", _FOR_RUNNERS.sub("", line))))
        ]

    return await asyncio.to_thread(find)


def find_runner(words: Sequence[str]) -> int | None:
    """The position where the command starts pytest or unittest."""
    return test_command.find_runner(words, FACTS.runners)


def _mentions(line: str, names: Collection[str]) -> bool:
    return any(_name(word) in names for word in line.split())


def _name(word: str) -> str:
    return word.rpartition("/")[2]


_RUN_BY = re.compile(
    r"\b(?:uv|poetry|pdm|hatch|pipenv|rye) run "
    r"(?:--(?:group|extra|with|python|package|env-file|directory|project|only-group|no-group)[= ]"
    r"[^\s-]\S* |--?[\w-]+(?:=\S+)? )*"
)
"""A package manager before a program: it would install, for which there is no network, what the
environment holds."""
_FOR_RUNNERS = re.compile(
    r"\s(?:-n|--numprocesses|--dist|--maxprocesses|--timeout|--reruns|--durations|--color|--maxfail)"
    r"(?:[= ]\s*\w+)?(?=\s|$)|\s-[vqx]+(?=\s|$)"
)
"""What CI's lines say of processes, time and what is shown; most of it needs a plug-in."""
_PATH = re.compile(r"(\bPYTHONPATH=[^\s;&|]*)")


def _starts_pytest(argv: Sequence[str]) -> bool:
    """Whether a line for a shell, or a command behind variables, starts pytest."""
    line = argv[2] if tuple(argv[:2]) == ("sh", "-c") and len(argv) == 3 else shlex.join(argv)
    for part in re.split(r"[;&|()]", line):
        words = [word for word in part.split() if word != "env" and "=" not in word.split("-")[0]]
        at = find_runner(words)
        if at is not None and words[at] != "unittest":
            return True
    return False


def _without_manager(argv: Sequence[str]) -> tuple[str, ...]:
    """The command as the environment runs it."""
    if tuple(argv[:2]) == ("sh", "-c"):
        lines = (_RUN_BY.sub("", line) for line in argv[2:])
        # A path of the line's own must not hide the recorder.
        return (*argv[:2], *(_PATH.sub(r"\1:$PYTHONPATH", line) for line in lines))
    found = _RUN_BY.match(shlex.join(argv) + " ")
    rest = shlex.split(shlex.join(argv)[found.end() :]) if found else []
    return tuple(rest or argv)


def _to_command(argv: Sequence[str], source: Source, places: Collection[str]) -> PythonCommand:
    argv = _without_manager(argv)
    at = find_runner(argv)
    kind = "other" if at is None else "unittest" if argv[at] == "unittest" else "pytest"
    if at is None and _starts_pytest(argv):
        kind = "pytest"  # the recorder reaches it by a variable
    after = argv[at + 1 :] if at is not None and kind == "pytest" else ()
    named = [word for word in after if word.removeprefix("./").rstrip("/").split("::")[0] in places]
    return PythonCommand(argv=tuple(argv), kind=kind, source=source, places=tuple(named))


def _folders_and_files(codebase: Codebase) -> frozenset[str]:
    found = {".", ""}
    for path in codebase.files:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return frozenset(found)


_VALUED = "cov(?:-report|-config|-fail-under|-context)?|junit-?(?:xml|prefix)"
_REPORTS = re.compile(rf"\s--(?:(?:{_VALUED})(?:[= ](?!-)\S+)?|cov-\S+)(?!\S)")
"""Options of pytest for reports, with a value that is the next word."""


def _parse_line(line: str) -> tuple[str, ...] | None:
    """Parse a line of tox into a command independent of tox; None unless it runs pytest or
    unittest."""
    line = _POSARGS.sub(lambda match: match[1] or "", line.strip().lstrip("-@ "))
    line = _REPORTS.sub("", line).replace("{envpython}", "python").replace("{envbindir}/", "")
    line = line.replace("{toxinidir}", ".").replace("{tox_root}", ".")
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    at = find_runner(words)
    if at is None or any("{" in word for word in words):
        return None
    words = words[at:]  # without `coverage run` and similar, which the image may lack
    return ("python", "-m", words[0].rpartition("/")[2].replace("py.test", "pytest"), *words[1:])


_NAME = re.compile(r"(?:(?:tests?|testing)/)?(?:run_?tests?|test_?runner)\.py")
_LABELS = re.compile(r"""["'](?:modules|labels|test_labels|tests)["']""")
_MANAGE = re.compile(r"(?:[^/]+/)?manage\.py")
_FILES = "bin/test"
_RECIPES = (".travis.yml", "tox.ini", "README.md", "README.rst", "Makefile", "setup.py")


async def _find_scripts(codebase: Codebase) -> list[PythonCommand]:
    """Find the scripts of known kinds by their text, the likeliest first."""
    found: list[PythonCommand] = []
    for path in await codebase.find_paths(_NAME.fullmatch):
        text = await codebase.read_text(path) or ""
        if _runs_labels(text):
            found.append(_labels(("python", path, *_choose_options(text))))
    for path in await codebase.find_paths(_MANAGE.fullmatch):
        text = await codebase.read_text(path) or ""
        if "django" in text.lower():
            found.append(_labels(("python", path, "test", "--verbosity", "2")))
    if argv := await _find_file_script(codebase):
        found.append(PythonCommand(argv=argv, kind="files", source="detection"))
    return found


async def _recognise_script(codebase: Codebase, argv: Sequence[str]) -> PythonCommand | None:
    """The script that a configured command starts by `python SCRIPT`; None for any other
    command."""
    words = tuple(argv)
    if len(words) < 2 or not re.fullmatch(r"python[\d.]*", _name(words[0])):
        return None
    path = str(PurePosixPath(words[1]))
    if path not in codebase.files:
        return None
    text = await codebase.read_text(path) or ""
    if _NAME.fullmatch(path) and _runs_labels(text):
        return _labels(words, "configuration")
    if _MANAGE.fullmatch(path) and words[2:3] == ("test",):
        return _labels(words, "configuration")
    if path == _FILES and await _find_file_script(codebase):
        return PythonCommand(argv=words, kind="files", source="configuration")
    return None


def _runs_labels(text: str) -> bool:
    return bool(_LABELS.search(text)) and ("django" in text.lower() or "unittest" in text)


def _choose_options(text: str) -> tuple[str, ...]:
    """The options by which a single process prints a line for each test."""
    verbose = ("--verbosity", "2") if "--verbosity" in text else ("-v",) if '"-v"' in text else ()
    # Other processes report results without each test's outcome, or not at all.
    return (*verbose, "--parallel", "1") if "--parallel" in text else verbose


def _labels(argv: tuple[str, ...], source: Source = "detection") -> PythonCommand:
    folder = str(PurePosixPath(argv[1])).rpartition("/")[0]
    return PythonCommand(argv=argv, kind="labels", source=source, folder=folder)


async def _find_file_script(codebase: Codebase) -> tuple[str, ...]:
    """The command of a `bin/test` like SymPy's; newer ones start pytest, so we start pytest
    directly."""
    text = await codebase.read_text(_FILES) or "" if _FILES in codebase.files else ""
    head = text.partition("\n")[0]
    if not head.startswith("#!") or "python" not in head or "--verbose" not in text:
        return ()
    if "use-sympy-runner" in text or re.search(r"^[ \t]*import pytest", text, re.MULTILINE):
        return ()
    told = [await codebase.read_text(n) or "" for n in _RECIPES if n in codebase.files]
    if not any(_FILES in recipe for recipe in told):
        return ()
    return ("python", _FILES, "--verbose")
