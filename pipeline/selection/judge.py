"""Chooses one edit out of many, with evidence, or explains why none.

candidates ─▶ VoteTable ─▶ Contest ─▶ finalists ─▶ a model, or an order ─▶ gate ─▶ Verdict

Independent of how the edits were written and of what happens with the verdict.
"""

import asyncio
import dataclasses
from collections.abc import Container, Mapping, Sequence

from pipeline.codebase.unified_diff import list_paths
from pipeline.data.code_places import SourceFile
from pipeline.data.suite_reports import SuiteReport
from pipeline.data.types import (
    MOST_WEIGHT,
    NO_CHECKLIST,
    Candidate,
    Checklist,
    ChecklistPoint,
    Issue,
    NoFixReason,
    TestScript,
    VoteTable,
)
from pipeline.languages.registry import main_language, name_language
from pipeline.models.base import Model, Reward
from pipeline.regression.suite import RegressionSuite
from pipeline.resources import Workspace
from pipeline.selection.controls import Controls, find_self_serving, tell_uncontrolled
from pipeline.selection.decide import Decider, decider_without_model
from pipeline.selection.explain import explain_choice, explain_skipped, tell_outdated
from pipeline.selection.methods import candidates_for_reward, rank_candidates, shortlist
from pipeline.selection.other_call_sites import weigh_elsewhere
from pipeline.selection.scoring.canonical import read_base
from pipeline.selection.scoring.confidence import (
    BASE_RATE,
    MOST_UNTESTED,
    UNCALIBRATED,
    limit_unfitted,
    recalibrate,
)
from pipeline.selection.scoring.standings import Standings, build_standings, voting_tests
from pipeline.selection.ties import compare_by_brought_tests, score_candidates
from pipeline.selection.verdict import (
    BASE_KEY,
    BaseFiles,
    Judgement,
    SavedSuiteReport,
    SelectionQuestion,
    Verdict,
    name_edits,
    order_by_scripts,
)
from pipeline.selection.voting import (
    find_flaky_tests,
    list_case_tests,
    reproducing_tests,
    vote,
)
from pipeline.store import digest
from prompts.text import agree, pluralize
from sandbox.frozen import replace


class SuiteResults:
    """The results of one judgement, by diff. Each is saved."""

    def __init__(self, suite: RegressionSuite, workspace: Workspace) -> None:
        self._suite = suite
        self._store = workspace.store
        self._options = workspace.options
        self._near: dict[str, SuiteReport] = {}
        self.reports: dict[str, SavedSuiteReport] = {}

    async def run(self, table: VoteTable, candidates: Sequence[int]) -> list[SuiteReport | None]:
        """Run the repository's own tests with each of `candidates`; None if there is no result.

        Saves each report, so that a verdict can be recomputed without running anything.
        """
        diffs = [table.candidates[c].patch.diff for c in candidates]
        for diff in dict.fromkeys(diffs):
            saved = await self._store.load(self._key(diff), SavedSuiteReport)
            if saved and diff not in self.reports:
                self.reports[diff] = saved
        new = [diff for diff in dict.fromkeys(diffs) if diff not in self.reports]
        for diff, found in zip(new, await self._suite.compare_all(new), strict=True):
            problem = "" if found else self._suite.problem
            report = found or await self._suite.load_near(diff)  # that ran while it was written
            self.reports[diff] = SavedSuiteReport(report=report, problem=problem)
            await self._store.save(self._key(diff), self.reports[diff])
        return [self.reports[diff].report for diff in diffs]

    async def load_near(self, table: VoteTable) -> None:
        """Load what the tests near each edit said while it was written. Runs nothing."""
        for diff in dict.fromkeys(candidate.patch.diff for candidate in table.candidates):
            if report := await self._suite.load_near(diff):
                self._near[diff] = report

    def list_known(self) -> Mapping[str, SavedSuiteReport]:
        """By diff: the widest result there is."""
        near = {diff: SavedSuiteReport(report=report) for diff, report in self._near.items()}
        return {**near, **self.reports}

    def mark_near(self, standings: Standings) -> Standings:
        """Note what each edit breaks: of the tests near it, where no others ran with it."""
        saved, edits = self.list_known(), standings.table.candidates
        known = {c: saved[one.patch.diff].report for c, one in enumerate(edits)
                 if one.patch.diff in saved}  # fmt: skip
        near = {c: len(one.broken) for c, one in known.items() if one and one.is_near}
        whole = {c: one.broken for c, one in known.items() if one and not one.is_near}
        standings = standings.with_results(broken=whole)
        entries = (replace(entry, near=near.get(c)) for c, entry in enumerate(standings.entries))
        return dataclasses.replace(standings, entries=tuple(entries))

    def _key(self, diff: str) -> str:
        options = self._options
        return f"reports/{digest(diff, *options.test_command, f'{options.suite_seconds:g}')}"


