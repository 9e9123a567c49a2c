"""An editing machine that follows a review, or rewrites a change that no longer fits its base.

It ends with an answer to the reviewers, and with an edit only if the reproduction test passes.
"""

import re
from collections.abc import Sequence

from pydantic import Field

from pipeline.concurrency import gather_all, gather_two
from pipeline.context.tokens import estimate_tokens
from pipeline.data.code_places import SourceFile
from pipeline.data.suite_reports import SuiteReport
from pipeline.data.types import Issue, Patch
from pipeline.edits.formatted import format_edit
from pipeline.edits.read import read_edit
from pipeline.generation.diversity import OwnTests
from pipeline.generation.editing import tell_broken
from pipeline.machine import Machine
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.resources import Resources, drive_on_budget
from pipeline.run_errors import Ceiling
from pipeline.state import Phase, ReplyKind, State
from prompts.templates import render
from sandbox.frozen import Frozen
from sandbox.program import Execution


class RevisionTask(Frozen):
    """The task of changing a pull request. Everything in it is data, never an instruction to us."""

    issue: Issue
    diff: str
    feedback: tuple[str, ...] = ()
    """The reviewers' texts, oldest first, each beginning with author and place."""
    logs: tuple[str, ...] = ()
    """The output of failing checks."""
    conflicts: bool = False
    """The codebase is a newer base that `diff` does not fit; the change must be rewritten."""
    files: tuple[str, ...]
    """Paths of the codebase that the model sees, as far as they fit."""
    test: str
    test_files: tuple[str, ...] = ()
    """All files of the reproduction test: they are the evidence, and must not change."""
    test_diff: str = ""
    """Adds the test if the codebase does not contain it."""
    command: tuple[str, ...]


class Revision(Frozen):
    patch: Patch | None
    """Relative to the codebase; None if there is no change, or none that is still needed."""
    answer: str
    """The model's answer to the reviewers; empty if it did not finish. Untrusted."""
    replies: tuple[str, ...] = ()
    """Parallel to the task's `feedback`: the part of the answer to each; empty for those without
    one. If the tuple is empty, all of `answer` is for everyone. Untrusted."""
    spent_ceiling: Ceiling | None = None
    """The owner of the ceiling that ended the work early; None if it finished."""
    ended: str = ""
    """What else ended it early, as a clause; empty if it finished."""

    def reply_to(self, place: int) -> str:
        """The answer to the review at `place` of the feedback."""
        own = self.replies[place] if place < len(self.replies) else ""
        return own or self.answer


REVISING_KEY = "revising"


class ReviseState(State):
    before: Execution | None = None
    """The test without any edit; only if the change is rewritten."""
    patches: list[Patch] = Field(default_factory=list[Patch])
    runs: list[Execution] = Field(default_factory=list[Execution])
    """Parallel to `patches`: the reproduction test with the edit."""
    answer: str = ""
    reminded: bool = False
    """Whether the model was reminded once that a review has no answer."""
    refused: bool = False
    """Whether an edit of its was not taken, of which it is reminded once."""


