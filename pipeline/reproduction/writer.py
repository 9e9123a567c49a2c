"""Asks a model for the reproduction test in the repository's own style, and for a description.

The test extends the nearest test file, or is a new file beside it. Correct blocks are kept: the
model is asked again only for missing or wrong ones.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from pipeline.data.code_places import SourceFile
from pipeline.data.types import Issue, Patch, Reproduction, TestScript
from pipeline.edits.patches import create_patch
from pipeline.edits.read import read_edit
from pipeline.edits.references import drop_made_up_numbers
from pipeline.edits.suspicious import find_removed_tests
from pipeline.languages.file_runner import FileRunner
from pipeline.languages.registry import language_of
from pipeline.machine import Machine
from pipeline.replies import Malformed, some_tags
from pipeline.reproduction.red_green import (
    RedGreen,
    fails_elsewhere,
    find_problem,
    run_red_green,
    tell_error,
)
from pipeline.resources import Resources
from pipeline.state import Phase, ReplyKind, State
from prompts.templates import render
from sandbox.frozen import Frozen
from sandbox.program import Execution

_TITLE = 100
_WORDS = 2000
_NAMES = ("title", "cause", "change")


class TestPlan(Frozen):
    """The possible places of the model's test, and its runner."""

    __test__ = False

    runner: FileRunner
    extends: SourceFile | None
    """The test file to extend; None if none is near."""
    path: str
    """The path of a new test file; empty if none is allowed."""
    example: SourceFile | None = None
    """A test file that shows the style of a new one."""


class FoundOut(NamedTuple):
    """A script by which the edit was chosen, without and with it."""

    text: str
    before: Execution
    after: Execution


class Draft(Frozen):
    path: str
    text: str
    """The whole file at that time."""
    diff: str
    rung: Literal["extension", "new file"]


class ReproductionState(State):
    title: str = ""
    cause: str = ""
    change: str = ""
    elsewhere: str = ""
    """A script that reaches the changed lines from elsewhere; empty if the model sent none."""
    asked: bool = False
    """Whether the model says that the issue itself asks for what this script checks."""
    drafts: list[Draft] = Field(default_factory=list[Draft])
    awaits_test: bool = True
    """Whether the test must still be written or rewritten."""
    failed_extensions: int = 0
    not_collected: int = 0
    """How many drafts failed without the edit because they could not be imported."""
    problem: str = ""
    hopeless: bool = False
    """Whether the last draft failed alike on both sides for an outside reason: a rewrite would
    too."""
    reproduction: Reproduction | None = None

    @property
    def has_words(self) -> bool:
        """Whether the model has named and described the edit."""
        return all((self.title, self.cause, self.change))


