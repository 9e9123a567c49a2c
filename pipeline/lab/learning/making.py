"""Bugs made on purpose, for teams with one repository (after SWE-smith, arXiv 2504.21798)."""

import asyncio
import re
import textwrap
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git
from pipeline.codebase.unified_diff import parse_diff, split_diff
from pipeline.context.outline import Definition, outline_of
from pipeline.edits.patches import create_patch, read_patched, stream_commit
from pipeline.lab.learning.collect import MOST_FILES, is_code
from pipeline.languages.conventions import is_test
from pipeline.languages.mutants import spoil
from pipeline.languages.registry import language_of, scan_codebase
from pipeline.models.base import Message, Model, ModelRequest
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.replies import Malformed, only_tag, tags
from pipeline.resources import Resources
from pipeline.store import digest, load_or_run
from prompts.templates import render
from sandbox.frozen import Frozen

SECONDS = 900.0
"""Of processor time, for each run of tests."""
_COMMITS = 1000
"""The newest of the main line, of which some may be undone."""
_LARGEST = 60_000
"""Characters of a file of which a model writes a function anew, and of a commit's diff."""

Strategy = Literal["func_pm", "combine_file", "combine_module", "pr_mirror", "lm_rewrite"]
"""How a bug was made, by SWE-smith's names: one fault in a function; two in one file or one folder;
a commit undone; a function that a model wrote anew."""


class Function(NamedTuple):
    """A function that passing tests run."""

    path: str
    first: int
    """Lines count from 1."""
    last: int
    tests: frozenset[str]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.first}"


@dataclass(frozen=True)
class BugCandidate:
    """Changed code, which is a bug if tests notice it."""

    strategy: Strategy
    places: tuple[str, ...]
    """The functions or the commit of which it is made; no two bugs of one kind share any."""
    changes: Mapping[str, bytes | None]
    """The whole files; None: there is none."""
    tests: frozenset[str]
    """Those that run what is changed."""


@dataclass(frozen=True)
class Bug:
    """Changed code that some tests notice."""

    made: BugCandidate
    diff: str
    failing: tuple[str, ...]
    files: tuple[str, ...]
    """The files of the failing tests."""
    output: str
    """What the tests print with the bug. Untrusted."""

    @property
    def name(self) -> str:
        return digest(self.diff)[:12]


class _Answer(Frozen):
    text: str


