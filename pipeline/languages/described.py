"""A language that its `language.toml` describes whole: no code of its own.

Its tests are run by the first of its `ways` that fits the tree, and read by that way's reader. A
script is a test file at the place where the language puts tests, or a shell script; which of both,
and how its verdict is read, is data too.
"""

import asyncio
import contextlib
import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from importlib import resources
from pathlib import PurePosixPath

from pipeline.codebase.commit import Codebase
from pipeline.codebase.grammars import find_errors, grammar_of, parse_code
from pipeline.codebase.isolated import call_isolated
from pipeline.codebase.text import Globs
from pipeline.codebase.unified_diff import FileDiff, parse_diff
from pipeline.data.types import NOT_FIXED, Reproduction
from pipeline.languages.ci import CiJob, is_in_range, jobs_of
from pipeline.languages.conventions import Conventions, is_test
from pipeline.languages.file_runner import FileRunner
from pipeline.languages.language import Asked, Language, TestFiles, Way, read_facts
from pipeline.languages.manifests import CI_FILE, Manifests
from pipeline.languages.roots import below, cut_root, find_folder, list_projects
from pipeline.languages.test_command import (
    TestCommand,
    needs_shell,
    repeat_for,
    run_in,
    run_in_turn,
)
from sandbox.environment.recipe import Attempt, Recipe
from sandbox.frozen import replace as replace_frozen
from sandbox.layout import CHECKOUT, ENVIRONMENT
from sandbox.program import NO_ENV, EditBuild, Execution, Program, with_variables

SHELL_PATH = "/tmp/capuchin/reproduce_issue.sh"  # noqa: S108 - a file system of its own
LEFT_OUT = f"{ENVIRONMENT}/left-out-"
"""How files begin that hold the folder of a project that was left out, and the end of its log."""
_SURELY_NOT = 86
"""What a control ends with: a code that no mistake in a script, or in what it runs, has."""
_CRASHES = (132, 133, 134, 135, 136, 139)
"""How a shell ends whose last program a signal of its own ended: SIGILL to SIGFPE, SIGSEGV."""
_VERDICTS = {0: 0, **dict.fromkeys((NOT_FIXED, _SURELY_NOT, *_CRASHES), NOT_FIXED)}
_MOST_TEST_FILES = 2000
_MOST_MODULES = 30
_MOST_NAMED = 10
"""Tests that a command names for a person."""
MOST_BESIDE = 4
"""Projects that lie beside each other: of more one is chosen, as each costs a build."""
_LARGEST_TEST_BYTES = 500_000
_FOR_REPORTS = re.compile(
    r"-json|--no-tests=error|--(?:output|log)-junit|--reporter(=default|=junit|=tap)?|--?tap|tap|--json|(--outputFile=)?capuchin-[a-z]+\.(xml|json)"
)
"""Options of the commands in `language.toml` that only write reports."""
_REPORTS = re.compile(r"capuchin-|(?:^|[ =-])tap(?=[ )]|$)|(?:^| )-json(?=[ )]|$)")


