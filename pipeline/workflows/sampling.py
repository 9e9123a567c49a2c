"""Draws samples, each a test and then an edit, in waves, and stops when more are not worth it."""

import dataclasses
import math
from collections.abc import Awaitable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline import reasons
from pipeline.concurrency import gather_all
from pipeline.data.code_places import Context, Habits, Located
from pipeline.data.options import Generator
from pipeline.data.progress import Written
from pipeline.data.types import NOT_FIXED, Candidate, Issue, NoFix, Patch, TestScript, VoteTable
from pipeline.edits.formatted import format_edit
from pipeline.generation.diversity import (
    Approaches,
    Direction,
    EditTask,
    FinishedSample,
    TriedEdit,
    assign_generators,
    draw_approaches,
    is_informed,
    samples_agree,
    to_tried_edits,
    wrote_the_same,
)
from pipeline.generation.editing import EditingMachine, EditingState, opening
from pipeline.generation.exploring import ExploringMachine, ExploringState, cut_context
from pipeline.generation.scripts import TestingState
from pipeline.generation.testing import write_script
from pipeline.localisation.stages import show_located
from pipeline.models.base import Model, ModelUnavailable
from pipeline.models.wrappers import CacheWarmup, DrawnModel
from pipeline.regression.near_tests import NearbyTests
from pipeline.resources import Resources, drive_on_budget
from pipeline.selection.voting import earlier_revisions, vote
from pipeline.state import Phase, State
from pipeline.workflows.comments_during_run import hear
from pipeline.workflows.repo_conventions import read_habits
from prompts.templates import render
from prompts.text import agree, pluralize
from sandbox.errors import SandboxUnavailable
from sandbox.frozen import replace
from sandbox.program import Execution


async def vote_on_revisions(table: VoteTable, resources: Resources) -> None:
    """Run every test of `table` on every earlier revision of its edits.

    The results stay in the store; the choice does not use them. See `Options.all_revisions`.
    """
    revisions: dict[int, list[Patch]] = {}
    for candidate in table.candidates:
        state = await resources.store.load(f"editing/{candidate.sample}", EditingState)
        revisions[candidate.sample] = state.patches if state else []
    edits = [edit for edits in earlier_revisions(table, revisions).values() for edit in edits]
    resources.say(f"Running every test on earlier versions of the edits ({len(edits)}).")
    await vote(edits, resources, tests=table.tests)


LEAST = 3
"""How many must agree at least, by default."""


def waves(samples: int, *, first: int, adaptive: bool) -> Iterator[range]:
    """The sample numbers that start together: `first` at a time, or all at once."""
    size = first if adaptive else samples
    for start in range(0, samples, size):
        yield range(start, min(samples, start + size))


def is_enough(
    table: VoteTable,
    independent: Collection[int],
    started: int,
    *,
    least: int = LEAST,
    sources: int = 1,
) -> bool:
    """Whether to stop after a wave (the stop rule).

    `independent` are the numbers of the samples that count: they saw no other sample's edit and
    break none of the repository's tests that ran; `started` is the number of such samples, with or
    without an edit. Stop if at least `least` of them, and two thirds of `started`, agree: each has
    a script that reports the issue on the unedited code, and passes the scripts of all. Otherwise
    continue, up to the maximum: there is disagreement, or nothing passes yet.

    `sources` is how many kinds of machines and models have drawn samples (`Candidate.origin`).
    Copies of one make the same mistakes: where there are several, two of them must agree.

    The paper always draws all samples.
    """
    group = agreeing_candidates(table, independent)
    found = {table.candidates[c].origin for c in group}
    quorum = math.ceil(2 / 3 * started - 1e-9)
    return len(group) >= max(least, quorum) and len(found) >= min(2, sources)


def agreeing_candidates(table: VoteTable, independent: Collection[int]) -> tuple[int, ...]:
    """Indices of candidates that pass each other's scripts: a large group, best first.

    The group grows from the candidate that passes most; a larger one may exist.
    """
    own = {
        c: table.tests.index(candidate.test)
        for c, candidate in enumerate(table.candidates)
        if candidate.sample in independent and candidate.test in table.tests
    }
    fit = [
        c
        for c, t in own.items()
        if table.base[t].exit_code == NOT_FIXED and table.runs[c][t].passed
    ]
    group: list[int] = []
    for c in sorted(fit, key=lambda c: (-sum(table.runs[c][own[o]].passed for o in fit), c)):
        if all(table.runs[c][own[o]].passed and table.runs[o][own[c]].passed for o in group):
            group.append(c)
    return tuple(group)


