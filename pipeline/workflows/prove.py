"""Proves the chosen edit by a test; what comes of it may choose or write another.

Judgement ─▶ Reproduction ─▶ another choice? ─▶ a case that remains? ─▶ one more sample
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.data.code_places import Context
from pipeline.data.presets import read_presets
from pipeline.data.types import Candidate, Issue, NoFix, Selection, TestScript
from pipeline.resources import Resources
from pipeline.selection.judge import Judge
from pipeline.selection.verdict import Judgement
from pipeline.workflows.abstain import abstain_below
from pipeline.workflows.reproduce import ReproductionStep, find_remaining, reconsider
from pipeline.workflows.sampling import Sampler


@dataclass(frozen=True)
class Prover:
    """Proves what is chosen of one issue's edits."""

    issue: Issue
    context: Context
    judge: Judge
    sampler: Sampler
    resources: Resources

    async def prove(
        self, candidates: Sequence[Candidate], judged: Judgement
    ) -> tuple[Selection | NoFix, Judgement]:
        """Write the test of the chosen edit. Where a script that the issue asks for fails with
        every edit, one more sample mends the chosen one, and all are judged again.

        Raises:
            ModelError, SandboxError: from the model and the sandbox.
        """
        r = self.resources
        result, again = await self._write(judged)
        if r.options.strategy in read_presets():
            return result, again
        remaining = await find_remaining(judged, again, r.store)
        if remaining is None or again.chosen is None or isinstance(result, NoFix):
            return result, again
        r.say("A script that the issue asks for fails with every edit: mending the chosen one.")
        script = TestScript(text=remaining.text)
        mended = await self.sampler.mend(self.issue, script, remaining.base, again.chosen)
        if mended is None:
            return result, again
        checklist = self.sampler.drawn.checklist
        judged = await self.judge.judge(
            self.issue, [*candidates, mended], files=self.context.files, checklist=checklist
        )
        return await self._write(judged)

    async def _write(self, judged: Judgement) -> tuple[Selection | NoFix, Judgement]:
        """Find the test of the chosen edit, which may choose another."""
        r, least = self.resources, self.resources.options.confidence
        if judged.verdict.chosen is None or judged.verdict.confidence < least:
            return abstain_below(judged, least, self.context), judged
        await r.begin("reproduction", "Looking for a test that shows the fix.")
        step = ReproductionStep(r)
        result = await step.run(self.issue, self.context, judged)
        again = await reconsider(self.judge, judged, r.store)
        if again.verdict.chosen is None or again.verdict.confidence < least:
            return abstain_below(again, least, self.context), again
        if again.verdict.chosen != judged.verdict.chosen:
            result = await step.run(self.issue, self.context, again)
        return result, again
