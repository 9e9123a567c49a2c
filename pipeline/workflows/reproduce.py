"""The last step: the reproduction test of the chosen edit, from the first rung that succeeds.

Each rung is executed red before and green after: the edit's own tests, an extension of the nearest
test file or a new one beside it (both by a model), the wrapped script, the script as a file. Below
the last rung, the repository's settings decide whether the edit is proposed as unproven or not at
all.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from pipeline import reasons
from pipeline.codebase.commit import read_history
from pipeline.codebase.text import Globs
from pipeline.codebase.unified_diff import list_paths
from pipeline.data.code_places import Context, SourceFile
from pipeline.data.suite_reports import FurtherScript
from pipeline.data.types import (
    NOT_FIXED,
    Candidate,
    Evidence,
    Issue,
    NoFix,
    Reproduction,
    Selection,
    TestScript,
    VoteTable,
)
from pipeline.languages.conventions import Conventions
from pipeline.languages.file_runner import FileRunner
from pipeline.languages.registry import detect_conventions, read_test_files
from pipeline.machine import drive
from pipeline.regression.near_tests import NearbyTests
from pipeline.reproduction.mechanical import (
    RungResult,
    WorkingRunner,
    find_working_runner,
    show_script,
    use_own_tests,
    use_script_file,
    use_wrapped_script,
)
from pipeline.reproduction.places import (
    choose_extension,
    choose_new_path,
    choose_script_paths,
    rank_test_files,
)
from pipeline.reproduction.red_green import find_file_runners
from pipeline.reproduction.writer import (
    FoundOut,
    ReproductionMachine,
    ReproductionState,
    TestPlan,
    is_finished,
)
from pipeline.resources import Resources
from pipeline.run_errors import BudgetSpent
from pipeline.selection.decide import read_edited_files
from pipeline.selection.explain import explain_choice, vote_sentences
from pipeline.selection.judge import Judge
from pipeline.selection.other_call_sites import find_rival
from pipeline.selection.verdict import Judgement, list_said
from pipeline.selection.voting import is_good_enough, reproducing_tests
from pipeline.store import Store, load_or_run
from pipeline.workflows.abstain import abstain
from sandbox.frozen import replace as replace_fields

_MOST_SHOWN = 60_000
"""Characters shown of the test file to extend; of a longer one, the beginning and the end."""
_HEAD_SHARE = 0.3
_MOST_FOUND = 3
"""Of the scripts by which the edit was chosen, the newest that its description shows."""


@dataclass(frozen=True)
class _Places:
    """The possible places of the test, and the runner."""

    extends: str | None
    path: str | None
    """The path of a new test file; None if the settings allow none."""
    scripts: list[str]
    """Paths for the script as a file, best first."""
    runners: tuple[FileRunner, ...]
    """The one that runs a file of tests here, if any does."""
    problem: str
    """Why the first of the possible runners failed. Untrusted."""
    conventions: Conventions


@dataclass(frozen=True)
class _Words:
    title: str
    cause: str
    change: str
    described: bool = True

    @classmethod
    def without_model(cls, issue: Issue, candidate: Candidate, why: str) -> "_Words":
        """What is said where no model described the edit: `why`, and what its author left."""
        said, missing = candidate.summary.partition("Record: ")[0].strip(), f"Not described: {why}."
        change = f"{missing} Who wrote it said: {said}" if said else missing
        return cls(f"Fix: {issue.title}", missing, change, described=False)


class ReproductionStep:
    """Finds the first rung that succeeds for the chosen edit."""

    def __init__(self, resources: Resources) -> None:
        model = resources.clock.limit(resources.model, "reproduction")
        self._resources = replace(resources, model=model)
        self._codebase = resources.codebase

    async def run(self, issue: Issue, context: Context, judged: Judgement) -> Selection | NoFix:
        """Build the selection with its evidence; a candidate must be chosen.

        If the budget runs out before a model's test is ready, a good enough edit continues with the
        rungs that need no model; otherwise the result is a `NoFix`.

        Raises:
            ModelError, SandboxError: from the model and the sandbox.
        """
        table, verdict, candidate = judged.table, judged.verdict, judged.chosen
        if candidate is None or verdict.chosen is None:
            raise ValueError("nothing was chosen")
        at, script = verdict.chosen, _pick_script(table, verdict.chosen)
        places = await self._find_places(issue, table, at)
        runners = places.runners
        own = await self._climb(
            f"rungs/{at}/own", lambda: use_own_tests(candidate.patch, runners, self._resources)
        )
        words, cut_short = None, ""
        if own.failing:
            judged = judged.with_note(
                f"Some tests that the edit adds to {own.failing} fail with it. Fix or remove them "
                "before you merge."
            )
        problems = [own.problem, places.problem]
        found = own.reproduction
        try:
            plan = None if found else await self._plan_test(places)
            self._resources.say(_describe_work(plan, brought=found is not None))
            state = await self._ask(issue, judged, script, plan, at)
            why = state.describe_end() or "the model sent no description"
            words = _Words.without_model(issue, candidate, why)
            if state.has_words:
                words = _Words(state.title, state.cause, state.change)
            found = state.reproduction if is_finished(state) else found
            problems.append(state.problem)
        except BudgetSpent as spent:
            cut_short = reasons.budget_sentence(spent)
            words = _Words.without_model(issue, candidate, cut_short.rstrip("."))
            if found is None and not is_good_enough(table, at):
                known = (cut_short, *vote_sentences(table, judged.verdict.standings))
                lack = reasons.reason_of(spent.of)
                return abstain(judged, lack, *known, context=context, votes=False)
        if found is None:
            step = await self._use_script(issue, candidate, script, places, at)
            found, problems = step.reproduction, [*problems, step.problem]
        if cut_short:
            cut_short += " I chose the edit by the results so far, and no model wrote its test."
        if found:
            judged = await self._run_extended(judged, candidate, found, at)
            return _build_selection(judged, context, found, words, cut_short, "")
        problem = " ".join(dict.fromkeys(filter(None, problems)))
        if self._resources.options.unproven == "never":
            return abstain(judged, "reproduction not confirmed", problem, context=context)
        shown = _show_script(table, at, script)
        unproven = (
            "No test that can be committed shows the issue and the fix; the script below does."
            if is_good_enough(table, at)
            else "No test or script shows the issue and the fix."
        )
        unproven = f"{unproven} {problem}".strip()
        return _build_selection(judged, context, shown, words, cut_short, unproven)

    async def _run_extended(
        self, judged: Judgement, candidate: Candidate, found: Reproduction, at: int
    ) -> Judgement:
        """With the results of the whole file that the new test extends, unless all tests ran."""
        verdict, standings = judged.verdict, judged.standings
        suite, resources = verdict.suite, self._resources
        ran = not resources.options.nearby_seconds or (suite and suite.whole)
        if found.rung != "extension" or ran or standings is None:
            return judged
        suite = await NearbyTests(resources).add_file(suite, candidate.patch.diff, found.path)
        if suite and suite.broken:
            entries = list(standings.entries)
            entries[at] = replace_fields(entries[at], broken=suite.broken)
            standings = replace(standings, entries=tuple(entries))
            verdict = replace_fields(verdict, standings=standings.entries)
            verdict = replace_fields(verdict, why=explain_choice(standings, verdict))
        return Judgement(judged.table, replace_fields(verdict, suite=suite), standings)

    async def _find_places(self, issue: Issue, table: VoteTable, at: int) -> _Places:
        codebase, options = self._codebase, self._resources.options
        conventions = await detect_conventions(codebase)
        texts = await read_test_files(codebase, options.exclude)
        every = [list_paths(candidate.patch.diff) for candidate in table.candidates]
        changed, others = sorted(every[at]), frozenset[str]().union(*every)
        history = await read_history(codebase)
        ranked = await asyncio.to_thread(rank_test_files, changed, texts, history, others)
        never = options.never_touch
        extends = choose_extension(ranked, frozenset(changed), codebase, never)
        neighbour = ranked[0][0] if ranked else None
        path = choose_new_path(issue.title, changed, neighbour, conventions, codebase, never)
        scripts = choose_script_paths(issue.title, changed, path or "", codebase, never)
        # If no new file is allowed, the probe still lies where the runner looks.
        probe = path or choose_new_path(issue.title, changed, neighbour, conventions, codebase, ())
        runners: tuple[FileRunner, ...] = ()
        problem = "The repository's never_touch setting leaves no place for a new test file."
        if probe and (path or extends):
            runners, problem = await self._find_runners(conventions, probe, at)
        scripts = scripts if path else []
        return _Places(extends, path, scripts, runners, problem, conventions)

    async def _find_runners(
        self, conventions: Conventions, path: str, at: int
    ) -> tuple[tuple[FileRunner, ...], str]:
        resources = self._resources
        command = resources.options.test_command
        runners = await find_file_runners(self._codebase, conventions, command)
        found = await load_or_run(
            resources.store,
            f"rungs/{at}/runner",
            WorkingRunner,
            lambda: find_working_runner(runners, path, resources),
        )
        return () if found.at is None else (runners[found.at],), found.problem

    async def _use_script(
        self, issue: Issue, candidate: Candidate, script: TestScript, places: _Places, at: int
    ) -> RungResult:
        """Use the script as a test, else as a file."""
        patch, resources = candidate.patch, self._resources
        wrapped = RungResult()
        if places.path and places.runners:
            runners, path = places.runners, places.path
            wrapped = await self._climb(
                f"rungs/{at}/wrapped",
                lambda: use_wrapped_script(script, patch, runners, path, issue.title, resources),
            )
        if wrapped.reproduction:
            return wrapped
        as_file = await self._climb(
            f"rungs/{at}/script",
            lambda: use_script_file(script, patch, places.scripts, resources),
        )
        if as_file.reproduction:
            return as_file
        return RungResult(problem=f"{wrapped.problem} {as_file.problem}".strip())

    async def _climb(self, key: str, work: Callable[[], Awaitable[RungResult]]) -> RungResult:
        """Load the saved result of a rung, or do `work` and save its result."""
        return await load_or_run(self._resources.store, key, RungResult, work)

    async def _ask(
        self, issue: Issue, judged: Judgement, script: TestScript, plan: TestPlan | None, at: int
    ) -> ReproductionState:
        """Ask for the model's test and description; without a `plan`, only for the description."""
        further = judged.verdict.further[-_MOST_FOUND:]
        history = await read_history(self._codebase)
        patch = judged.table.candidates[at].patch
        files = await read_edited_files(self._codebase, [patch.diff], closely=False)
        extended = plan.extends.path if plan and plan.extends else ""
        machine = ReproductionMachine(
            self._resources,
            issue=issue,
            patch=patch,
            script=script,
            plan=plan,
            found=[
                FoundOut(one.text, one.base, one.runs[one.candidates.index(at)])
                for one in further
                if at in one.candidates
            ],
            said=list_said(judged),
            rival=find_rival(judged),
            subjects=[commit.subject for commit in history[:8]],
            files=[file for file in files if file.path != extended],
        )
        return await drive(machine, ReproductionState, self._resources.store, _key(at))

    async def _plan_test(self, places: _Places) -> TestPlan | None:
        """Plan the model's test; None if it has no place or no runner."""
        runners = places.runners
        if not runners or not (places.path or places.extends):
            return None
        extends = await self._read_file(places.extends, cut=True)
        shown = places.conventions.example
        if extends or (shown and Globs(self._resources.options.exclude).first_match(shown)):
            shown = None
        example = await self._read_file(shown)
        return TestPlan(runner=runners[0], extends=extends, path=places.path or "", example=example)

    async def _read_file(self, path: str | None, *, cut: bool = False) -> SourceFile | None:
        text = await self._codebase.read_text(path) if path else None
        if not path or not text:
            return None
        if not cut or len(text) <= _MOST_SHOWN:
            return SourceFile(path=path, text=text, tokens=0)
        return SourceFile(path=path, text=_cut_middle(text), tokens=0, partial=True)


