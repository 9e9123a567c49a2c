"""One edit out of many, from anywhere, with the evidence for it, or the reason why there is none.

    candidates ─▶ VoteTable ─▶ Contest ─▶ finalists ─▶ a model, or an order ─▶ gate ─▶ Verdict

Knows neither how the edits were written nor what becomes of the verdict.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from pipeline.codebase.commit import Codebase
from pipeline.models.base import Model
from pipeline.models.likelihood import Reward
from pipeline.options import Options
from pipeline.regression.suite import RegressionSuite
from pipeline.selection.decide import Decider, decided_by, distinct
from pipeline.selection.explain import passed_over, why
from pipeline.selection.methods import ordered, rewarded, shortlist
from pipeline.selection.reward import rewards
from pipeline.selection.scoring.execution import voters
from pipeline.selection.scoring.standings import Contest, contest
from pipeline.selection.verdict import Judged, KeptReport, Question, Verdict
from pipeline.selection.voting import reporting, unsteady, vote
from pipeline.store import Store
from pipeline.types import (
    Candidate,
    Issue,
    NoFixReason,
    SourceFile,
    SuiteReport,
    TestScript,
    VoteTable,
)
from sandbox.base import Sandbox

_TESTED = ("exec", "orm_exec", "dev_search")
"""The methods for which the repository's own tests run with every edit that passes a script."""


