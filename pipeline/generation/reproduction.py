"""Turns the chosen edit's script into a test file of the repository, seen failing, then passing."""

from __future__ import annotations

import re

from pydantic import Field

from pipeline.codebase.commit import Codebase
from pipeline.codebase.conventions import Conventions, Runner
from pipeline.concurrency import gather_all
from pipeline.edits.patches import create_patch
from pipeline.edits.paths import refusal
from pipeline.machine import Machine
from pipeline.options import Options
from pipeline.replies import Malformed, tags
from pipeline.resources import Resources
from pipeline.state import Phase, ReplyKind, State
from pipeline.types import Frozen, Issue, Patch, Reproduction, SourceFile, TestScript, replace
from prompts import render
from sandbox.base import Execution
from sandbox.program import Program

_HEAD = '''"""Runs the script that reproduces the issue: it exits with 0 when the issue is fixed."""

import subprocess
import sys
{imports}
SCRIPT = "\\n".join(
    [
{lines}
    ]
)

'''
_PYTEST = """
def test_{name}():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
"""
_UNITTEST = """
class {case}(unittest.TestCase):
    def test_{name}(self):
        run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
"""
PLAIN_TEST_CLASS = "ReproductionTest"


MAX_FILE_CHARACTERS = 60_000
_TITLE = 100
_WORDS = 2000
_MOST_IMPORT_FAILURES = 2
"""How often a test file that cannot be imported without the edit is sent back before it is taken:
an issue that asks for a new name may leave no other way."""
_USUAL_FOLDERS = ("tests", "test", "")
_NOT_COLLECTED = re.compile(
    r"error(s)? during collection|ERROR collecting|_FailedTest|Failed to import test module", re.I
)


class Draft(Frozen):
    """One answer of the model."""

    text: str
    title: str
    cause: str
    change: str


class ReproductionState(State):
    runner: Runner
    drafts: list[Draft] = Field(default_factory=list[Draft])
    not_collected: int = 0
    """How many drafts failed without the edit because they could not be imported."""
    problem: str = ""
    """What was wrong with the last draft."""
    reproduction: Reproduction | None = None

    @property
    def confirmed(self) -> bool:
        return self.phase is Phase.APPROVED and self.reproduction is not None


