"""The selector alone: chooses among edits from any source for an issue in a codebase.

edits ─▶ Adopted ─▶ their tests, given tests, or else written tests ─▶ Judge ─▶ Choice
"""

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.concurrency import gather_bounded
from pipeline.data.types import Issue, NoFix, TestScript
from pipeline.edits.external import ExternalEdit, ImportedEdits, import_edits
from pipeline.edits.suspicious import find_suspicious
from pipeline.generation.testing import write_script
from pipeline.languages.registry import detect_conventions, main_language
from pipeline.models.base import Model, Reward
from pipeline.reasons import reason_of
from pipeline.resources import Workspace
from pipeline.selection.controls import rests_on, tell_whose_tests
from pipeline.selection.judge import Judge
from pipeline.selection.verdict import Judgement
from pipeline.state import Phase
from pipeline.store import load_or_run
from pipeline.workflows import abstain
from pipeline.workflows.pictures import read_pictures
from prompts.text import pluralize
from sandbox.frozen import replace

IMPORTED_KEY = "adopted"
_CONCURRENCY = 4


@dataclass(frozen=True)
class ExternalTest:
    """A test from outside: a script with the protocol's exit codes, or a test file."""

    name: str
    text: str


@dataclass(frozen=True)
class Choice:
    judged: Judgement
    no_fix: NoFix | None
    """Why no edit may be used; None: `judged.chosen` is the edit."""
    written: int = 0
    """How many of the tests were written by testing machines."""


class ExternalJudge:
    """Chooses for one issue in one codebase. The store is for one set of edits."""

    def __init__(self, workspace: Workspace, *, model: Model | None, reward: Reward | None) -> None:
        """Without a `model`, no test is written and the executions decide."""
        self._workspace = workspace
        self._model = model
        self._judge_edits = Judge(workspace, model=model, reward=reward).judge

    async def choose(
        self, issue: Issue, edits: Sequence[ExternalEdit], given: Sequence[ExternalTest] = ()
    ) -> Choice:
        """Choose among `edits`. Writes tests unless one of `given` fails on the unedited code: an
        edit's own tests are not independent evidence for it.

        An edit must pass a test that fails on the unedited code, if there is such a test.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: call again to resume.
        """
        imported = await self._import_edits(edits)
        tests = await self._convert_tests(given)
        if not imported.candidates:
            return _to_choice(await self._judge(issue, imported, (), reproduced=False), imported)
        if self._model is not None:
            issue = await read_pictures(issue, self._workspace.with_model(self._model))
        judged: Judgement | None = None
        first: Judgement | None = None
        if tests or any(c.test for c in imported.candidates):
            first = await self._judge(issue, imported, tests, reproduced=True)
            judged = _if_reproduced(first)
        written: list[TestScript] = []
        independent = judged is not None and rests_on(judged.table, tests)
        if not independent and self._model is not None:
            written, spent = await self._write_tests(self._model, issue)
            if written:
                tests = (*tests, *written)
                judged = _if_reproduced(await self._judge(issue, imported, tests, reproduced=True))
            elif spent and judged is None:
                left = await self._judge(issue, imported, tests, reproduced=False)
                return Choice(left, spent)
        if judged is None and first and first.table.self_serving:
            judged = first
        if judged is None:
            judged = await self._judge(issue, imported, tests, reproduced=False)
            judged = _with_notes(
                judged,
                "No test fails on the unmodified code, so none shows that the issue is fixed.",
            )
        choice = _to_choice(
            _with_notes(
                judged,
                *tell_whose_tests(judged.table, tests, written),
                *await asyncio.to_thread(_tell_suspicious, imported),
                *imported.notes,
            ),
            imported,
            self._workspace.options.confidence,
        )
        return dataclasses.replace(choice, written=len(written))

    async def _import_edits(self, edits: Sequence[ExternalEdit]) -> ImportedEdits:
        codebase = self._workspace.codebase

        async def work() -> ImportedEdits:
            return await import_edits(codebase, edits, await detect_conventions(codebase))

        return await load_or_run(self._workspace.store, IMPORTED_KEY, ImportedEdits, work)

    async def _convert_tests(self, given: Sequence[ExternalTest]) -> tuple[TestScript, ...]:
        codebase = self._workspace.codebase
        conventions = await detect_conventions(codebase)
        taken = frozenset(codebase.files)
        to_script = main_language(codebase).to_test_script
        return tuple(to_script(test.name, test.text, conventions, taken) for test in given)

    async def _judge(
        self,
        issue: Issue,
        imported: ImportedEdits,
        tests: Sequence[TestScript],
        *,
        reproduced: bool,
    ) -> Judgement:
        count = len(imported.candidates)
        await self._workspace.begin(
            "choice", f"Running every test on {pluralize(count, 'edit')} and choosing among them."
        )
        return await self._judge_edits(
            issue, imported.candidates, tests=tests, reproduced=reproduced
        )

    async def _write_tests(
        self, model: Model, issue: Issue
    ) -> tuple[list[TestScript], NoFix | None]:
        """Scripts that report the issue, from one wave of testing machines; which ceiling ended it
        early, if one did."""
        options = self._workspace.options
        count = min(options.samples, options.first_wave)
        await self._workspace.begin(
            "context", f"Writing {pluralize(count, 'test')}: none fails on the unmodified code yet."
        )
        resources = self._workspace.with_model(model)
        states = await gather_bounded(
            _CONCURRENCY, (write_script(issue, resources, sample=number) for number in range(count))
        )
        scripts = dict.fromkeys(best[0] for state in states if (best := state.best()))
        spent = next((state for state in states if state.phase is Phase.OUT_OF_BUDGET), None)
        if spent is None:
            return list(scripts), None
        return list(scripts), NoFix(reason=reason_of(spent.reached), details=(spent.ceiling,))


def _to_choice(judged: Judgement, imported: ImportedEdits, least: float = 0.0) -> Choice:
    table = judged.table
    rejected = (*imported.rejected, *table.rejected)
    judged = Judgement(replace(table, rejected=rejected), judged.verdict)
    abstains = judged.verdict.chosen is None or judged.verdict.confidence < least
    return Choice(judged, abstain.abstain_below(judged, least) if abstains else None)


def _tell_suspicious(imported: ImportedEdits) -> list[str]:
    return [
        f"{candidate.name} {words}"
        for candidate in imported.candidates
        for words in find_suspicious(candidate.patch.diff)
    ]


def _if_reproduced(judged: Judgement) -> Judgement | None:
    """The verdict, if it rests on a test that fails on the unedited code."""
    return None if judged.verdict.reason == "no reproduction" else judged


def _with_notes(judged: Judgement, *notes: str) -> Judgement:
    extended = (*judged.verdict.notes, *notes)
    return Judgement(judged.table, replace(judged.verdict, notes=extended))