class BugMaker:
    """Makes bugs in one codebase. Every run of tests and every answer is saved."""

    def __init__(self, resources: Resources) -> None:
        self._space = resources
        self._single: dict[str, Bug | None] = {}

    async def make(self, count: int) -> AsyncIterator[Bug]:
        """At most `count` bugs, the same each time, of each kind in turns; a kind of which tests
        notice no more leaves its turns to others.

        Raises as `Sandbox.run` and `Model.complete`.
        """
        base = await self._run_base()
        if base is None:
            return
        candidates = (self._spoil(base), self._combine(base), self._undo(base),
                      self._rewrite(base, count))  # fmt: skip
        turns = deque(self._keep_each(base, kind) for kind in candidates)
        names = set[str]()
        while turns and len(names) < count:
            kind = turns.popleft()
            bug = await anext(kind, None)
            if bug is not None:
                turns.append(kind)
                if bug.name not in names:
                    names.add(bug.name)
                    yield bug

    async def _run_base(self) -> "_Base | None":
        """The first command that tells which functions its passing tests run."""
        space = self._space
        for command in await find_commands(space.codebase, space.options.test_command):
            runner = TestRunner(command, sandbox=space.sandbox, store=space.store, seconds=SECONDS)
            run = await runner.run("", RequestedTests(functions=True))
            if run.suite.passed and run.ran:
                scan = await scan_codebase(space.codebase)
                return _Base(runner, run, _list_functions(run, scan.functions))
        return None

    async def _keep_each(
        self, base: "_Base", candidates: AsyncIterator[BugCandidate]
    ) -> AsyncIterator[Bug]:
        used = set[str]()
        async for one in candidates:
            if used.isdisjoint(one.places) and (bug := await self._keep(base, one)):
                used.update(one.places)
                yield bug

    async def _keep(self, base: "_Base", made: BugCandidate) -> Bug | None:
        """The bug, if tests notice it each time, and not all of them."""
        files = {base.run.files[name] for name in made.tests if name in base.run.files}
        patch = await create_patch(self._space.codebase, made.changes)
        if not files or not patch.diff:
            return None
        wanted = RequestedTests(files=base.runner.command.covers(sorted(files)))
        runs = [await base.runner.run(patch.diff, wanted, attempt) for attempt in range(2)]
        before = {name for name in base.run.suite.passed if base.run.files.get(name) in files}
        failing = before - set(runs[0].suite.passed) - set(runs[1].suite.passed)
        if not failing or not all(run.suite.passed and run.ended for run in runs):
            return None
        return Bug(
            made,
            patch.diff,
            tuple(sorted(failing)),
            tuple(sorted({base.run.files[name] for name in failing})),
            runs[0].suite.execution.output,
        )

    async def _spoil(self, base: "_Base") -> AsyncIterator[BugCandidate]:
        for function in base.functions:
            async for one in self._spoil_function(function):
                yield one

    async def _spoil_function(self, function: Function) -> AsyncIterator[BugCandidate]:
        text = await self._space.codebase.read_text(function.path)
        async for spoilt in list_faults(function.path, text or "", (function.first, function.last)):
            changes = {function.path: spoilt.encode()}
            yield BugCandidate("func_pm", (function.place,), changes, function.tests)

    async def _combine(self, base: "_Base") -> AsyncIterator[BugCandidate]:
        """Two faults, each noticed alone, in functions that one test runs."""
        for one, other in combinations(base.functions, 2):
            if one.path == other.path:
                near = one.last < other.first or other.last < one.first
            else:
                near = PurePosixPath(one.path).parent == PurePosixPath(other.path).parent
            if not near or one.tests.isdisjoint(other.tests):
                continue
            first = await self._spoil_once(base, one)
            second = await self._spoil_once(base, other) if first else None
            if first and second:
                yield _join(first, second, one, other)

    async def _spoil_once(self, base: "_Base", function: Function) -> Bug | None:
        """The first fault of a function that tests notice."""
        if function.place not in self._single:
            found = [bug async for bug in self._keep_each(base, self._spoil_function(function))]
            self._single[function.place] = found[0] if found else None
        return self._single[function.place]

    async def _undo(self, base: "_Base") -> AsyncIterator[BugCandidate]:
        """The newest commits with tests, without what they did to 1 to 5 files of code."""
        codebase = self._space.codebase
        log = await git(
            codebase.git_dir, "log", "--first-parent", "--no-merges", f"--max-count={_COMMITS}",
            "--format=%H %P", codebase.commit,
        )  # fmt: skip
        for line in log.decode().splitlines():
            commit, _, parent = line.partition(" ")
            try:
                diff = await git(
                    codebase.git_dir, "diff", "--no-ext-diff", "--no-color", "--no-textconv",
                    "--no-renames", commit, parent or commit,
                )  # fmt: skip
                text = diff.decode() if len(diff) <= _LARGEST else ""
                paths = {file.path for file in parse_diff(text)}
                tests = {path for path in paths if is_test(path)}
                code = {path for path in paths - tests if is_code(path)}
                if not tests or not 1 <= len(code) <= MOST_FILES:
                    continue
                undone, _ = split_diff(text, lambda file, own=code: file.path in own)
                files = await read_patched(codebase, undone)
            except (GitFailed, UnicodeDecodeError):  # it does not apply, or a clone is shallow
                continue
            changes = {path: file and file.content for path, file in files.items()}
            running = {name for one in base.functions if one.path in code for name in one.tests}
            running |= {name for name, path in base.run.files.items() if path in tests}
            yield BugCandidate("pr_mirror", (commit,), changes, frozenset(running))

    async def _rewrite(self, base: "_Base", most: int) -> AsyncIterator[BugCandidate]:
        """At most `most` functions as the model writes them, which sees all but their bodies."""
        for function in base.functions:
            text = await self._space.codebase.read_text(function.path)
            if not most or not text or len(text) > _LARGEST:
                continue
            cut = await asyncio.to_thread(cut_body, function.path, text, function)
            if cut is None:
                continue
            most -= 1
            answer = only_tag((await self._ask(function.path, cut)).text, "answer")
            if isinstance(answer, Malformed):
                continue
            new = await asyncio.to_thread(put_body, function.path, text, cut, answer.body)
            files = {function.path: new.encode()}
            if new and not await language_of(function.path).find_syntax_errors(files):
                yield BugCandidate("lm_rewrite", (function.place,), files, function.tests)

    async def _ask(self, path: str, cut: "CutFunction") -> _Answer:
        key = f"making/rewrite/{digest(path, cut.text)}"
        text = render("rewriting/write", path=path, text=cut.text, head=cut.head)
        request = ModelRequest(
            system=render("rewriting/system"),
            messages=(Message(role="user", text=text),),
            call=key,
            max_tokens=8000,
        )

        async def ask() -> _Answer:
            return _Answer(text=(await self._space.model.complete(request)).text)

        return await load_or_run(self._space.store, key, _Answer, ask)