class ReviseMachine(Machine[ReviseState]):
    """Replies: `<edit>` or `<answer>`; an `<answer>` ends it."""

    def __init__(
        self,
        resources: Resources,
        *,
        task: RevisionTask,
        files: Sequence[SourceFile],
        own_tests: OwnTests | None,
    ) -> None:
        options = resources.options
        super().__init__(
            resources.model,
            call="revising",
            attempts=options.attempts,
            temperature=options.temperature,
        )
        self._resources = resources
        self._task = task
        self._files = files
        self._own_tests = own_tests

    @property
    def system(self) -> str:
        return render("revising/system", language=self._resources.describe_language())

    def start(self) -> ReviseState:
        return ReviseState(
            pending=render("revising/write", task=self._task, issue=self._task.issue,
                           files=self._files)
        )  # fmt: skip

    async def read(self, state: ReviseState, reply: str) -> ReplyKind | Malformed:
        match only_tag(reply, "edit", "answer"):
            case Malformed() as malformed:
                return malformed
            case Tag("answer", body):
                return self._accept_answer(state, body)
            case Tag(_, body):
                edited = await read_edit(
                    body,
                    self._resources.codebase,
                    known=[file.path for file in self._files],
                    never_touch=self._resources.options.never_touch,
                )
                if isinstance(edited, Malformed):
                    state.refused = True
                    return edited
                for path in (*self._task.test_files, self._task.test):
                    if path in edited.contents:
                        return Malformed(f"Leave {path} as it is: it is the evidence.")
                r = self._resources
                state.patches.append(await format_edit(edited.patch, r.codebase, r.sandbox))
                return ReplyKind.REVISED

    def _accept_answer(self, state: ReviseState, body: str) -> ReplyKind | Malformed:
        if not body.strip():
            return Malformed("The <answer> block is empty. Tell the reviewers what you did.")
        if state.runs and not state.runs[-1].passed:
            return Malformed(
                "With your edit the reproduction test does not pass, so it cannot be pushed. "
                "Send an <edit> with which it does."
            )
        if self._task.conflicts and not state.patches:
            return Malformed("Without an <edit> there is nothing to push. Send one.")
        if state.refused and not state.patches:
            state.refused = False
            return Malformed(
                "None of your edits was taken, so nothing is changed. Send the <edit> again, or an "
                "<answer> that speaks of no change."
            )
        count = len(self._task.feedback)
        texts = split_replies(body, count) or ("",) * count
        if count > 1 and not all(texts) and not state.reminded:
            state.reminded = True
            left = ", ".join(f"[{place}]" for place, text in enumerate(texts, 1) if not text)
            return Malformed(
                "Answer each review in a paragraph of its own that begins with its number. "
                f"Missing: {left}. Send the <answer> again, whole."
            )
        state.answer = body.strip()[:2000]
        return ReplyKind.APPROVED

    async def execute(self, state: ReviseState) -> str:
        diff = state.patches[-1].diff
        batch = [diff, ""] if self._task.conflicts and state.before is None else [diff]
        runs, report = await gather_two(self._run(batch), self._compare(diff))
        state.runs += runs[:1]
        state.before = runs[1] if len(runs) > 1 else state.before
        return render(
            "revising/review",
            diff=diff,
            after=runs[0] if runs else None,
            before=state.before,
            **tell_broken(report),
        )

    async def _run(self, edits: Sequence[str]) -> list[Execution]:
        task = self._task
        if not task.command:
            return []
        return await gather_all(
            self._resources.run(task.command, edit, task.test_diff) for edit in edits
        )

    async def _compare(self, diff: str) -> SuiteReport | None:
        return await self._own_tests.compare(diff) if self._own_tests else None


async def revise(
    task: RevisionTask, resources: Resources, *, own_tests: OwnTests | None = None
) -> Revision:
    """Carry out `task`; the codebase is the head, or the newer base.

    Raises:
        ModelError, SandboxError: call again with the same store to resume.
    """
    machine = ReviseMachine(
        resources, task=task, files=await _read_files(task, resources), own_tests=own_tests
    )
    state = await drive_on_budget(machine, ReviseState, resources.store, REVISING_KEY)
    if state.phase is not Phase.APPROVED:
        ended = state.describe_end()
        return Revision(patch=None, answer="", spent_ceiling=state.reached, ended=ended)
    red = state.before is None or (not state.before.passed and state.before.exit_code is not None)
    patch = state.patches[-1] if state.patches and red else None
    replies = split_replies(state.answer, len(task.feedback))
    return Revision(patch=patch, answer=state.answer, replies=replies)


def split_replies(answer: str, count: int) -> tuple[str, ...]:
    """Split an answer by its `[1] …` marks into one for each of `count` reviews; empty without
    marks.

    Text for all reviews goes to the first. A mark without a review is ordinary text.
    """
    parts = [""]
    places = [0]
    at = 0
    for mark in re.finditer(
        r"^[ \t]*(?:[-*][ \t]+)?(?:\*\*)?\[(\d{1,3})\](?:\*\*)?:?[ \t]*", answer, re.M
    ):
        if 1 <= int(mark[1]) <= count:
            parts[-1] += answer[at : mark.start()]
            at = mark.end()
            parts.append("")
            places.append(int(mark[1]))
    parts[-1] += answer[at:]
    texts = [""] * (count + 1)
    for place, text in zip(places, parts, strict=True):
        texts[place] = "\n\n".join(filter(None, (texts[place], text.strip())))
    if not any(texts[1:]):
        return ()
    texts[1] = "\n\n".join(filter(None, (texts[0], texts[1])))
    return tuple(texts[1:])


async def _read_files(task: RevisionTask, resources: Resources) -> list[SourceFile]:
    codebase, left = resources.codebase, resources.options.context_tokens
    shown: list[SourceFile] = []
    for path in dict.fromkeys((*task.files, task.test)):
        text = await codebase.read_text(path) if path in codebase.files else None
        tokens = estimate_tokens(text) if text else 0
        if text and tokens <= left:
            shown.append(SourceFile(path=path, text=text, tokens=tokens))
            left -= tokens
    return shown
