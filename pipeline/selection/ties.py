"""Candidates that every script ends alike: tests they break, a reward model's score.

Each brought test runs with each of the other edits. Only a test that passes with the edit which
brought it counts: this is the control.
"""

import contextlib
import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pipeline.codebase.unified_diff import (
    list_paths,
    parse_diff,
    remove_files,
    split_diff,
)
from pipeline.concurrency import gather_bounded
from pipeline.data.suite_reports import FailedTests, SuiteRun
from pipeline.data.types import Issue, VoteTable
from pipeline.languages.conventions import is_test_diff
from pipeline.languages.registry import is_runnable
from pipeline.models.base import Likelihood, ModelError, Reward, ScoreUnavailable
from pipeline.models.metering import Meter, ask_verdict, run_metered
from pipeline.regression.suite import RegressionSuite
from pipeline.run_errors import BudgetSpent
from pipeline.selection.methods import behaving_alike
from pipeline.selection.scoring.standings import Standings
from pipeline.store import Store, digest, load_or_run
from prompts.templates import render
from sandbox.errors import PatchRejected
from sandbox.frozen import Frozen, replace


class ComparedEdits(Frozen):
    """The saved result, by candidate: see `Standing`."""

    behaves_as: tuple[int, ...]
    fails: tuple[tuple[FailedTests, ...], ...]


async def compare_by_brought_tests(
    standings: Standings, suite: RegressionSuite, store: Store
) -> Standings:
    """`standings` in which edits that a brought test distinguishes no longer count as alike.

    Raises:
        SandboxUnavailable: a program could not be started, or its end is unknown.
    """
    groups = [
        group
        for group in _find_groups(standings)
        if any(map(_tests_of, [standings.table.candidates[c].patch.diff for c in group]))
    ]
    if not groups:
        return standings
    key = f"alike/{digest(*(one.patch.diff for one in standings.table.candidates))}"

    async def compare() -> ComparedEdits:
        behaves_as = [entry.behaves_as for entry in standings.entries]
        fails: list[tuple[FailedTests, ...]] = [()] * len(behaves_as)
        for group in groups:
            await _part(standings, group, suite, behaves_as, fails)
        return ComparedEdits(behaves_as=tuple(behaves_as), fails=tuple(fails))

    found = await load_or_run(store, key, ComparedEdits, compare)
    entries = tuple(
        replace(entry, behaves_as=same, fails=fails)
        for entry, same, fails in zip(standings.entries, found.behaves_as, found.fails, strict=True)
    )
    return dataclasses.replace(standings, entries=entries)


def _find_groups(standings: Standings) -> list[tuple[int, ...]]:
    """The groups of alike candidates that hold edits of different code."""
    groups = dict.fromkeys(
        behaving_alike(standings, c)
        for c in range(len(standings.entries))
        if not standings.breaks(c)
    )
    return [group for group in groups if len({standings.entries[c].same_as for c in group}) > 1]


async def _part(
    standings: Standings,
    group: Sequence[int],
    suite: RegressionSuite,
    behaves_as: list[int],
    failed: list[tuple[FailedTests, ...]],
) -> None:
    """Note in `behaves_as` which of `group` still behave alike, and in `failed` which brought tests
    each fails. Of equal code, one edit runs."""
    entries = {standings.table.candidates[c].patch.diff: standings.entries[c] for c in group}
    # Each of them runs once with its own tests and once with each other's.
    diffs = list(entries)[:4]
    fails: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    brought: defaultdict[str, list[FailedTests]] = defaultdict(list)
    first_with = {standings.table.candidates[c].patch.diff: c for c in reversed(group)}
    for author in diffs:
        tests = _tests_of(author)
        own = await suite.run_brought_tests(author, _paths(tests)) if tests else None
        if own is None or not own.passed:
            continue
        lost: dict[int, tuple[str, ...]] = {entries[author].same_as: ()}
        for diff in diffs:
            code = entries[diff].same_as
            if code not in lost:
                lost[code] = await _find_failing(suite, own, diff, tests)
            fails[diff].append(lost[code])
            if lost[code]:
                brought[diff].append(FailedTests(by=first_with[author], tests=lost[code]))
    first: dict[tuple[tuple[str, ...], ...], int] = {}
    by_diff = {diff: tuple(fails[diff]) for diff in diffs}
    for c in group:
        diff = standings.table.candidates[c].patch.diff
        if diff in by_diff:
            behaves_as[c] = first.setdefault(by_diff[diff], c)
            failed[c] = tuple(brought[diff])


