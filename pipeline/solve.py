"""The whole algorithm on one page: solves an issue in a codebase, or explains why it cannot.

    Issue ─▶ Context ─▶ n × (test ─▶ edit) ─▶ VoteTable ─▶ Choice ─▶ Reproduction ─▶ Selection

The result of each arrow is saved under its own key: after a crash, `solve` resumes at the first
unfinished step; after completion, it asks no model and runs nothing.
"""

from functools import partial

from pipeline import reasons
from pipeline.concurrency import run_beside
from pipeline.context.finder import CONTEXT_KEY
from pipeline.data.code_places import Context
from pipeline.data.presets import read_presets
from pipeline.data.progress import FilesRead
from pipeline.data.types import Candidate, Issue, NoFix, Selection
from pipeline.languages.registry import main_language
from pipeline.localisation.tree_search import add_search, search_first
from pipeline.regression.suite import RegressionSuite
from pipeline.resources import Workspace
from pipeline.run_errors import BudgetSpent
from pipeline.selection.judge import Judge
from pipeline.workflows.abstain import find_nothing_to_fix, find_unsolvable
from pipeline.workflows.comments_during_run import hear
from pipeline.workflows.other_edits import try_others
from pipeline.workflows.outcome import (
    EFFECTIVE_KEY,
    OUTCOME_KEY,
    Models,
    SolveResult,
    context_finder,
    effective_setup,
    save_end,
)
from pipeline.workflows.pictures import read_pictures
from pipeline.workflows.plan import Plan, plan, samples_sentence
from pipeline.workflows.prove import Prover
from pipeline.workflows.repo_conventions import note_habits
from pipeline.workflows.reproduce import add_findings
from pipeline.workflows.sampling import Sampler, vote_on_revisions


class Solver:
    """Solves one issue in one codebase."""

    def __init__(self, models: Models, workspace: Workspace) -> None:
        self._models = models
        self._resources = workspace.with_model(models.solver, models.solvers)

    async def solve(self, issue: Issue) -> Selection | NoFix:
        """Find the chosen edit with its evidence, or explain the failure and what was learnt.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: call again to resume.
        """
        store = self._resources.store
        if saved := await store.load(OUTCOME_KEY, SolveResult):
            return saved.result
        await store.save(EFFECTIVE_KEY, effective_setup(self._models, self._resources.options))
        self._resources = await self._resources.start_clock()
        try:
            result = await self._solve(issue)
        except BudgetSpent as spent:
            result = reasons.explain_spent(spent)
        await save_end(store, result)
        return result

    async def plan(self, issue: Issue) -> Plan | NoFix:
        """Plan a run: the context, one script that reproduces the issue, an estimate of the cost.

        A `solve` with the same store reuses what this saves.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: call again to resume.
        """
        try:
            issue = await read_pictures(issue, self._resources)
            context = await self._find_context(issue)
        except BudgetSpent as spent:
            return reasons.explain_spent(spent)
        if isinstance(context, NoFix):
            return context
        await self._resources.begin("edits", "Writing a script that reproduces it.")
        return await plan(issue, context, self._resources)

    async def _solve(self, issue: Issue) -> Selection | NoFix:
        r = self._resources
        if unsolvable := find_unsolvable(r.codebase, r.options.test_command):
            return unsolvable
        issue = await read_pictures(issue, r)
        if "comments" in r.options.without:
            issue = issue.as_reported()
        write_test = partial(Sampler(r).write_test, issue)
        triage = await find_nothing_to_fix(r, write_test)
        if triage.result:
            return triage.result
        await r.begin("context", f"Looking through the files ({len(r.codebase.files):,}).")
        if isinstance(context := await self._find_context(issue), NoFix):
            return context
        if "habits" not in r.options.without:  # what the models are shown besides
            context = await note_habits(issue, context, r.codebase, r.options.exclude)
            await r.store.save(CONTEXT_KEY, context)
        if context.search is None:
            context = await add_search(issue, context, r, self._models.prm)
        await r.begin("edits", samples_sentence(r.options, r.ceiling))
        ahead = RegressionSuite(r).prepare([file.path for file in context.files[:3]])
        async with run_beside(ahead, Exception):  # the judge asks for the same again
            sampler = Sampler(r, unseen=triage.unseen)
            result = await sampler.sample(issue, context)
            if not isinstance(result, NoFix):
                result = await self._choose(issue, context, result, sampler)
            return triage.explain(result, main_language(r.codebase).script_suffix)

    async def _find_context(self, issue: Issue) -> Context | NoFix:
        r = self._resources
        context = None
        if r.options.searches and "ranking" in r.options.without:
            context = await search_first(issue, r, self._models.prm)
        if context is None:
            finder = context_finder(self._models, r.store, r.options, self._report_scan)
            context = await finder.find(r.codebase, issue)
        return context or NoFix(
            reason="no relevant files", details=("I found no source file related to the issue.",)
        )

    async def _choose(
        self, issue: Issue, context: Context, candidates: list[Candidate], sampler: Sampler
    ) -> Selection | NoFix:
        r = self._resources
        await r.begin("choice", f"Running every script on every edit ({len(candidates)}).")
        issue = await hear(issue, "choice", r)
        judge = Judge(r, model=r.model, reward=self._models.orm, unseen=sampler.unseen)
        judged = await judge.judge(
            issue, candidates, files=context.files, checklist=sampler.drawn.checklist
        )
        if r.options.strategy in read_presets() and not r.model.profile.sampling:
            judged = judged.with_note(
                f"The model takes no temperature: `{r.options.strategy}` ran without the paper's."
            )
        if r.options.all_revisions:
            await vote_on_revisions(judged.table, r)
        result, judged = await Prover(issue, context, judge, sampler, r).prove(candidates, judged)
        if isinstance(result, NoFix):
            return result
        return await try_others(add_findings(result, judged), judged, r)

    async def _report_scan(self, done: int, total: int) -> None:
        await self._resources.clock.save(self._resources.store)
        self._resources.report(FilesRead(done, total))