class Described(Language):
    def __init__(self, package: str) -> None:
        super().__init__(read_facts(package))

    # Installation

    def is_manifest(self, path: str) -> bool:
        """Those of a project below the root count too."""
        folder, _, name = path.rpartition("/")
        return folder.count("/") < 2 and super().is_manifest(name)

    def claims(self, paths: Iterable[str]) -> bool:
        """Whether a file of the tree says how its tests are run."""
        known = tuple(paths)
        several = len(self.find_each(known, "")[1]) > 1
        return several or any(map(self.is_mark, cut_root(known, self.find_root(known))))

    def attempts(self, manifests: Manifests, _asked: Asked, plain: Recipe, /) -> Sequence[Attempt]:
        """As the job of CI does that runs the tests, where that does more; then as the way does."""
        if not (summary := self.summarise(manifests)):
            return ()
        fits, version, where = self.choose_version(manifests)
        if version and self.facts.versions and not fits:
            named = re.sub(r"[^\w.<>=^~*| -]", "", version)[:40]
            there = ", ".join(self.facts.versions)
            summary += f" {where} asks for version {named}, and there is {there}."
        job = self._find_job(manifests.texts)
        lines = job.split(self._runs_tests)[0] if job else []
        env = job.setup_env if job else NO_ENV
        today = Attempt("today", summary, replace(plain, steps=with_variables(plain.steps, env)))

        def is_install(line: str) -> bool:
            return bool(re.search(self.facts.installs, line))

        if job is None or not [x for x in lines if x not in plain.steps and not is_install(x)]:
            return (today,)
        own: list[str] = []
        for line in lines:
            if line in plain.steps:
                own.append(line)
            elif is_install(line):  # once, and as the lock file says
                own += filter(is_install, plain.steps)
            else:
                # Its checks and its uploads may fail here: the health of the environment judges.
                own.append(f"bash -c {shlex.quote(line)} || true")
        steps = tuple(dict.fromkeys((*own, *plain.steps)))
        recipe = replace(plain, steps=with_variables(steps, env))
        said = Attempt("ci", f"As {job.path} installs it.", recipe)
        return (said, today)

    def summarise(self, manifests: Manifests, /) -> str:
        """What is installed, as a sentence; empty where nothing is known."""
        name = self._find_way(manifests).name
        return f"What {name} installs and builds." if name else ""

    def system_packages(self, manifests: Manifests) -> Sequence[str]:
        job, (asks, form) = self._find_job(manifests.texts), self.facts.extensions
        texts = (text for path, text in manifests.texts.items() if self.is_manifest(path))
        named = [name for text in texts for name in re.findall(asks, text)]
        if job and form:
            named += re.findall(r"[\w-]+", " ".join(job.versions.get("extensions", ())))
        extensions = (form.format(name=name) for name in named)
        return (*self._find_way(manifests).packages, *extensions, *(job.packages if job else ()))

    def steps(self, manifests: Manifests, _asked: Asked, /) -> tuple[Sequence[str], Sequence[str]]:
        way, (fits, *_) = self._find_way(manifests), self.choose_version(manifests)
        is_usual = not fits or fits[0] == self.facts.versions[0]
        pin = "" if is_usual else f"=={fits[0]}.*"
        return [line.replace("{version}", pin) for line in way.tools], way.steps

    @cached_property
    def _runs_tests(self) -> re.Pattern[str]:
        return re.compile(self.facts.ci_tests)

    def _find_job(self, texts: Mapping[str, str]) -> CiJob | None:
        return next(jobs_of(texts, self._runs_tests), None)

    def choose_version(self, manifests: Manifests) -> tuple[Sequence[str], str, str]:
        """The versions of the toolchain that can be had and that fit, what is asked for, and where:
        empty where nothing is."""
        have, inside = self.facts.versions, self._below(manifests)
        folders = self.find_each(manifests.names, manifests.root)[1]
        named = {
            path: name if folder in folders else path
            for path in sorted(inside.texts, key=lambda one: (one.count("/"), one))
            for folder, _, name in [path.rpartition("/")]
        }
        for file, pattern, bound in self.facts.stated:
            if file == "ci":
                job = self._find_job(inside.texts)
                values = job.versions.get(pattern, ()) if job else ()
                known = [one for one in have if any(is_in_range(text, one) for text in values)]
                if job and known:  # of a matrix the newest: the others are kept working
                    best = max(known, key=lambda one: [int(part) for part in one.split(".")])
                    return [best], best, job.path
            for path, name in named.items():
                said = re.fullmatch(file, name) and re.search(pattern, inside.texts[path], re.M)
                if said and (text := said[1].strip()):
                    text = f"{bound}{text}"
                    return [one for one in have if is_in_range(text, one)], text, path
        return have, "", ""

    def _below(self, manifests: Manifests) -> Manifests:
        return below(manifests, self.find_root(manifests.names, manifests.root))

    async def variables(self, codebase: Codebase) -> Mapping[str, str]:
        """Those that CI sets for its tests."""
        manifests = await self._read_manifests(codebase)
        job = await asyncio.to_thread(self._find_job, manifests.texts)
        return job.env if job else {}

    def build_lines(self, manifests: Manifests) -> Sequence[str]:
        return self._find_way(manifests).build

    def find_root(self, paths: Iterable[str], stated: str = "") -> str:
        """The folder of a tree's one project: the one that its maintainers or the issue state, if
        any. It is the tree's root where each of several is tested."""
        known = list(paths)
        if not stated and len(self.find_each(known, "")[1]) > 1:
            return ""
        return stated or find_folder(known, self.is_mark, self.facts.suffixes)

    def find_each(self, paths: Sequence[str], root: str) -> tuple[Way, list[str]]:
        """The way that runs in most folders from `root`, one by one, and these."""
        best, most = Way(name=""), [root]
        for way in self.facts.ways:
            manifest = way.mark if way.each == "project" else self.facts.projects
            found = list_projects(paths, manifest, root) if way.each else []
            if way.each == "project":
                tops = [it and f"{it}/" for it in list_projects(paths, self._marks.pattern, root)]
                found = [one for one in found if sum(map(f"{one}/".startswith, tops)) == 1]
                found = found if len(found) <= MOST_BESIDE else []
            if len(found) > len(most):
                best, most = way, found[:_MOST_MODULES]
        return best, most

    def _find_way(self, manifests: Manifests) -> Way:
        """The first way whose mark lies at the root of the project, and says what it asks for; its
        lines run there. One without a name if none fits."""
        root, inside = self.find_root(manifests.names, manifests.root), self._below(manifests)
        top = [path for path in inside.names if "/" not in path]
        for way in self.facts.ways:
            marks = [path for path in top if re.fullmatch(way.mark, path)]
            said = any(re.search(way.says, inside.texts.get(path, "")) for path in marks)
            if way.ci_build:
                job = self._find_job(manifests.texts)
                before = job.split(self._runs_tests)[0] if job else []
                lines = tuple(one for one in before if re.search(way.ci_build, one))
                said, way = bool(lines and said), replace_frozen(way, build=lines)
            if said or (marks and not (way.says or way.ci_build)) or not way.mark:
                return _move(way, self.find_each(manifests.names, root)[1])
        return _move(*self.find_each(manifests.names, root))

    async def edit_build(self, codebase: Codebase) -> EditBuild:
        way = self._find_way(await self._read_manifests(codebase))
        return EditBuild(lines=way.build, outputs=way.outputs)

    async def _read_manifests(self, codebase: Codebase) -> Manifests:
        """What says how the tests run: the marks of ways, and the files of CI."""
        root = await asyncio.to_thread(self.find_root, codebase.files, codebase.root)
        marks = await codebase.find_paths(lambda path: self.is_mark(path.removeprefix(f"{root}/")))
        texts = await codebase.read_texts(marks, largest=_LARGEST_TEST_BYTES)
        told = await codebase.find_paths(CI_FILE.fullmatch)
        texts |= await codebase.read_texts(told, largest=64 * 1024, most=512 * 1024)
        return Manifests(tuple(codebase.files), texts, root=root)

    def is_mark(self, path: str) -> bool:
        """Whether a way is recognised by a file at this path from the project's folder."""
        return self._marks.fullmatch(path) is not None

    @cached_property
    def _marks(self) -> re.Pattern[str]:
        marks = (f"(?:{way.mark})" for way in self.facts.ways if way.mark)
        return re.compile("|".join(marks) or "(?!)")

    # The repository's tests

    def is_runnable(self, path: str) -> bool:
        return bool(re.search(self._tests.pattern, path))

    @property
    def _tests(self) -> TestFiles:
        return self.facts.tests

    @cached_property
    def _name_of_test(self) -> re.Pattern[str]:
        return re.compile(self._tests.names, re.MULTILINE)

    async def conventions(self, codebase: Codebase) -> Conventions | None:
        tests = await codebase.find_paths(self.is_runnable)
        return Conventions(
            runner=self._tests.style or self.facts.name,
            folder=await asyncio.to_thread(self._find_test_folder, codebase, tests),
            form=self._tests.file,
            tests=len(tests),
            suffix=False,
            packaged=False,
            example=tests[0] if tests else None,
        )

    def _find_test_folder(self, codebase: Codebase, tests: Sequence[str]) -> str:
        """Where a new test file is collected or compiled: where tests lie, else in the project with
        most sources, which a workspace's root may not be."""
        root = self.find_root(codebase.files, codebase.root)
        usual = f"{root}/{self._tests.folder}".strip("/")
        folders = Counter(path.rpartition("/")[0] for path in tests)
        if folders:
            return usual if usual in folders else max(folders, key=lambda one: folders[one])
        sources = [path for path in codebase.files if self.is_source(path)]
        inner = [one for one in list_projects(codebase.files, self.facts.projects) if one]
        of = Counter(
            next((one for one in inner if path.startswith(f"{one}/")), "") for path in sources
        )
        takes_any = bool(self._tests.folder or self._tests.command)
        if not inner or of[""] or not takes_any:
            return usual
        return f"{max(inner, key=lambda one: of[one])}/{self._tests.folder}".strip("/")

    async def read_test_files(
        self, codebase: Codebase, exclude: Sequence[str] = ()
    ) -> dict[str, str]:
        globs = Globs(exclude)
        paths = [
            path
            for path, file in sorted(codebase.files.items())
            if file.regular and self.is_runnable(path) and not globs.first_match(path)
        ]
        return await codebase.read_texts(paths[:_MOST_TEST_FILES], largest=_LARGEST_TEST_BYTES)

    async def list_tests(self, codebase: Codebase) -> dict[str, tuple[str, ...]]:
        paths = [
            path
            for path, file in sorted(codebase.files.items())
            if file.regular and self.is_source(path)
            if is_test(path) or self.is_runnable(path) or re.search(self._tests.beside, path)
        ]
        texts = await codebase.read_texts(paths[:_MOST_TEST_FILES], largest=_LARGEST_TEST_BYTES)
        return await asyncio.to_thread(
            lambda: {path: names for path, text in texts.items() if (names := self._tests_in(text))}
        )

    def _tests_in(self, text: str) -> tuple[str, ...]:
        """The names of the tests in a file, or of their classes; one that is empty where only their
        form is known."""
        if self._tests.names:
            return tuple(dict.fromkeys(match[1] for match in self._name_of_test.finditer(text)))
        forms = (begins for holds, begins, *_ in self._tests.failing if holds in text)
        if not any(re.search(form, text, re.MULTILINE) for form in forms):
            return ()
        return tuple(re.findall(r"^[ \t]*class (\w+)", text, re.MULTILINE)) or ("",)

    async def find_commands(
        self, codebase: Codebase, configured: Sequence[str] = ()
    ) -> Sequence[TestCommand]:
        manifests = await self._read_manifests(codebase)
        way, root = self._find_way(manifests), self.find_root(manifests.names, manifests.root)
        modules = self.find_each(manifests.names, root)[1]

        def start(one: Way, argv: Sequence[str], folders: Iterable[str]) -> TestCommand:
            return TestCommand(
                argv=tuple(argv),
                source="configuration" if configured else "detection",
                folder=root,
                folders=tuple(filter(None, folders)),
                some=one.test_files if len(modules) == 1 else (),
                takes=self._tests.pattern,
                reader=one.reader,
                variables=dict(one.variables),
            )

        each = run_in_turn([(one, way.test) for one in modules])
        usual = start(way, configured or each, modules if len(modules) > 1 else ())
        if configured:
            return (usual,)
        job = await asyncio.to_thread(self._find_job, manifests.texts)
        lines = job.split(self._runs_tests)[1] if job else []
        # A file may speak for one runner, and CI for another of the language.
        for one in (way, *self.facts.ways):
            known = ((at, _make_report(one, line)) for at, line in lines)
            words = ((at, read_words(line)) for at, line in known)
            if said := [pair for pair in dict.fromkeys(words) if pair[1]]:
                folders = dict.fromkeys(at for at, _ in said) if len(said) > 1 else ()
                found = [start(one, run_in_turn(said), folders)]
                break
        else:
            found = list[TestCommand]()
        others = [] if found else [run_in(at, read_words(line)) for at, line in lines[:1]]
        found += [usual] if way.test else []
        reads = TestCommand(argv=(), source="detection", reader=way.reader)
        found += [replace_frozen(reads, argv=other) for other in others if other]
        return tuple({one.argv: one for one in found}.values())

    def find_added_tests(self, diff: str, path: str, text: str) -> tuple[str, ...]:
        if not self._tests.names or not self.is_runnable(path):
            return ()
        added = "\n".join(
            line
            for file in parse_diff(diff)
            if file.new == path
            for hunk in file.hunks
            for marker, line in hunk.lines
            if marker == "+"
        )
        names = (match[1] for match in self._name_of_test.finditer(added))
        return tuple(dict.fromkeys(name for name in names if name in text))

    def shows_pass(self, run: Execution) -> bool:
        passed = re.search(self._tests.passed, run.output, re.MULTILINE)
        return run.passed and bool(passed or super().shows_pass(run))

    def shows_failure(self, run: Execution) -> bool:
        is_broken = re.search(self._tests.broken, run.output, re.MULTILINE)
        failed = re.search(self._tests.failed, run.output, re.MULTILINE)
        return super().shows_failure(run) and bool(failed or not is_broken)

    def file_runners(
        self, _commands: Sequence[TestCommand], _conventions: Conventions, /
    ) -> Sequence[FileRunner]:
        runner = DescribedRunner(argv=self._tests.command, tests=self._tests)
        return (runner,) if runner.argv else ()

    def drop_options(self, command: Sequence[str]) -> list[str]:
        if not any(map(_REPORTS.search, command)):
            return list(command)
        if list(command[:2]) == ["sh", "-c"]:
            line = re.sub(rf" (?:{_FOR_REPORTS.pattern})(?=[ )]|$)", "", command[2])
            return ["sh", "-c", re.sub(r" --(?=\)|$)", "", line)]
        words = [word for word in command if not _FOR_REPORTS.fullmatch(word)]
        return words[:-1] if words[-1:] == ["--"] else words

    def advise_command(self, test: Reproduction, names: Sequence[str]) -> str:
        words, known = self.drop_options(test.command), names or self._tests_in(test.text)
        for option, form in itertools.pairwise(self._tests.command):
            fits = option not in words and words[:1] != ["sh"] and 1 <= len(known) <= _MOST_NAMED
            if "{names}" in form and fits:
                form = form if len(known) > 1 else form.replace("({names})", "{names}")
                words[-1:-1] = [option, form.replace("{names}", "|".join(known))]
        return shlex.join(words)

    # Scripts

    @property
    def script_suffix(self) -> str:
        return self.facts.suffixes[0] if self._tests.command else ".sh"

    def script_program(
        self,
        text: str,
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Program:
        tests = self._tests
        if not tests.command:
            judge = {"argv": ["sh", SHELL_PATH], "codes": _VERDICTS}
            place = SHELL_PATH
        else:
            path = self.place_script(text, self.default_path)
            names: list[str] = []
            if any("{names}" in word for word in tests.command):
                text, names = self._rename_tests(text, path)
            judge = {
                "argv": fill(tests.command, path, names),
                "passed": tests.passed,
                "failed": tests.failed,
                "broken": tests.broken,
            }
            place = f"{CHECKOUT}/{path}"
        return Program(
            ("python", "-I", "-c", _read_judge(), json.dumps(judge)),
            diffs=diffs,
            seconds=seconds,
            env=env,
            files={place: text},
            may_share=True,
        )

    def compiles(self, script: str) -> bool:
        """As a language's runner of test files does; a shell script does that names nothing that a
        build makes."""
        made: str = _BUILT
        for way in self.facts.ways:
            made += "".join(rf"|\b{re.escape(name)}\b" for name in way.outputs)
        return bool(self._tests.command) or not re.search(made, script)

    def _rename_tests(self, text: str, path: str) -> tuple[str, list[str]]:
        """The script with names of its own for its tests, and these: they share their names with
        the other files of their folder, and an edit may bring a test of the same one."""
        grammar, data = grammar_of(path), text.encode("utf-8", "replace")
        tree = parse_code(grammar, data) if grammar else None
        names = sorted({match[1] for match in self._name_of_test.finditer(text)})
        if tree is None or not names:
            return text, names

        def rename(match: re.Match[bytes]) -> bytes:
            node = tree.root_node.descendant_for_byte_range(*match.span())
            is_name = node is not None and node.type == "identifier"
            return match[0] + b"Script" * is_name

        own = re.sub(rb"\b(?:%s)\b" % "|".join(names).encode(), rename, data)
        return own.decode(), [f"{name}Script" for name in names]

    @property
    def default_path(self) -> str:
        name = self._tests.file.format(name="capuchin_issue")
        return f"{self._tests.folder}/{name}".lstrip("/")

    def place_script(self, text: str, otherwise: str) -> str:
        """Where a script says, in its first line, that it lies; `otherwise` if it names no place
        for a test."""
        said = re.match(rf"{re.escape(self._tests.comment)} *([\w./-]{{1,200}})[ \r]*\n", text)
        path = said[1] if said else ""
        parts = PurePosixPath(path).parts
        fits = self.is_runnable(path) and ".." not in parts and not path.startswith("/")
        return path if path and fits else otherwise

    def write_control_script(self, text: str, _diff: str, nonce: str, /) -> str:
        if self._tests.command:
            return self.make_fail(text, nonce)
        return _invert(text) if text else ""

    def make_fail(self, text: str, nonce: str) -> str:
        for holds, begins, *made in self._tests.failing:
            failing, end = (part.replace("{nonce}", nonce) for part in made)
            control, count = re.subn(begins, failing, text, flags=re.MULTILINE)
            if count and holds in text:
                return f"{control}\n{end}\n"
        return ""

    async def find_syntax_errors(self, files: Mapping[str, bytes]) -> dict[str, str]:
        texts = {path: data.decode("utf-8", "replace") for path, data in files.items()}
        output = await call_isolated(find_errors, json.dumps(texts).encode(), seconds=20)
        return json.loads(output) if output else {}

    def find_suspicious(self, file: FileDiff) -> Iterator[str]:
        if re.search(self.facts.steers, file.path):
            yield f"changes `{file.path}`, which says how tests run."
        if not self.is_source(file.path):
            return
        for marker, line in (row for hunk in file.hunks for row in hunk.lines):
            if marker == "+" and (word := re.search(self.facts.forges, line[:500])):
                yield f"adds `{word[0]}` to `{file.path}`, which can forge results."


class DescribedRunner(FileRunner):
    """Runs one test file by the words of `language.toml`."""

    tests: TestFiles

    @property
    def style(self) -> str:
        return self.tests.style

    def write_probe(self, beside: str) -> str:
        head = re.search(self.tests.head, beside, re.MULTILINE) if self.tests.head else None
        return self.tests.probe.replace("{head}", head[0] if head else "package probe")

    def command(self, path: str, names: Sequence[str] = ()) -> tuple[str, ...] | None:
        return fill(self.tests.command, path, names)

    def has_passing_test(self, output: str) -> bool:
        return bool(re.search(self.tests.passed, output, re.MULTILINE))

    def has_test_failure(self, run: Execution) -> bool:
        return run.exit_code is not None and bool(
            re.search(self.tests.failed, run.output, re.MULTILINE)
        )

    def is_not_collected(self, run: Execution) -> bool:
        return bool(re.search(self.tests.broken, run.output, re.MULTILINE))


_BUILT = r"\bmake\b|\.(?:a|so|o|la|class|jar|dll)\b|(?:^|[\s;&|(\"'=])\./|-l(?!m\b|pthread)\w"
"""What a build makes: a library, an object, a program beside the sources."""
_ZERO = re.compile(
    r"(\bexit[ \t(]{1,9}|\?[ \t]{0,9}|\breturn[ \t(]{1,9}(?=0\)?;\s{0,9}\}\s{0,9}\w{1,20}\n))0\b"
)
"""The success of a script, or of a program in it: of `return 0;` only the one that ends it."""
_BEGINS = r"(?:^|[;&|({}]|\b(?:then|do|else))[ \t]{0,40}"
_HANDS_ON = re.compile(
    rf"({_BEGINS}exit)(?:[ \t]+[\"'$`][^\s;&|)}}]*)?(?=[ \t]*(?:[;&|)}}#]|$))", re.MULTILINE
)
"""An `exit` with the code of something that ran."""
_EXEC = re.compile(rf"({_BEGINS})exec[ \t]+(?!\d*[<>])", re.MULTILINE)
_PROGRAM_END = re.compile(r"[^;\n'\"]{0,200}[\s;)}]{0,40}(?:['\"]|(?<=\n)(\w{1,20})\n)")
_PROGRAM = re.compile(r"<<|\s-[cer]\s")


def _invert(text: str) -> str:
    """A shell script with every success in it made a failure: it ends with 0 only where the code
    that it runs ends a program, or the script itself, with 0 whatever was asked.

    That a program succeeds without a word is no forgery: the last one's end counts only where that
    program says it itself.
    """
    failing = _ZERO.sub(rf"\g<1>{_SURELY_NOT}", text)
    at = max((one.end() for one in _ZERO.finditer(text)), default=0)
    said, rest = re.search(r"\b(?:exit|return)\b[^;\n{}]{1,300}\Z", text[:at]), text[at:]
    end = _PROGRAM_END.match(rest) if said else None
    within = end and (not end[1] or re.search(rf"<<-?[ \t]*\\?['\"]?{end[1]}\b", text))
    if not end or not within or _PROGRAM.search(rest, end.end()):
        failing = _EXEC.sub(r"\1", _HANDS_ON.sub(rf"\1 {_SURELY_NOT}", failing))
        failing += f"\n\nexit {_SURELY_NOT}"
    return f"(\n{failing}\n)\n[ $? -eq 0 ] && exit 0\nexit {_SURELY_NOT}\n"


def _move(way: Way, folders: Sequence[str]) -> Way:
    """The way in projects that lie in these folders."""
    steps, build = (run_in_each(dict.fromkeys(folders, lines)) for lines in (way.steps, way.build))
    return replace_frozen(way, steps=steps, build=build)


def run_in_each(lines: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Shell lines for projects by their folders. One of several that cannot be built where they are
    installed is left out, there and in every build of an edit; `LEFT_OUT` holds why."""

    def place(folder: str, number: int, line: str) -> str:
        if len(lines) > 1:
            mark, why = f"{LEFT_OUT}{number}", "/tmp/capuchin-why"  # noqa: S108 - the container's
            keep = f"cat {why}; {{ echo {shlex.quote(folder or '.')}; tail -n 50 {why}; }} >{mark}"
            line = (
                f"{{ test -e {mark} || {{ {line}; }} >{why} 2>&1 || {{ {keep}; }} 2>/dev/null; }}"
            )
        return f"cd {shlex.quote(folder)} && {line}" if folder else line

    return tuple(
        place(folder, number, line)
        for number, (folder, own) in enumerate(lines.items())
        for line in own
    )


def _make_report(way: Way, line: str) -> str:
    """A line of CI that starts the program of `way`, as it reports results by name here; empty if
    it does not start it."""
    program = " ".join(itertools.takewhile(lambda word: word[:1] not in "-.{", way.test))
    names = rf"{re.escape(program)}|{way.alias}"
    start = re.match(rf"((?:\w+=\S+ +)*)(?:{names})(?=\s|$)", line)
    if not way.test or start is None:
        return ""
    rest = re.sub(rf"\s(?:{way.without})(?=\s|$)", "", line[start.end() :].split("|")[0]).rstrip()
    return start[1] + " ".join([program, *way.report]) + rest


def read_words(line: str) -> tuple[str, ...]:
    """The words of a command line, for a shell if it needs one; empty if a quote is not closed."""
    with contextlib.suppress(ValueError):
        return ("sh", "-c", line) if needs_shell(line) else tuple(shlex.split(line))
    return ()


def fill(command: Sequence[str], path: str, names: Sequence[str]) -> tuple[str, ...]:
    """The words of a command for the test file `path`, or only its tests `names`."""
    wanted = "|".join(map(re.escape, names)) or ".*"
    return tuple(word.replace("{names}", wanted) for word in repeat_for(command, [path]))


@cache
def _read_judge() -> str:
    return (resources.files("pipeline.languages") / "verdict.py").read_text("utf-8")