class Judge:
    """Chooses among edits by `options.selection`. Saves every execution and reply."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        model: Model | None,
        reward: Reward | None = None,
        unseen: int = 0,
    ) -> None:
        """Without a `model`, methods that ask one take the first finalist instead. `unseen`: see
        `Evidence`."""
        self._unseen = unseen
        self._workspace = workspace
        self._store = workspace.store
        self._options = workspace.options
        self._asks_model = model is not None
        model = workspace.clock.limit(model, "choice") if model else None
        self._decider = Decider(workspace, model)
        self._reward = reward
        self._suite = RegressionSuite(workspace)
        self._results = SuiteResults(self._suite, workspace)

    async def judge(
        self,
        issue: Issue,
        candidates: Sequence[Candidate],
        *,
        tests: Sequence[TestScript] = (),
        files: Sequence[SourceFile] = (),
        reproduced: bool = True,
        checklist: Checklist = NO_CHECKLIST,
    ) -> Judgement:
        """Judge `candidates` by their own tests, `tests` and that of the `checklist`.

        `files`: shown to a model that chooses by reading; the files that the edits change by
        default. `reproduced`: whether the chosen edit must pass a test that fails on the unedited
        code. An edit that breaks the repository's own tests is never chosen, but for outdated ones.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: call again to resume.
        """
        method = self._options.selection
        facts = main_language(self._workspace.codebase).facts
        reproduced = reproduced and self._options.gate
        question = SelectionQuestion(
            issue=issue,
            candidates=tuple(candidates),
            tests=tuple(tests),
            reproduced=reproduced,
            options=self._options,
            model=self._asks_model,
            reward=self._reward is not None,
            unseen=self._unseen,
            checklist=checklist,
        )
        await self._store.save(f"question/{method}", question)
        table = await self._vote(candidates, (*tests, *checklist.tests))
        own = (at for at, test in enumerate(table.tests) if test in checklist.tests)
        table = replace(table, checklist=next(own, None))
        self._workspace.say(_describe_votes(table))
        steady = set(reproducing_tests(table)) - set(table.flaky)
        if not table.candidates or (reproduced and not steady):
            reason: NoFixReason = "no reproduction" if table.candidates else "no edit"
            none = Verdict(method=method, chosen=None, reason=reason)
            return await self._save_verdict(table, none)
        standings = await asyncio.to_thread(
            build_standings,
            table,
            issue=f"{issue.title}\n{issue.body}",
            repository=issue.repository,
            all_tests=self._options.all_tests_vote,
            recalibration=self._options.recalibration if facts.calibrated else None,
            reward_weight=1 if self._options.orm_weight is None else self._options.orm_weight,
            base=(await self._read_base(table)).get,
        )
        standings = standings.with_checklist(checklist.points)
        if reproduced and not any(map(standings.reproduces, range(len(table.candidates)))):
            none = Verdict(
                method=method,
                chosen=None,
                reason="no edit passes its test",
                standings=standings.entries,
            )
            return await self._save_verdict(table, none)
        if method == "evidence":  # seconds, before the minutes of the suite
            standings = await compare_by_brought_tests(standings, self._suite, self._store)
        changed = [path for one in table.candidates for path in {*list_paths(one.patch.diff)}]
        self._suite.prefer([*changed, *(point.path for point in checklist.points)])
        standings = await self._add_suite_results(standings)
        if method == "evidence":
            await self._results.load_near(table)
        standings, notes = await self._add_rewards(issue, standings)
        # What nothing that ran tells apart, a further script may.
        pool = shortlist(method, standings, self._options.finalists, by_code=self._asks_model)
        if self._asks_model and len(pool) > 1:
            self._workspace.say(f"Comparing {len(pool)} edits that differ.")
        decision = await self._decider.decide(
            issue,
            standings,
            pool,
            files=files,
            reports=self._results.list_known(),
            checklist=checklist.points,
        )
        for script in decision.further:
            standings = standings.split_by(script)
        verdict = Verdict(
            method=method,
            chosen=None,
            order=table.distinct((decision.first, *pool, *rank_candidates(method, standings))),
            finalists=(*pool, *decision.freed),
            decided_by=decision.by,
            rounds=decision.rounds,
            further=decision.further,
            notes=(*notes, *decision.notes, *tell_uncontrolled(table)),
            reasons=decision.reasons,
        )
        judged = await self._gate(standings, verdict, reproduced=reproduced)
        there = self._workspace.codebase.files
        notes = list_unchanged(checklist.points, judged.chosen, there) if judged.chosen else []
        for note in notes:
            judged = judged.with_note(note)
        if notes:
            await self._store.save(f"verdict/{method}", judged.verdict)
        return judged

    async def _read_base(self, table: VoteTable) -> Mapping[str, str]:
        """The unedited files that the edits change. Saved, so that a replay compares alike."""
        saved = await self._store.load(BASE_KEY, BaseFiles) or BaseFiles()
        diffs = [candidate.patch.diff for candidate in table.candidates]
        new = await read_base(self._workspace.codebase, diffs, known=saved.texts)
        if not new:
            return saved.texts
        texts = {**saved.texts, **new}
        await self._store.save(BASE_KEY, BaseFiles(texts=texts))
        return texts

    async def _vote(
        self, candidates: Sequence[Candidate], tests: Sequence[TestScript]
    ) -> VoteTable:
        table = await vote(candidates, self._workspace, tests=tests)
        if "checks" not in self._options.without:
            table = await Controls(self._workspace).reject_forgers(table)
        table = replace(table, self_serving=find_self_serving(table, candidates, tests))
        voters = voting_tests(table, all_tests=self._options.all_tests_vote)
        # Of what tells edits apart by what it prints, that must be steady, too.
        asked = dict.fromkeys((*voters, *list_case_tests(table)))
        return replace(table, flaky=await find_flaky_tests(table, [*asked], self._workspace))

    async def _add_suite_results(self, standings: Standings) -> Standings:
        """Add the results of the repository's own tests, if the method uses them."""
        method, asked = self._options.selection, set[int]()
        while True:
            if method == "evidence":
                pool = shortlist(method, standings, self._options.finalists)
            elif method in ("exec", "orm_exec", "dev_search"):
                fit = [c for c in range(len(standings.entries)) if standings.reproduces(c)]
                pool = standings.table.distinct(fit)
            else:
                return standings
            new = [c for c in pool if c not in asked]
            if not new:
                return standings
            asked.update(new)
            reports = await self._results.run(standings.table, new)
            # What none of the tests that ran can have noticed is no evidence.
            known = [(c, found) for c, found in zip(new, reports, strict=True) if found]
            broken = {c: one.broken for c, one in known if one.broken or not one.unreached}
            standings = standings.with_results(broken=broken)

    async def _add_rewards(
        self, issue: Issue, standings: Standings
    ) -> tuple[Standings, tuple[str, ...]]:
        method = self._options.selection
        tied = candidates_for_reward(method, standings)
        if not tied:
            return standings, ()
        if self._reward is None:
            note = "No reward model is configured to rank equal edits."
            return standings, (note,) if method != "evidence" else ()
        found, problem = await score_candidates(
            self._reward, issue, standings.table, tied, self._store
        )
        return standings.with_results(rewards=found), (problem,) if problem else ()

    async def _gate(self, standings: Standings, so_far: Verdict, *, reproduced: bool) -> Judgement:
        """Find the first edit in order that may be proposed: it fixes a failing test and breaks
        nothing."""
        skipped: dict[int, tuple[str, ...]] = {}
        reason: NoFixReason = "no edit passes its test"
        for candidate in so_far.order:
            if reproduced and not standings.reproduces(candidate):
                skipped[candidate] = ()
                continue
            (report,) = await self._results.run(standings.table, [candidate])
            if report:
                standings = standings.with_results(broken={candidate: report.broken})
            if report and standings.breaks(candidate) and self._options.gate:
                skipped[candidate] = report.broken
                reason = "edits break tests"
                continue
            known = self._results.reports[standings.table.candidates[candidate].patch.diff]
            if any(broken and not standings.breaks(c) for c, broken in skipped.items()):
                # This edit's result says that those tests are outdated.
                return await self._gate(standings, so_far, reproduced=reproduced)
            notes = (*so_far.notes, *tell_outdated(standings, candidate))
            so_far = replace(so_far, suite=report, suite_problem=known.problem, notes=notes)
            standings = self._results.mark_near(standings)
            final = _final_verdict(standings, so_far, candidate, skipped)
            return await self._save_verdict(standings.table, final, standings)
        if so_far.order:
            so_far = replace(so_far, order=order_by_scripts(standings.table, so_far.order))
        verdict = replace(
            so_far,
            reason=reason,
            standings=self._results.mark_near(standings).entries,
            notes=(*so_far.notes, *_tell_skipped(standings, so_far, skipped)),
        )
        if so_far.order:
            best = so_far.order[0]
            known = self._results.reports.get(standings.table.candidates[best].patch.diff)
            verdict = replace(
                verdict,
                confidence=standings.confidence(best),
                recalibration=standings.recalibration,
                suite=known.report if known else None,
                suite_problem=known.problem if known else "",
            )
        return await self._save_verdict(standings.table, verdict, standings)

    async def reconsider(self, judged: Judgement, script: str) -> Judgement:
        """Choose again where `script` speaks against the chosen edit: see `weigh_elsewhere`.

        Raises as `judge`.
        """
        found = await weigh_elsewhere(self._workspace, judged, script)
        if judged.standings is None or found == judged.verdict:
            return judged
        standings = judged.standings
        if found.further != judged.verdict.further:
            standings = standings.split_by(found.further[-1])
        if found.order == judged.verdict.order:
            found = replace(found, why=explain_choice(standings, found))
            await self._store.save(f"verdict/{found.method}", found)
            return dataclasses.replace(judged, verdict=found, standings=standings)
        return await self._gate(standings, found, reproduced=True)

    def _limit_confidence(self, verdict: Verdict) -> Verdict:
        """`verdict` with less confidence where the issue was not seen, where no test of the
        repository ran, or in a language on which it was not calibrated."""
        facts = main_language(self._workspace.codebase).facts
        most = BASE_RATE if self._unseen else 1.0 if verdict.suite else MOST_UNTESTED
        verdict = replace(verdict, confidence=min(most, verdict.confidence))
        if facts.calibrated or not verdict.confidence:
            return verdict
        learnt = self._options.recalibration
        tests = 1 if verdict.suite and verdict.suite.uncontrolled else _count_tests(verdict)
        limited = limit_unfitted(verdict.confidence, tests=min(tests, _count_tests(verdict)))
        name = name_language(self._workspace.codebase) or "this language"
        note = f"{UNCALIBRATED} {name}."
        if learnt:
            count = pluralize(learnt.outcomes, "pull request")
            note = f"The probability is calibrated on {count} of {name} here."
        return replace(
            verdict,
            confidence=recalibrate(limited, learnt),
            recalibration=learnt,
            notes=tuple(dict.fromkeys((*verdict.notes, note))),
        )

    async def _save_verdict(
        self, table: VoteTable, verdict: Verdict, standings: Standings | None = None
    ) -> Judgement:
        verdict = self._limit_confidence(replace(verdict, flaky=table.flaky))
        await self._store.save(f"verdict/{verdict.method}", verdict)
        if verdict.chosen is not None:
            name = table.candidates[verdict.chosen].name  # its letter changes with the order
            self._workspace.say(f"Chosen: {name}, {verdict.confidence:.0%} likely to be right.")
        return Judgement(table, verdict, standings)