def _key(candidate: int) -> str:
    return f"reproduction/{candidate}"


async def reconsider(judge: Judge, judged: Judgement, store: Store) -> Judgement:
    """Choose again by the script that reaches the changed lines from elsewhere, if there is one."""
    if judged.verdict.chosen is None:
        return judged
    state = await store.load(_key(judged.verdict.chosen), ReproductionState)
    return await judge.reconsider(judged, state.elsewhere) if state and state.elsewhere else judged


async def find_remaining(judged: Judgement, again: Judgement, store: Store) -> FurtherScript | None:
    """The script from elsewhere that left the choice of `judged` to `again` as it was, if it shows
    a case that the issue asks for and that no edit mends."""
    chosen, further = again.verdict.chosen, again.verdict.further
    if chosen is None or chosen != judged.verdict.chosen or further == judged.verdict.further:
        return None
    state, last = await store.load(_key(chosen), ReproductionState), further[-1]
    fails = last.base.exit_code == NOT_FIXED and not any(run.passed for run in last.runs)
    return last if state and state.asked and fails else None


def add_findings(selection: Selection, judged: Judgement) -> Selection:
    """With the scripts, notes, explanation and estimate of `judged`, newer than `selection`."""
    evidence, verdict = selection.evidence, judged.verdict
    notes = dict.fromkeys((*evidence.notes, *verdict.notes))
    evidence = replace_fields(
        evidence, further=verdict.further, notes=tuple(notes), why=verdict.why
    )
    return replace_fields(selection, evidence=evidence, confidence=verdict.confidence)