class ReproductionMachine(Machine[ReproductionState]):
    """Replies: `<test_file>`, `<title>`, `<cause>` and `<change>`, all four each time."""

    def __init__(
        self,
        resources: Resources,
        *,
        issue: Issue,
        conventions: Conventions,
        patch: Patch,
        script: TestScript,
        example: SourceFile | None,
        path: str,
    ) -> None:
        """`path` is where the test file goes; see `choose_test_path`."""
        super().__init__(resources.model, call="reproduction", attempts=resources.options.attempts)
        self._sandbox = resources.sandbox
        self._codebase = resources.codebase
        self._seconds = resources.options.execution_seconds
        self._issue = issue
        self._conventions = conventions
        self._patch = patch
        self._script = script
        self._example = example
        self._path = path

    @property
    def system(self) -> str:
        return render("reproduction/system")

    def start(self) -> ReproductionState:
        pending = render(
            "reproduction/write",
            issue=self._issue,
            diff=self._patch.diff,
            script=self._script.text,
            path=self._path,
            runner=self._conventions.runner,
            command=" ".join(self._conventions.command_for(self._path)),
            example=self._example,
        )
        return ReproductionState(pending=pending, runner=self._conventions.runner)

    async def read(self, state: ReproductionState, reply: str) -> ReplyKind | Malformed:
        match tags(reply, "test_file", "title", "cause", "change"):
            case Malformed() as malformed:
                return malformed
            case blocks:
                draft = Draft(
                    text=blocks["test_file"].rstrip() + "\n",
                    title=_one_line(blocks["title"], _TITLE),
                    cause=blocks["cause"].strip()[:_WORDS],
                    change=blocks["change"].strip()[:_WORDS],
                )
        empty = [name for name, value in draft if not value.strip()]
        if empty:
            return Malformed(f"The <{empty[0].replace('text', 'test_file')}> block is empty.")
        if len(draft.text) > MAX_FILE_CHARACTERS or "\0" in draft.text:
            return Malformed("The test file is too long or holds a NUL. Keep to what is needed.")
        state.drafts.append(draft)
        return ReplyKind.REVISED

    async def execute(self, state: ReproductionState) -> str | None:
        text = state.drafts[-1].text
        data = text.encode("utf-8", "replace")
        diff = (await create_patch(self._codebase, {self._path: data})).diff
        conventions = replace(self._conventions, runner=state.runner)
        command = conventions.command_for(self._path)
        before, after = await gather_all(
            self._sandbox.run(Program(command, diffs=diffs, seconds=self._seconds))
            for diffs in ((diff,), (self._patch.diff, diff))
        )
        if state.runner == "pytest" and "No module named pytest" in after.output:
            state.runner = "unittest"
            state.problem = "pytest is not installed here. Write the test with unittest alone."
        else:
            state.problem = self._find_problem(state, before, after)
        if not state.problem:
            state.reproduction = Reproduction(
                path=self._path,
                text=data.decode("utf-8"),
                diff=diff,
                command=command,
                before=before,
                after=after,
            )
            return None
        return render(
            "reproduction/review",
            problem=state.problem,
            before=before,
            after=after,
            runner=state.runner,
        )

    def _find_problem(self, state: ReproductionState, before: Execution, after: Execution) -> str:
        """What is wrong with the last draft, as a sentence; empty when nothing is."""
        if not after.passed:
            return "The test file does not pass with the edit."
        if not _has_passing_test(state.runner, after.output):
            return "The test file passes with the edit only because no test in it ran."
        if before.exit_code is None:
            return "Without the edit the test file does not end by itself."
        if before.passed:
            return "The test file passes without the edit, so it does not show the issue."
        if before.exit_code not in (1, 2):
            return "Without the edit the test file could not be run."
        if before.exit_code == 2 or _NOT_COLLECTED.search(before.output):
            state.not_collected += 1
            if state.not_collected <= _MOST_IMPORT_FAILURES:
                return (
                    "Without the edit the test file cannot even be imported. Move what only the "
                    "edit adds into the test functions, so that the test itself fails."
                )
        return ""


def choose_test_path(
    issue: Issue, patch: Patch, conventions: Conventions, codebase: Codebase, options: Options
) -> str | None:
    """Where the test file may go: beside the others if that is allowed, else where tests usually
    are; None when the repository's settings (`never_touch`) allow no such place."""
    added = re.findall(r"^\+\+\+ b/(.*?)\t?$", patch.diff, re.MULTILINE)
    taken = [*codebase.files, *added]
    for folder in dict.fromkeys((conventions.folder, *_USUAL_FOLDERS)):
        there = replace(conventions, folder=folder)
        path = there.fresh_path(issue.title, taken)
        if refusal(path, codebase.files, options.never_touch) is None:
            return path
    return None


def _has_passing_test(runner: Runner, output: str) -> bool:
    """Whether at least one test passed."""
    if runner == "pytest":
        return bool(re.search(r"\b[1-9]\d* passed\b", output))
    counts = re.findall(r"^Ran (\d+) test", output, re.MULTILINE)
    skipped = re.findall(r"^OK \(skipped=(\d+)\)", output, re.MULTILINE)
    return bool(counts) and int(counts[-1]) > (int(skipped[-1]) if skipped else 0)


def _one_line(text: str, characters: int) -> str:
    """`text` as one printable line."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:characters].rstrip(" .")


def render_plain_test(script: TestScript, runner: Runner, words: str) -> str:
    """The text of a test file; `words` (untrusted) give its one test a name."""
    lines = "\n".join(f"        {line!r}," for line in script.text.split("\n"))
    name = "_".join(re.findall(r"[a-z0-9]+", words.lower())[:6])[:48].strip("_") or "issue"
    if runner == "pytest":
        return _HEAD.format(imports="", lines=lines) + _PYTEST.format(name=name)
    test = _UNITTEST.format(name=name, case=PLAIN_TEST_CLASS)
    return _HEAD.format(imports="import unittest\n", lines=lines) + test