class ReproductionMachine(Machine[ReproductionState]):
    """Replies: `<edit>` or `<test_file>`, and `<title>`, `<cause>` and `<change>` once; perhaps a
    `<script>` that reaches the changed lines from elsewhere."""

    def __init__(
        self,
        resources: Resources,
        *,
        issue: Issue,
        patch: Patch,
        script: TestScript,
        plan: TestPlan | None,
        found: Sequence[FoundOut] = (),
        said: Sequence[str] = (),
        rival: str = "",
        subjects: Sequence[str] = (),
        files: Sequence[SourceFile] = (),
    ) -> None:
        """Without a `plan`, the machine asks only for the description. `found`, `said`: the scripts
        by which the edit was chosen, and what models said of it and of the others. `rival`: the
        diff of another edit that behaves alike in all that was run. `subjects`: those of the latest
        commits, whose form the title takes. `files`: those that the edit changes, without it."""
        super().__init__(resources.model, call="reproduction", attempts=resources.options.attempts)
        self._resources = resources
        self._codebase = resources.codebase
        self._issue = issue
        self._patch = patch
        self._script = script
        self._plan = plan
        self._found = found
        self._said = said
        self._rival = rival
        self._subjects = subjects
        self._files = files

    @property
    def system(self) -> str:
        return render("reproduction/system", wants_test=self._plan is not None)

    def start(self) -> ReproductionState:
        plan = self._plan
        pending = render(
            "reproduction/write",
            language=self._resources.describe_language(),
            seconds=f"{self._resources.options.execution_seconds:g}",
            issue=self._issue,
            diff=self._patch.diff,
            script=self._script.text,
            deciding=self._found,
            said=self._said,
            rival=self._rival,
            subjects=self._subjects,
            files=self._files,
            plan=plan,
            command=self._command_words(plan),
        )
        return ReproductionState(pending=pending, awaits_test=plan is not None)

    def _command_words(self, plan: TestPlan | None) -> str:
        if plan is None:
            return ""
        path = plan.extends.path if plan.extends else plan.path
        return " ".join(plan.runner.command(path) or plan.runner.argv)

    def _may_extend(self, state: ReproductionState) -> bool:
        there = self._plan is not None and self._plan.extends is not None
        return there and state.failed_extensions < 3

    async def read(self, state: ReproductionState, reply: str) -> ReplyKind | Malformed:
        found = some_tags(reply, "edit", "test_file", "script", "asked", *_NAMES)
        if isinstance(found, Malformed):
            return found
        self._keep_words(state, found)
        hint = await self._read_test(state, found) if state.awaits_test else ""
        missing = [f"<{name}>" for name in _NAMES if not getattr(state, name)]
        if hint or missing:
            wanted = f"Send {', '.join(missing)}." if missing else ""
            kept = "" if missing and hint else "What you sent besides is kept."
            return Malformed(" ".join(filter(None, (hint, wanted, kept))))
        return ReplyKind.APPROVED if self._plan is None else ReplyKind.REVISED

    def _keep_words(self, state: ReproductionState, found: dict[str, str]) -> None:
        words = {
            name: drop_made_up_numbers(found[name], self._issue, self._patch.diff)
            for name in _NAMES
            if name in found
        }
        printable = "".join(c if c.isprintable() else " " for c in words.get("title", ""))
        sentence = " ".join(printable.split())
        if title := sentence[:_TITLE].rstrip(" ."):
            state.title = title
        script = found.get("script", "").strip()
        if script:
            state.elsewhere, state.asked = f"{script}\n", "asked" in found
        state.cause = words.get("cause", "").strip()[:_WORDS] or state.cause
        state.change = words.get("change", "").strip()[:_WORDS] or state.change

    async def _read_test(self, state: ReproductionState, found: dict[str, str]) -> str:
        """Record the test, or return what is wrong with it."""
        assert self._plan is not None
        edit, text = found.get("edit", "").strip(), found.get("test_file", "").strip()
        extends = self._plan.extends
        wanted = "<edit>" if self._may_extend(state) else "<test_file>"
        if edit and text:
            return "Your reply holds an <edit> and a <test_file>. Send one of them."
        if not edit and not text:
            return f"Your reply holds no {wanted} block, closed on a line of its own. Send it."
        if edit and not (extends and self._may_extend(state)):
            return "Send the test as a new file, whole, in one <test_file> block."
        if text and not self._plan.path:
            return "There is no place for a new file. Send an <edit>."
        draft = (
            await self._read_extension(found["edit"], extends)
            if edit and extends
            else await self._read_file(found["test_file"])
        )
        if isinstance(draft, str):
            return draft
        state.drafts.append(draft)
        state.awaits_test = False
        return ""

    async def _read_extension(self, body: str, extends: SourceFile) -> Draft | str:
        never = self._resources.options.never_touch
        edited = await read_edit(body, self._codebase, known=[extends.path], never_touch=never)
        if isinstance(edited, Malformed):
            return edited.hint
        data = edited.contents.get(extends.path)
        if set(edited.contents) != {extends.path} or data is None:
            return (
                f"Your <edit> may change {extends.path} alone, and must not delete it: let the "
                "test itself make the files that it needs."
            )
        if lost := find_removed_tests(edited.patch.diff):
            return f"Leave the tests that are there: your <edit> removes {', '.join(lost[:5])}."
        return Draft(
            path=extends.path,
            text=data.decode("utf-8", "replace"),
            diff=edited.patch.diff,
            rung="extension",
        )

    async def _read_file(self, body: str) -> Draft | str:
        assert self._plan is not None
        text = body.rstrip() + "\n"
        if len(text) > 60_000 or "\0" in text:
            return "The test file is too long or holds a NUL. Keep to what is needed."
        data = text.encode("utf-8", "replace")
        path = self._plan.path
        diff = (await create_patch(self._codebase, {path: data})).diff
        return Draft(path=path, text=data.decode("utf-8"), diff=diff, rung="new file")

    async def execute(self, state: ReproductionState) -> str | None:
        assert self._plan is not None
        draft = state.drafts[-1]
        runs = await self._run(draft)
        if runs is None:
            state.problem = "The runner cannot run a file in that place."
            state.hopeless = True
            return None
        state.problem = self._find_problem(state, runs)
        if not state.problem:
            state.reproduction = runs.show(draft.path, draft.text, draft.diff, draft.rung)
            return None
        if fails_elsewhere(self._plan.runner, runs, [draft.path]):
            why = tell_error(draft.path, runs.after)
            state.problem = f"The tests fail alike with and without the edit: {why}"
            state.hopeless = True
            return None
        state.awaits_test = True
        state.failed_extensions += draft.rung == "extension"
        return render(
            "reproduction/review",
            problem=state.problem,
            before=runs.before,
            after=runs.after,
            command=" ".join(runs.command),
            style=self._plan.runner.style,
            extends=self._plan.extends if self._may_extend(state) else None,
            path=self._plan.path,
        )

    async def _run(self, draft: Draft) -> RedGreen | None:
        """Run the draft: the whole file, or only its new tests if others in it fail."""
        assert self._plan is not None
        runner = self._plan.runner
        whole = runner.command(draft.path)
        added = (
            language_of(draft.path).find_added_tests(draft.diff, draft.path, draft.text)
            if draft.rung == "extension"
            else ()
        )
        alone = runner.command(draft.path, added) if added else None
        runs: RedGreen | None = None
        for command in filter(None, (whole, alone)):
            runs = await run_red_green(
                self._resources, command, test=draft.diff, edit=self._patch.diff
            )
            if runs.after.passed:
                break
        return runs

    def _find_problem(self, state: ReproductionState, runs: RedGreen) -> str:
        assert self._plan is not None
        problem = find_problem(self._plan.runner, runs)
        if problem or not self._plan.runner.is_not_collected(runs.before):
            return problem
        state.not_collected += 1
        # An issue that asks for a new name may leave no other way, so the third try is accepted.
        if state.not_collected > 2:
            return ""
        return (
            "Without the edit the test file cannot even be imported. Move what only the edit adds "
            "into the test functions, so that the test itself fails."
        )


def is_finished(state: ReproductionState) -> bool:
    """Whether the machine ended with an accepted test."""
    return state.phase is Phase.APPROVED and state.reproduction is not None
