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
from pipeline.selection.decide import Decider, decider_without_model, distinct_candidates
from pipeline.selection.explain import explain_choice, explain_skipped
from pipeline.selection.methods import candidates_for_reward, rank_candidates, shortlist
from pipeline.selection.reward import score_candidates
from pipeline.selection.scoring.execution import voting_tests
from pipeline.selection.scoring.standings import Standings, build_standings
from pipeline.selection.verdict import Judgement, SavedSuiteReport, SelectionQuestion, Verdict
from pipeline.selection.voting import find_flaky_tests, reproducing_tests, vote
from pipeline.store import Store
from pipeline.types import (
    Candidate,
    Issue,
    NoFixReason,
    SourceFile,
    SuiteReport,
    TestScript,
    VoteTable,
    replace,
)
from sandbox.base import Sandbox

_SUITE_METHODS = ("exec", "orm_exec", "dev_search")
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
        self._reports: dict[str, SavedSuiteReport] = {}

    async def judge(
        self,
        issue: Issue,
        candidates: Sequence[Candidate],
        *,
        tests: Sequence[TestScript] = (),
        files: Sequence[SourceFile] = (),
        reproduced: bool = True,
    ) -> Judgement:
        """The verdict over `candidates`, with their own tests and `tests`.

        `files`: what a model that chooses by reading is shown; without them, the files that the
        edits change. `reproduced`: whether the chosen edit must pass a test that fails on the
        unedited code. None that breaks the repository's own tests is ever chosen.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: see there; call again to go on.
        """
        method = self._options.selection
        question = SelectionQuestion(
            issue=issue,
            candidates=tuple(candidates),
            tests=tuple(tests),
            reproduced=reproduced,
            options=self._options,
            model=self._asks_model,
            reward=self._reward is not None,
        )
        await self._store.save(f"question/{method}", question)
        table = await self._vote(candidates, tests)
        if reason := self._no_fix_reason(table, reproduced=reproduced):
            return await self._save_verdict(
                table, Verdict(method=method, chosen=None, reason=reason)
            )
        standings = await self._build_standings(issue, table)
        if reproduced and not any(map(standings.reproduces, range(len(table.candidates)))):
            none = Verdict(method=method, chosen=None, reason="no edit passes its test")
            none = replace(none, standings=standings.entries)
            return await self._save_verdict(table, none)
        standings, notes = await self._add_rewards(issue, await self._add_suite_results(standings))
        pool = shortlist(method, standings, self._options.finalists)
        decision = await self._decider.decide(issue, standings, pool, files)
        verdict = Verdict(
            method=method,
            chosen=None,
            order=distinct_candidates(
                table, (decision.first, *pool, *rank_candidates(method, standings))
            ),
            finalists=pool,
            decided_by=decision.by,
            rounds=decision.rounds,
            notes=(*notes, *decision.notes),
        )
        return await self._gate(standings, verdict, reproduced=reproduced)

    async def _build_standings(self, issue: Issue, table: VoteTable) -> Standings:
        return await asyncio.to_thread(
            build_standings,
            table,
            issue=f"{issue.title}\n{issue.body}",
            repository=issue.repository,
            all_tests=self._options.all_tests_vote,
        )

    async def _vote(
        self, candidates: Sequence[Candidate], tests: Sequence[TestScript]
    ) -> VoteTable:
        options = self._options
        seconds = options.execution_seconds
        table = await vote(
            candidates, sandbox=self._sandbox, store=self._store, seconds=seconds, tests=tests
        )
        flaky = await find_flaky_tests(
            table,
            voting_tests(table, all_tests=options.all_tests_vote),
            sandbox=self._sandbox,
            store=self._store,
            seconds=seconds,
            repeats=options.repeat_tests,
        )
        return replace(table, flaky=flaky)

    def _no_fix_reason(self, table: VoteTable, *, reproduced: bool) -> NoFixReason | None:
        if not table.candidates:
            return "no edit"
        steady = set(reproducing_tests(table)) - set(table.flaky)
        return "no reproduction" if reproduced and not steady else None

    async def _add_suite_results(self, standings: Standings) -> Standings:
        """With what is known of the repository's own tests, where the method wants to know it."""
        method, asked = self._options.selection, set[int]()
        while True:
            if method == "evidence":
                pool = shortlist(method, standings, self._options.finalists)
            elif method in _SUITE_METHODS:
                fit = [c for c in range(len(standings.entries)) if standings.reproduces(c)]
                pool = distinct_candidates(standings.table, fit)
            else:
                return standings
            new = [c for c in pool if c not in asked]
            if not new:
                return standings
            asked.update(new)
            reports = await self._run_suite(standings.table, new)
            broken = {c: found.broken for c, found in zip(new, reports, strict=True) if found}
            standings = standings.with_results(broken=broken)

    async def _add_rewards(
        self, issue: Issue, standings: Standings
    ) -> tuple[Standings, tuple[str, ...]]:
        method = self._options.selection
        tied = candidates_for_reward(method, standings)
        if not tied:
            return standings, ()
        if self._reward is None:
            note = "No reward model is set: it could not part what is equal."
            return standings, (note,) if method != "evidence" else ()
        found, problem = await score_candidates(
            self._reward, issue, standings.table, tied, self._store
        )
        return standings.with_results(rewards=found), (problem,) if problem else ()

    async def _gate(self, standings: Standings, so_far: Verdict, *, reproduced: bool) -> Judgement:
        """The first in order that may be proposed: red without, green with it, nothing broken."""
        skipped: list[str] = []
        reason: NoFixReason = "no edit passes its test"
        for candidate in so_far.order:
            if reproduced and not standings.reproduces(candidate):
                skipped.append(explain_skipped(standings, candidate, ()))
                continue
            (report,) = await self._run_suite(standings.table, [candidate])
            if report:
                standings = standings.with_results(broken={candidate: report.broken})
            if report and report.broken:
                skipped.append(explain_skipped(standings, candidate, report.broken))
                reason = "edits break tests"
                continue
            problem = self._reports[standings.table.candidates[candidate].patch.diff].problem
            so_far = replace(so_far, suite=report, suite_problem=problem)
            return await self._save_verdict(
                standings.table, _final_verdict(standings, so_far, candidate, skipped)
            )
        fields = {"reason": reason, "standings": standings.entries}
        return await self._save_verdict(
            standings.table,
            replace(so_far, **fields, notes=(*so_far.notes, *skipped)),
        )

    async def _save_verdict(self, table: VoteTable, verdict: Verdict) -> Judgement:
        verdict = replace(verdict, flaky=table.flaky)
        await self._store.save(f"verdict/{verdict.method}", verdict)
        return Judgement(table, verdict)

    async def _run_suite(
        self, table: VoteTable, candidates: Sequence[int]
    ) -> list[SuiteReport | None]:
        """The repository's own tests with each of `candidates`; None when nothing can be told.

        Each is saved, so that a verdict can be made again where nothing can be run.
        """
        diffs = [table.candidates[c].patch.diff for c in candidates]
        for diff in dict.fromkeys(diffs):
            saved = await self._store.load(self._report_key(diff), SavedSuiteReport)
            if saved and diff not in self._reports:
                self._reports[diff] = saved
        new = [diff for diff in dict.fromkeys(diffs) if diff not in self._reports]
        for diff, report in zip(new, await self._suite.compare_all(new), strict=True):
            problem = "" if report else self._suite.problem
            self._reports[diff] = SavedSuiteReport(report=report, problem=problem)
            await self._store.save(self._report_key(diff), self._reports[diff])
        return [self._reports[diff].report for diff in diffs]

    def _report_key(self, diff: str) -> str:
        options = self._options
        parts = [diff, *options.test_command, f"{options.suite_seconds:g}"]
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return f"reports/{hashlib.sha256(text).hexdigest()[:32]}"


def _final_verdict(
    standings: Standings,
    so_far: Verdict,
    candidate: int,
    skipped: Sequence[str],
) -> Verdict:
    order = (candidate, *(c for c in so_far.order if c != candidate))
    by = so_far.decided_by if not skipped else decider_without_model(standings, so_far.method)
    verdict = replace(so_far, decided_by=by, order=order)
    return replace(
        verdict,
        chosen=candidate,
        sample=standings.table.candidates[candidate].sample,
        why=" ".join([*skipped, explain_choice(standings, verdict)]),
        confidence=standings.confidence(candidate),
        standings=standings.entries,
    )
