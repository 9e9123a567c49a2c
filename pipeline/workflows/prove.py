"""Proves the chosen edit by a test; what comes of it may choose or write another.

Judgement ─▶ Reproduction ─▶ another choice? ─▶ a case that remains? ─▶ one more sample
"""

from collections.abc import Sequence

from pipeline.data.code_places import Context
from pipeline.data.presets import read_presets
from pipeline.data.types import Candidate, Issue, NoFix, Selection, TestScript
from pipeline.resources import Resources
from pipeline.selection.judge import Judge
from pipeline.selection.verdict import Judgement
from pipeline.workflows.abstain import abstain_below
from pipeline.workflows.reproduce import ReproductionStep, find_remaining, reconsider
from pipeline.workflows.sampling import Sampler


async def prove(
    issue: Issue,
    context: Context,
    candidates: Sequence[Candidate],
    judged: Judgement,
    *,
    judge: Judge,
    sampler: Sampler,
    resources: Resources,
) -> tuple[Selection | NoFix, Judgement]:
    """Write the test of the chosen edit. Where a script that the issue asks for fails with every
    edit, one more sample mends the chosen one, and all are judged again.

    Raises:
        ModelError, SandboxError: from the model and the sandbox.
    """
    proof = _Proof(issue, context, judge, resources)
    result, again = await proof.write(judged)
    if resources.options.strategy in read_presets():
        return result, again
    remaining = await find_remaining(judged, again, resources.store)
    if remaining is None or again.chosen is None or isinstance(result, NoFix):
        return result, again
    resources.say("A script that the issue asks for fails with every edit: mending the chosen one.")
    script = TestScript(text=remaining.text)
    mended = await sampler.mend(issue, script, remaining.base, again.chosen)
    if mended is None:
        return result, again
    judged = await judge.judge(
        issue,
        [*candidates, mended],
        files=context.files,
        checklist=sampler.drawn.checklist,
    )
    return await proof.write(judged)


class _Proof:
    def __init__(self, issue: Issue, context: Context, judge: Judge, resources: Resources) -> None:
        self._issue = issue
        self._context = context
        self._judge = judge
        self._resources = resources

    async def write(self, judged: Judgement) -> tuple[Selection | NoFix, Judgement]:
        """Find the test of the chosen edit, which may choose another."""
        r, least = self._resources, self._resources.options.confidence
        if judged.verdict.chosen is None or judged.verdict.confidence < least:
            return abstain_below(judged, least, self._context), judged
        await r.begin("reproduction", "Looking for a test that shows the fix.")
        step = ReproductionStep(r)
        result = await step.run(self._issue, self._context, judged)
        again = await reconsider(self._judge, judged, r.store)
        if again.verdict.chosen is None or again.verdict.confidence < least:
            return abstain_below(again, least, self._context), again
        if again.verdict.chosen != judged.verdict.chosen:
            result = await step.run(self._issue, self._context, again)
        return result, again