@dataclass(frozen=True)
class _Start:
    """What the machine that writes an edit is shown first."""

    context: Context
    located: Located | None = None


@dataclass(frozen=True)
class Sample:
    """The results of one testing machine and the editing machine after it."""

    number: int
    test: TestingState
    edit: EditingState | None = None

    @property
    def candidate(self) -> Candidate | None:
        return self.edit.candidate(self.number) if self.edit else None

    @property
    def out_of_budget(self) -> State | None:
        """The state with the ceiling that ended it; None if there was none."""
        states: list[State] = [self.test, self.edit] if self.edit else [self.test]
        return next((state for state in states if state.phase is Phase.OUT_OF_BUDGET), None)


class Sampler:
    """Runs the testing machines, and the editing or exploring machines after them.

    Each is saved under `testing/i` and `editing/i`.
    """

    def __init__(self, resources: Resources, *, unseen: int = 0) -> None:
        """`unseen`: see `Evidence`."""
        self._resources = resources
        self.unseen = unseen
        self._model = resources.clock.limit(resources.model, "samples")
        self._generators = assign_generators(
            resources.options.generators,
            resources.options.samples + 1,  # and `mend`'s
        )
        # What shares an opening: it is cached once.
        self._warmed_up: dict[tuple[Generator, int], Model] = {}
        self._starts: Sequence[_Start] = ()
        self._store = resources.store
        self._options = resources.options
        self._codebase = resources.codebase
        self._habits = Habits()
        self.drawn = Approaches()
        """What was said before any edit was written; known after `sample`."""
        early = resources.options.nearby_seconds > 0
        self._own_tests = NearbyTests(resources) if early else None

    async def sample(self, issue: Issue, context: Context) -> list[Candidate] | NoFix:
        """Draw one candidate for each sample with an edit, in sample order; at least one.

        If a service fails for one sample, the others of its wave still finish and their paid work
        is saved before the failure is raised.

        A wave's decisions depend only on saved data, so that a run resumed after a crash decides
        the same.

        With a `search` in `context`, the edits start from its answers in turn; these take the place
        of approaches.
        """
        options = self._options
        self._starts = await self._find_starts(context)
        if "habits" not in options.without:
            self._habits = await read_habits(self._codebase, context, options.exclude)
        self.drawn = await self._draw_approaches(issue, context)
        samples: list[Sample] = []
        for wave in waves(options.samples, first=options.first_wave, adaptive=options.adaptive):
            samples += await self._run_wave(issue, wave, samples)
            if len(samples) == options.samples or await self._is_enough(samples):
                break
        return await self._collect_candidates(samples) or _explain_no_candidate(samples)

    async def _collect_candidates(self, samples: Sequence[Sample]) -> list[Candidate]:
        """The edits of `samples` in the repository's own form, in their order."""

        async def collect(sample: Sample, candidate: Candidate) -> Candidate:
            key = f"formatted/{candidate.sample}"
            if (patch := await self._store.load(key, Patch)) is None:
                sandbox = self._resources.sandbox
                patch = await format_edit(candidate.patch, self._codebase, sandbox)
                if patch != candidate.patch:
                    await self._store.save(key, patch)
                    if self._own_tests:
                        await self._own_tests.hand_on(candidate.patch.diff, patch.diff)
            return replace(candidate, patch=patch, summary=self._summarise(sample))

        return await gather_all(
            collect(one, candidate) for one in samples if (candidate := one.candidate)
        )

    def _summarise(self, sample: Sample) -> str:
        return sample.edit.summarise() if sample.edit and self._options.summaries else ""

    async def mend(
        self, issue: Issue, script: TestScript, base: Execution, edit: Candidate
    ) -> Candidate | None:
        """Have one more sample, which sees `edit`, fix what `script` shows, which fails with it and
        on the unedited code (`base`). Call `sample` before.

        None if it writes no other edit. Raises as `sample`.
        """
        how = "It was chosen, and passes what ran before. With it, the script above fails."
        tried = TriedEdit(sample=edit.sample, diff=edit.patch.diff, how=how, summary=edit.summary)
        test = TestingState(pending="", scripts=[script.text], runs=[base])
        given = Sample(self._options.samples, test)
        written = await self._write_edit(
            issue, given, Direction(others=(tried,), checklist=self.drawn.checklist.points)
        )
        mended = next(iter(await self._collect_candidates([written])), None)
        return mended if mended and mended.patch != edit.patch else None

    async def _draw_approaches(self, issue: Issue, context: Context) -> Approaches:
        if not self._options.approaches or self._starts[0].located:
            return Approaches()
        shared = opening(self._resources, issue, context, self._habits)
        language = self._resources.describe_language()
        return await draw_approaches(self._model, shared, language, self._options, self._store)

    async def _find_starts(self, context: Context) -> Sequence[_Start]:
        search = context.search
        if search is None or not search.located:
            return (_Start(context),)
        tokens = self._options.context_tokens
        if "ranking" in self._options.without:
            context = replace(context, files=())
        return [
            _Start(await show_located(context, located, self._codebase, tokens), located)
            for located in search.located
        ]

    async def _run_wave(self, issue: Issue, wave: range, before: Sequence[Sample]) -> list[Sample]:
        """Run the independent samples concurrently; the informed ones' edits come last.

        No informed one writes an edit if all others wrote the same.
        """
        share = self._options.informed
        approaches = self.drawn.assign(self._options)
        ready = len(before)

        async def write_edit(sample: Sample, direction: Direction) -> Sample:
            nonlocal ready
            found = await self._write_edit(issue, sample, direction)
            ready += 1
            samples = f"{ready} of {pluralize(wave.stop, 'sample')}"
            self._resources.say(f"{samples} {agree(ready, 'has', 'have')} ended.")
            return found

        async def run_independent(number: int) -> Sample:
            # Triage is over: something is to be fixed, whatever one sample thinks.
            sample = Sample(number, await self.write_test(issue, number, insist=True))
            if is_informed(number, share):
                return sample
            return await write_edit(sample, Direction(approach=approaches.get(number, "")))

        async def edit_informed(sample: Sample) -> Sample:
            if not is_informed(sample.number, share):
                return sample
            direction = Direction(
                others=to_tried_edits(finished),
                agree=samples_agree(finished),
                checklist=self.drawn.checklist.points,
            )
            return await write_edit(sample, direction)

        samples = await _finish_all(map(run_independent, wave))
        finished = self._collect_finished([*before, *samples])
        if self._is_settled(finished):
            return samples
        return await _finish_all(map(edit_informed, samples))

    def _collect_finished(self, samples: Sequence[Sample]) -> list[FinishedSample]:
        finished: list[FinishedSample] = []
        for sample in samples:
            if (edit := sample.edit) and edit.patches:
                run = edit.edited[-1] if edit.edited else None
                broken = len(edit.broken[-1]) if edit.broken else 0
                diff, summary = edit.patches[-1].diff, self._summarise(sample)
                base = edit.base[-1] if edit.base else None
                finished.append(FinishedSample(sample.number, diff, run, broken, summary, base))
        return finished

    def _is_settled(self, finished: Sequence[FinishedSample]) -> bool:
        """Whether an informed sample has nothing left to check: enough samples, by two generators
        where there are several, wrote the same code."""
        kinds = [(each.machine, each.model) for each in self._generators[: self._options.samples]]
        drawn = {kinds[one.sample] for one in finished}
        enough = len(finished) >= self._options.agreement and len(drawn) >= min(2, len(set(kinds)))
        return enough and wrote_the_same(finished)

    async def write_test(self, issue: Issue, number: int, *, insist: bool = False) -> TestingState:
        """Write the test of sample `number`, or load it: `sample` uses the same.

        With `insist`, a model that saw nothing to fix is asked for a script all the same.
        """
        model = self._find_model(self._generators[number])
        resources = dataclasses.replace(self._resources, model=model)
        if insist:
            options = replace(resources.options, triage=False)
            resources = dataclasses.replace(resources, options=options)
            said = await self._store.load(f"testing/{number}", TestingState)
            if said and said.nothing:
                said.nothing, said.why, said.phase = None, "", Phase.ASKING
                said.pending = render("testing/insist")
                await self._store.save(f"testing/{number}", said)
        issue = await hear(issue, f"testing-{number}", resources)
        return await write_script(issue, resources, sample=number)

    async def _write_edit(self, issue: Issue, sample: Sample, direction: Direction) -> Sample:
        seed = sample.test.best()
        number, generator = sample.number, self._generators[sample.number]
        if seed is None and generator.machine == "fixed":
            return sample
        model = self._find_model(generator)
        turn = number % len(self._starts)
        start = self._starts[turn]
        direction = replace(direction, located=start.located)
        # Samples of one generator and start share their opening.
        warmed_up = self._warmed_up.setdefault((generator, turn), CacheWarmup(model))
        resources = dataclasses.replace(self._resources, model=warmed_up)
        key = f"editing/{number}"
        issue = await hear(issue, f"editing-{number}", resources)
        task = EditTask(
            issue, start.context, number, seed, self._own_tests, direction, self._habits,
            self.unseen,
        )  # fmt: skip
        resources.report(Written("edit", number, "begun"))
        edit: EditingState
        if generator.machine == "explore":
            explorer = ExploringMachine(resources, task)
            edit = await drive_on_budget(explorer, ExploringState, self._store, key)
        else:
            fitted = fit_context(start.context, model, self._model)
            machine = EditingMachine(resources, dataclasses.replace(task, context=fitted))
            edit = await drive_on_budget(machine, EditingState, self._store, key)
        found = Sample(number, sample.test, edit)
        shown = [one.diff for one in direction.others]
        is_own = found.candidate and found.candidate.patch.diff not in shown
        resources.report(Written("edit", number, "written" if is_own else "dropped"))
        return found

    def _find_model(self, generator: Generator) -> Model:
        limit = partial(self._resources.clock.limit, stage="samples")
        solvers = self._resources.solvers
        models = [limit(solvers[name]) if name else self._model for name in generator.models]
        return DrawnModel(models) if len(models) > 1 else models[0]

    async def _is_enough(self, samples: Sequence[Sample]) -> bool:
        if any(sample.out_of_budget for sample in samples):
            return True
        candidates = await self._collect_candidates(samples)
        if not candidates:
            return False
        share = self._options.informed
        alone = [
            s
            for s in samples
            if not (s.edit.informed_by if s.edit else is_informed(s.number, share))
        ]
        sound = {s.number for s in alone if s.edit and not any(s.edit.broken[-1:])}
        # The choice uses this same table if this was the last wave: its rows are saved.
        table = await vote(candidates, self._resources)
        sources = len(set(self._generators[: len(samples)]))
        least = self._options.agreement
        return is_enough(table, sound, len(alone), least=least, sources=sources)