def _describe_work(plan: TestPlan | None, *, brought: bool) -> str:
    """What the model is about to be asked for; the edit may have `brought` its own test."""
    if brought:
        return "Describing the edit, which brought its own test."
    return "Writing the reproduction test." if plan else "Describing the edit."


def _build_selection(
    judged: Judgement,
    context: Context,
    reproduction: Reproduction,
    words: _Words,
    cut_short: str,
    unproven: str,
) -> Selection:
    verdict, candidate = judged.verdict, judged.chosen
    assert candidate is not None
    evidence = Evidence(
        votes=judged.table,
        finalists=verdict.finalists,
        selection_rounds=verdict.rounds,
        further=verdict.further,
        reproduction=reproduction,
        suite=verdict.suite,
        suite_problem=verdict.suite_problem,
        title=words.title,
        cause=words.cause,
        change=words.change,
        described=words.described,
        context=context,
        method=verdict.method,
        why=verdict.why,
        standings=verdict.standings,
        order=verdict.order,
        notes=verdict.notes,
        cut_short=cut_short,
        unproven=unproven,
    )
    return Selection(
        candidate=candidate,
        decided_by=verdict.decided_by,
        confidence=verdict.confidence,
        recalibration=verdict.recalibration,
        evidence=evidence,
    )


def _cut_middle(text: str) -> str:
    """The first and last lines, whole, within `_MOST_SHOWN` characters."""
    head = text[: int(_MOST_SHOWN * _HEAD_SHARE)].rpartition("\n")[0]
    tail = text[len(text) - int(_MOST_SHOWN * (1 - _HEAD_SHARE)) :].partition("\n")[2]
    left_out = text.count("\n") - head.count("\n") - tail.count("\n")
    return f"{head}\n[... {left_out} lines are not shown ...]\n{tail}"


def _pick_script(table: VoteTable, candidate: int) -> TestScript:
    """The candidate's own script if it reports the issue and passes with the edit; else another
    one. Without a gate there may be none: then its own all the same, or the first."""
    own = table.candidates[candidate].test
    steady = [t for t in reproducing_tests(table) if t not in table.flaky]
    fit = [table.tests[t] for t in steady if table.runs[candidate][t].passed] or table.tests
    return own if own in fit and own else fit[0]


def _show_script(table: VoteTable, candidate: int, script: TestScript) -> Reproduction:
    at = table.tests.index(script)
    return show_script(script, table.base[at], table.runs[candidate][at])