class Judge:
    """Chooses among edits by `options.selection`; everything that is run or asked is saved."""

    def __init__(
        self,
        model: Model | None,
        sandbox: Sandbox,
        codebase: Codebase,
        store: Store,
        options: Options,
        *,
        reward: Reward | None = None,
    ) -> None:
        """Without a `model`, methods that ask one take the first of the finalists instead."""
        self._asks_model = model is not None
        self._decider = Decider(model, sandbox, codebase, store, options)
        self._sandbox = sandbox
        self._store = store
        self._options = options
        self._reward = reward
        self._suite = RegressionSuite(codebase, sandbox, store, options)
        self._reports: dict[str, KeptReport] = {}

    async def judge(
        self,
        issue: Issue,
        candidates: Sequence[Candidate],
        *,
        tests: Sequence[TestScript] = (),
        files: Sequence[SourceFile] = (),
        reproduced: bool = True,
    ) -> Judged:
        """The verdict over `candidates`, with their own tests and `tests`.

        `files`: what a model that chooses by reading is shown; without them, the files that the
        edits change. `reproduced`: whether the chosen edit must pass a test that fails on the
        unedited code. None that breaks the repository's own tests is ever chosen.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: see there; call again to go on.
        """
        method = self._options.selection
        question = Question(
            issue=issue,
            candidates=tuple(candidates),
            tests=tuple(tests),
            reproduced=reproduced,
            options=self._options,
            model=self._asks_model,
            reward=self._reward is not None,
        )
        await self._store.save(f"question/{method}", question)
        table = await self._voted(candidates, tests)
        if reason := self._impossible(table, reproduced=reproduced):
            return await self._kept(table, Verdict(method=method, chosen=None, reason=reason))
        known = await self._compared(issue, table)
        if reproduced and not any(map(known.reproduces, range(len(table.candidates)))):
            none = Verdict(method=method, chosen=None, reason="no edit passes its test")
            none = none.model_copy(update={"standings": known.standings})
            return await self._kept(table, none)
        known, notes = await self._rewarded(issue, await self._tested(known))
        pool = shortlist(method, known, self._options.finalists)
        decision = await self._decider.decide(issue, known, pool, files)
        verdict = Verdict(
            method=method,
            chosen=None,
            order=distinct(table, (decision.first, *pool, *ordered(method, known))),
            finalists=pool,
            decided_by=decision.by,
            rounds=decision.rounds,
            notes=(*notes, *decision.notes),
        )
        return await self._gated(known, verdict, reproduced=reproduced)

    async def _compared(self, issue: Issue, table: VoteTable) -> Contest:
        return await asyncio.to_thread(
            contest,
            table,
            issue=f"{issue.title}\n{issue.body}",
            repository=issue.repository,
            all_tests=self._options.all_tests_vote,
        )

    async def _voted(
        self, candidates: Sequence[Candidate], tests: Sequence[TestScript]
    ) -> VoteTable:
        options = self._options
        seconds = options.execution_seconds
        table = await vote(
            candidates, sandbox=self._sandbox, store=self._store, seconds=seconds, tests=tests
        )
        flaky = await unsteady(
            table,
            voters(table, all_tests=options.all_tests_vote),
            sandbox=self._sandbox,
            store=self._store,
            seconds=seconds,
            repeats=options.repeat_tests,
        )
        return table.model_copy(update={"flaky": flaky})

    def _impossible(self, table: VoteTable, *, reproduced: bool) -> NoFixReason | None:
        if not table.candidates:
            return "no edit"
        steady = set(reporting(table)) - set(table.flaky)
        return "no reproduction" if reproduced and not steady else None

    async def _tested(self, known: Contest) -> Contest:
        """With what is known of the repository's own tests, where the method wants to know it."""
        method, asked = self._options.selection, set[int]()
        while True:
            if method == "evidence":
                pool = shortlist(method, known, self._options.finalists)
            elif method in _TESTED:
                fit = [c for c in range(len(known.standings)) if known.reproduces(c)]
                pool = distinct(known.table, fit)
            else:
                return known
            new = [c for c in pool if c not in asked]
            if not new:
                return known
            asked.update(new)
            reports = await self._report(known.table, new)
            broken = {c: found.broken for c, found in zip(new, reports, strict=True) if found}
            known = known.knowing(broken=broken)

    async def _rewarded(self, issue: Issue, known: Contest) -> tuple[Contest, tuple[str, ...]]:
        method = self._options.selection
        tied = rewarded(method, known)
        if not tied:
            return known, ()
        if self._reward is None:
            said = "No reward model is set: it could not part what is equal."
            return known, (said,) if method != "evidence" else ()
        found, problem = await rewards(self._reward, issue, known.table, tied, self._store)
        return known.knowing(rewards=found), (problem,) if problem else ()

    async def _gated(self, known: Contest, so_far: Verdict, *, reproduced: bool) -> Judged:
        """The first in order that may be proposed: red without, green with it, nothing broken."""
        over: list[str] = []
        reason: NoFixReason = "no edit passes its test"
        for candidate in so_far.order:
            if reproduced and not known.reproduces(candidate):
                over.append(passed_over(known, candidate, ()))
                continue
            (report,) = await self._report(known.table, [candidate])
            if report:
                known = known.knowing(broken={candidate: report.broken})
            if report and report.broken:
                over.append(passed_over(known, candidate, report.broken))
                reason = "edits break tests"
                continue
            problem = self._reports[known.table.candidates[candidate].patch.diff].problem
            so_far = so_far.model_copy(update={"suite": report, "suite_problem": problem})
            return await self._kept(known.table, _chosen(known, so_far, candidate, over))
        fields = {"reason": reason, "standings": known.standings}
        return await self._kept(
            known.table, so_far.model_copy(update={**fields, "notes": (*so_far.notes, *over)})
        )

    async def _kept(self, table: VoteTable, verdict: Verdict) -> Judged:
        verdict = verdict.model_copy(update={"flaky": table.flaky})
        await self._store.save(f"verdict/{verdict.method}", verdict)
        return Judged(table, verdict)

    async def _report(
        self, table: VoteTable, candidates: Sequence[int]
    ) -> list[SuiteReport | None]:
        """The repository's own tests with each of `candidates`; None when nothing can be told.

        Each is saved, so that a verdict can be made again where nothing can be run.
        """
        diffs = [table.candidates[c].patch.diff for c in candidates]
        for diff in dict.fromkeys(diffs):
            saved = await self._store.load(self._report_key(diff), KeptReport)
            if saved and diff not in self._reports:
                self._reports[diff] = saved
        new = [diff for diff in dict.fromkeys(diffs) if diff not in self._reports]
        for diff, report in zip(new, await self._suite.each(new), strict=True):
            problem = "" if report else self._suite.problem
            self._reports[diff] = KeptReport(report=report, problem=problem)
            await self._store.save(self._report_key(diff), self._reports[diff])
        return [self._reports[diff].report for diff in diffs]

    def _report_key(self, diff: str) -> str:
        options = self._options
        parts = [diff, *options.test_command, f"{options.suite_seconds:g}"]
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return f"reports/{hashlib.sha256(text).hexdigest()[:32]}"


def _chosen(
    known: Contest,
    so_far: Verdict,
    candidate: int,
    over: Sequence[str],
) -> Verdict:
    order = (candidate, *(c for c in so_far.order if c != candidate))
    by = so_far.decided_by if not over else decided_by(known, so_far.method)
    told = so_far.model_copy(update={"decided_by": by, "order": order})
    return told.model_copy(
        update={
            "chosen": candidate,
            "sample": known.table.candidates[candidate].sample,
            "why": " ".join([*over, why(known, told)]),
            "confidence": known.confidence(candidate),
            "standings": known.standings,
        }
    )
