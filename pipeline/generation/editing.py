"""Writes an edit, and may rewrite the script that judges it (CodeMonkeys, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pipeline.codebase import Codebase
from pipeline.edits import patch_from_edit
from pipeline.machine import Attempt, Machine, State
from pipeline.models.base import Message, Model
from pipeline.options import Options
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.together import together
from pipeline.types import Candidate, Context, Issue, Patch, TestScript
from prompts import render
from sandbox.base import Execution, Sandbox

_USABLE = (0, 2)
"""Exit codes by which a script says something about the issue."""


class EditingState(State):
    scripts: list[str]
    """The testing machine's script first."""
    base: list[Execution]
    """`base[i]` is `scripts[i]` on the unedited code."""
    patches: list[Patch] = Field(default_factory=list[Patch])
    edited: list[Execution] = Field(default_factory=list[Execution])
    """Each revision's run: the newest script with the newest edit, as they then were."""

    def candidate(self, sample: int) -> Candidate | None:
        """The last edit, whatever the end, with the last script that says anything on base."""
        if not self.patches:
            return None
        ran = list(zip(self.scripts, self.base, strict=False))
        usable = [script for script, run in ran if run.exit_code in _USABLE]
        reporting = [script for script, run in ran if run.exit_code == 2]
        texts = reporting or usable
        test = TestScript(text=texts[-1]) if texts else None
        return Candidate(sample=sample, patch=self.patches[-1], test=test)


class EditingMachine(Machine[EditingState]):
    """Replies: `<edit>`, then `<edit>`, `<script>` or `<approve/>`."""

    def __init__(
        self,
        model: Model,
        sandbox: Sandbox,
        codebase: Codebase,
        options: Options,
        *,
        issue: Issue,
        context: Context,
        seed: tuple[TestScript, Execution],
        sample: int,
    ) -> None:
        super().__init__(
            model,
            call=f"editing/{sample}",
            attempts=options.attempts,
            temperature=options.temperature,
        )
        self._sandbox = sandbox
        self._codebase = codebase
        self._options = options
        self._issue = issue
        self._context = context
        self._seed = seed

    @property
    def system(self) -> str:
        return render("editing/system", seconds=f"{self._options.execution_seconds:g}")

    def start(self) -> EditingState:
        script, run = self._seed
        shared = render("editing/context", issue=self._issue, files=self._context.files)
        return EditingState(
            messages=[Message(role="user", text=shared)],
            pending=render("editing/write", script=script.text, run=run),
            scripts=[script.text],
            base=[run],
        )

    async def read(self, state: EditingState, reply: str) -> Attempt | Malformed:
        allowed = ("edit", "script", "approve") if state.edited else ("edit",)
        match only_tag(reply, *allowed):
            case Malformed() as malformed:
                return malformed
            case Tag("approve"):
                return Attempt.APPROVED
            case Tag("script", body):
                if not body.strip():
                    return Malformed("The <script> block is empty. Send the whole script.")
                state.scripts.append(body + "\n")
            case Tag(_, body):
                patch = await self._patch(body)
                if isinstance(patch, Malformed):
                    return patch
                state.patches.append(patch)
        return Attempt.REVISED

    async def _patch(self, body: str) -> Patch | Malformed:
        known = [file.path for file in self._context.files]
        return await patch_from_edit(
            body,
            self._codebase,
            known=known,
            never_touch=self._options.never_touch,
            allow_lock_files=self._options.allow_lock_files,
        )

    async def execute(self, state: EditingState) -> str:
        new_script = len(state.base) < len(state.scripts)
        edits: Sequence[Sequence[str]] = [(state.patches[-1].diff,)]
        runs = await together(
            self._sandbox.run_script(
                state.scripts[-1], diffs=diffs, seconds=self._options.execution_seconds
            )
            for diffs in (*edits, *([()] if new_script else []))
        )
        state.edited.append(runs[0])
        state.base.extend(runs[1:])
        return render("editing/review", before=state.base[-1], after=state.edited[-1])