class _Base(NamedTuple):
    """The tests of the unedited code, and the functions that they run, in an order by chance."""

    runner: TestRunner
    run: TestRun
    functions: list[Function]


def _list_functions(run: TestRun, spans: Mapping[str, Iterable[tuple[int, int]]]) -> list[Function]:
    passed = set(run.suite.passed)
    found = [
        Function(path, *span, frozenset({run.names[at] for at in run.ran[place]} & passed))
        for path in spans
        for span in spans[path]
        if (place := f"{path}:{span[0]}") in run.ran and not is_test(path)
    ]
    return sorted((one for one in found if one.tests), key=lambda one: digest(one.place))


def _join(first: Bug, second: Bug, one: Function, other: Function) -> BugCandidate:
    """Both faults. Each has as many lines as the code without it."""
    changes = {**first.made.changes, **second.made.changes}
    if one.path == other.path:
        lines = (first.made.changes[one.path] or b"").split(b"\n")
        spoilt = (second.made.changes[one.path] or b"").split(b"\n")
        lines[other.first - 1 : other.last] = spoilt[other.first - 1 : other.last]
        changes[one.path] = b"\n".join(lines)
    strategy = "combine_file" if one.path == other.path else "combine_module"
    return BugCandidate(strategy, (one.place, other.place), changes, one.tests | other.tests)


class CutFunction(NamedTuple):
    """A file without the body of one function."""

    text: str
    head: str
    """The first line of the function."""
    definition: Definition


_DOCSTRING = re.compile(r"""\s*[rRuU]?("{3}|'{3}).*?\1[^\n]*(?:\n|\Z)""", re.DOTALL)


def cut_body(path: str, text: str, function: Function) -> CutFunction | None:
    """The file without the function's body; its docstring stays. None if it is one line, or no
    grammar reads it."""
    inside = [
        one
        for one in outline_of(path, text).definitions
        if function.first - 1 <= one.first < one.body and one.last == function.last - 1
    ]
    if not inside:
        return None
    own = min(inside, key=lambda one: one.first)
    lines = text.split("\n")
    body = "\n".join(lines[own.body : own.last + 1]) + "\n"
    documented = _DOCSTRING.match(body)
    kept = documented[0].rstrip("\n").split("\n") if documented else []
    indent = re.match(r"\s*", lines[own.body])
    hole = f"{indent[0] if indent else ''}...  # TODO"
    shown = [*lines[: own.body], *kept, hole, *lines[own.last + 1 :]]
    return CutFunction("\n".join(shown), lines[own.first].strip(), own)