async def _find_failing(
    suite: RegressionSuite, own: SuiteRun, diff: str, tests: str
) -> tuple[str, ...]:
    """Those that pass in `own` and, with `diff` in place of their author's edit, in neither of two
    runs; not those that the time of one did not allow. With them, old tests may run, some flaky."""
    combined = remove_files(diff, list_paths(tests)) + tests
    failing = {*own.passed}
    for attempt in range(2):
        run = None
        with contextlib.suppress(PatchRejected):
            run = await suite.run_brought_tests(combined, _paths(tests), attempt)
        failing -= {*run.passed} if run else failing
        if run and run.cut:
            failing &= {*run.failed, *run.offline}
        if not failing:
            break
    return tuple(sorted(failing))


def _tests_of(diff: str) -> str:
    """The part of `diff` that changes test files that can run; empty if there is none."""
    tests, rest = split_diff(diff, is_test_diff)
    return tests if _paths(tests) and rest.strip() else ""


def _paths(tests: str) -> tuple[str, ...]:
    return tuple(file.new for file in parse_diff(tests) if file.new and is_runnable(file.new))


T = TypeVar("T")

ORM_STAGE = "orm"
"""The stage of its calls in the accounts."""
BETA = 0.5
"""The sharpness of the implicit reward (SWE-Reasoner, section 2.2.2)."""
_CONCURRENCY = 4


def render_verdict(issue: Issue, diff: str, summary: str) -> tuple[str, str]:
    """The system text and the question about an edit, for a model that answers `+` or `-`.

    `summary`: what the edit's sample left; empty: the edit is judged alone.
    """
    question = render("orm/verdict", issue=issue, diff=diff, summary=summary)
    return render("orm/system"), question


class VerdictReward:
    """The log-odds of `+` against `-` as the first token of a model's verdict."""

    def __init__(self, model: Likelihood, meter: Meter) -> None:
        self._model = model
        self._meter = meter

    async def score(self, issue: Issue, diff: str, summary: str = "") -> float:
        system, question = render_verdict(issue, diff, summary)
        return await ask_verdict(self._model, self._meter, system, question, call="orm/verdict")


class ImplicitReward:
    """The reward that DPO trains: beta times the log-ratio of an edit's probability by policy and
    reference.

    Rafailov et al. 2023, section 4; SWE-Reasoner, equation 4. The edit is the assistant's whole
    answer to the issue.
    """

    def __init__(self, policy: Likelihood, reference: Likelihood, meter: Meter) -> None:
        self._models = (policy, reference)
        self._meter = meter

    async def score(self, issue: Issue, diff: str, summary: str = "") -> float:  # noqa: ARG002 - see Reward
        question = render("orm/issue", issue=issue)
        found: list[float] = []
        for model in self._models:
            asked = model.answer(question, diff, call="orm/edit")
            found.append(
                await run_metered(
                    self._meter, model.profile, asked, stage=ORM_STAGE, texts=(question, diff)
                )
            )
        score = BETA * (found[0] - found[1])
        if not math.isfinite(score):
            raise ScoreUnavailable("The reward model's score is not a finite number.")
        return score


class UnusableReward:
    """A reward model that cannot be used."""

    def __init__(self, why: ModelError) -> None:
        self._why = why

    async def score(self, issue: Issue, diff: str, summary: str = "") -> float:  # noqa: ARG002 - as every reward
        raise self._why


class SavedScore(Frozen):
    """One score in the form in which it is saved."""

    score: float


async def score_candidates(
    reward: Reward, issue: Issue, table: VoteTable, candidates: Sequence[int], store: Store
) -> tuple[Mapping[int, float], str]:
    """Score `candidates`, saving each score under `orm/<digest>`; no scores and a reason on
    failure.

    A run whose reward model does not answer only loses the order of equal candidates.
    """

    async def one(candidate: int) -> float:
        diff, summary = table.candidates[candidate].patch.diff, table.candidates[candidate].summary

        async def score() -> SavedScore:
            return SavedScore(score=await reward.score(issue, diff, summary))

        key = f"orm/{digest(*filter(None, (diff, summary)))}"
        return (await load_or_run(store, key, SavedScore, score)).score

    try:
        scores = await gather_bounded(_CONCURRENCY, (one(candidate) for candidate in candidates))
    except BudgetSpent:
        return {}, "The reward model was not asked: the budget was spent."
    except ModelError as error:
        return {}, f"The reward model was left out: {error}"
    return dict(zip(candidates, scores, strict=True)), ""