def fit_context(context: Context, model: Model, solver: Model) -> Context:
    """`context`, which was packed for the solver, cut to half of the window of another model."""
    most = model.profile.window // 2
    if model.profile.window >= solver.profile.window:
        return context
    shown, _ = cut_context(context, most)
    return replace(context, files=tuple(shown))


def _explain_no_candidate(samples: Sequence[Sample]) -> NoFix:
    spent = next((state for one in samples if (state := one.out_of_budget)), None)
    if spent:
        return NoFix(reason=reasons.reason_of(spent.reached), details=(spent.ceiling,))
    edits = [sample.edit for sample in samples if sample.edit]
    states: Sequence[State] = edits or [sample.test for sample in samples]
    ends = dict.fromkeys(filter(None, (state.describe_end() for state in states)))
    what = "wrote an edit that applies" if edits else "wrote a script that could be run"
    why = f": {'; '.join(ends)}" if ends else ""
    return NoFix(
        reason="no edit" if edits else "no reproduction",
        details=(f"None of {pluralize(len(states), 'sample')} {what}{why}.",),
    )


async def _finish_all(jobs: Iterable[Awaitable[Sample]]) -> list[Sample]:
    """The samples; the first service that failed is raised once all others have ended."""
    failures: list[ModelUnavailable | SandboxUnavailable] = []

    async def finish(job: Awaitable[Sample]) -> Sample | None:
        try:
            return await job
        except (ModelUnavailable, SandboxUnavailable) as error:
            failures.append(error)
            return None

    ended = await gather_all(map(finish, jobs))
    if failures:
        raise failures[0]
    return [sample for sample in ended if sample]