def put_body(path: str, text: str, cut: CutFunction, answer: str) -> str:
    """The file with the function of `answer`; empty if that has another signature, or is the same
    as before."""
    own = cut.definition
    lines, said = text.split("\n"), textwrap.dedent(answer).split("\n")
    at = next((row for row, line in enumerate(said) if line.strip() == cut.head), None)
    if at is None:
        return ""
    indent = re.match(r"\s*", lines[own.first])
    written = textwrap.dedent("\n".join(said[at:])).rstrip()
    written = textwrap.indent(written, indent[0] if indent else "")
    new = "\n".join([*lines[: own.first], written, *lines[own.last + 1 :]])
    last = own.first + written.count("\n")
    same = any(
        (one.first, one.last, one.head) == (own.first, last, own.head)
        for one in outline_of(path, new).definitions
    )
    return new if same and new != text else ""


async def list_faults(path: str, text: str, span: tuple[int, int]) -> AsyncIterator[str]:
    """Versions of a file, each with one thing wrong in the lines of `span`, first and last."""
    lines = text.split("\n")
    first, last = span
    own = lines[first - 1 : last]
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1,{len(own)} @@\n"
    for version in await spoil(head + "\n".join(f"+{line}" for line in own)):
        spoilt = [line[1:] for line in version.removeprefix(head).split("\n")]
        if version.startswith(head) and len(spoilt) == len(own):
            yield "\n".join([*lines[: first - 1], *spoilt, *lines[last:]])


def remove_tests(path: str, text: str, names: Iterable[str]) -> str:
    """A file of tests without the functions of these tests; empty if none is left."""
    words = {re.split(r"::|\.", name.partition("[")[0])[-1] for name in names}
    lines = text.split("\n")
    gone = {
        row
        for one in outline_of(path, text).definitions
        if words & set(re.findall(r"\bdef (\w+)", one.head))
        for row in range(one.first, one.last + 1)
    }
    left = "\n".join(line for row, line in enumerate(lines) if row not in gone)
    return left if re.search(r"\bdef test", left) else ""


async def keep_bug(codebase: Codebase, bug: Bug) -> tuple[str, Mapping[str, bytes]]:
    """Commit `bug`, without the tests that notice it, into the codebase's repository.

    Returns the commit, under `refs/capuchin/made`, and what the files of those tests were.

    Raises:
        GitFailed: the repository cannot be written.
    """
    tests = await codebase.read_all(bug.files)
    changes = dict(bug.made.changes)
    for path, data in tests.items():
        left = remove_tests(path, data.decode("utf-8", "replace"), bug.failing)
        changes[path] = left.encode() if left else None
    ref = f"refs/capuchin/made/{bug.name}"
    # Environments are of the commit's date.
    date = await git(codebase.git_dir, "show", "-s", "--format=%ct", codebase.commit)
    await git(
        codebase.git_dir, "fast-import", "--quiet", "--force",
        input=stream_commit(codebase, changes, ref, seconds=int(date)),
    )  # fmt: skip
    commit = await git(codebase.git_dir, "rev-parse", ref)
    return commit.decode().strip(), tests


async def write_issue(model: Model, bug: Bug) -> tuple[str, str]:
    """Title and body of an issue about `bug`, as a user would write it. Untrusted.

    Raises:
        ModelError: the model cannot be asked.
    """
    request = ModelRequest(
        system=render("making/system"),
        messages=(
            Message(role="user", text=render("making/write", diff=bug.diff, output=bug.output)),
        ),
        call=f"making/{bug.name}",
        max_tokens=2000,
    )
    answer = tags((await model.complete(request)).text, "title", "answer")
    if isinstance(answer, Malformed):
        return "", ""
    return " ".join(answer["title"].split()), answer["answer"].strip()
