"""What the repository's own tests say of the edits: a wider run, or those near an edit alone."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

from pipeline.options import Options
from pipeline.regression.suite import RegressionSuite
from pipeline.selection.scoring.standings import Standings
from pipeline.selection.verdict import SavedSuiteReport
from pipeline.store import Store
from pipeline.types import SuiteReport, VoteTable, replace


class SuiteResults:
    """The results of one judgement, by diff. Each is saved."""

    def __init__(self, suite: RegressionSuite, store: Store, options: Options) -> None:
        self._suite = suite
        self._store = store
        self._options = options
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
        for diff, report in zip(new, await self._suite.compare_all(new), strict=True):
            problem = "" if report else self._suite.problem
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
        """Note which of the tests near it each edit breaks, where no others ran with it."""
        known = self.list_known()
        counts: list[int | None] = []
        for candidate in standings.table.candidates:
            saved = known.get(candidate.patch.diff)
            report = saved.report if saved else None
            counts.append(len(report.broken) if report and report.is_near else None)
        entries = (
            replace(entry, near=count)
            for entry, count in zip(standings.entries, counts, strict=True)
        )
        return dataclasses.replace(standings, entries=tuple(entries))

    def _key(self, diff: str) -> str:
        options = self._options
        parts = [diff, *options.test_command, f"{options.suite_seconds:g}"]
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return f"reports/{hashlib.sha256(text).hexdigest()[:32]}"