def list_unchanged(
    checklist: Sequence[ChecklistPoint], chosen: Candidate, files: Container[str]
) -> list[str]:
    """Sentences on what matters most of `checklist` in `files` that the chosen edit leaves as they
    are. Untrusted."""
    changed = list_paths(chosen.patch.diff)
    lacking = [
        f"Before the edits were written, it was said that a complete fix needs this in "
        f"{point.path}, which this edit does not change: “{point.text}”"
        for point in checklist
        if point.weight == MOST_WEIGHT and point.path in files and point.path not in changed
    ]
    return lacking[:2]


def _count_tests(verdict: Verdict) -> int:
    suite = verdict.suite
    return len(suite.before.passed) + len(suite.before.failed) if suite else 0


def _final_verdict(
    standings: Standings,
    so_far: Verdict,
    candidate: int,
    skipped: Mapping[int, Sequence[str]],
) -> Verdict:
    order = order_by_scripts(standings.table, (candidate, *so_far.order))
    by = so_far.decided_by if not skipped else decider_without_model(standings, so_far.method)
    verdict = replace(so_far, decided_by=by, order=order)
    verdict = replace(verdict, passed_over=tuple(_tell_skipped(standings, verdict, skipped)))
    return replace(
        verdict,
        chosen=candidate,
        sample=standings.table.candidates[candidate].sample,
        why=explain_choice(standings, verdict),
        confidence=standings.confidence(candidate),
        recalibration=standings.recalibration,
        standings=standings.entries,
    )


def _tell_skipped(
    standings: Standings, verdict: Verdict, skipped: Mapping[int, Sequence[str]]
) -> list[str]:
    names = name_edits(standings.table, verdict.order)
    return [explain_skipped(names[c], broken) for c, broken in skipped.items()]


def _describe_votes(table: VoteTable) -> str:
    """How many edits pass every script that fails without them, for the progress of a run."""
    scripts = reproducing_tests(table)
    if not scripts:
        return "No script reports the issue."
    passing = sum(all(runs[at].passed for at in scripts) for runs in table.runs)
    edits = pluralize(len(table.candidates), "edit")
    return f"{passing} of {edits} {agree(passing, 'passes', 'pass')} every script."
