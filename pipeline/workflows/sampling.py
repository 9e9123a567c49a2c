"""Samples, each a test and then an edit, in waves (CodeMonkeys, section 2.2, and beyond it)."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass

from pipeline import reasons
from pipeline.concurrency import gather_all
from pipeline.generation.diversity import (
    Approaches,
    Direction,
    FinishedSample,
    TriedEdit,
    draw_approaches,
    is_informed,
    to_tried_edits,
)
from pipeline.generation.editing import EditingMachine, EditingState
from pipeline.generation.stopping import is_enough, waves
from pipeline.generation.testing import TestingMachine, TestingState
from pipeline.models.base import ModelUnavailable
from pipeline.models.wrappers.cache_warmup import CacheWarmup
from pipeline.on_budget import drive_on_budget
from pipeline.regression.nearby import NearbyTests
from pipeline.resources import Resources
from pipeline.selection.voting import vote
from pipeline.state import Phase
from pipeline.types import Candidate, Context, Issue, NoFix
from sandbox.errors import SandboxUnavailable


@dataclass(frozen=True)
class Sample:
    """What one testing machine and the editing machine after it came to."""

    number: int
    test: TestingState
    edit: EditingState | None = None

    @property
    def candidate(self) -> Candidate | None:
        return self.edit.candidate(self.number) if self.edit else None

    @property
    def out_of_budget(self) -> str:
        """Which ceiling ended it, as a sentence; empty when none did."""
        states = [self.test, self.edit] if self.edit else [self.test]
        ceilings = (state.ceiling for state in states if state.phase is Phase.OUT_OF_BUDGET)
        return next(ceilings, "")


class Sampler:
    """Runs the testing and editing machines. Each is saved under `testing/i` and `editing/i`."""

    def __init__(self, resources: Resources) -> None:
        self._model = resources.model
        self._editing = dataclasses.replace(resources, model=CacheWarmup(resources.model))
        self._sandbox = resources.sandbox
        self._store = resources.store
        self._options = resources.options
        early = resources.options.nearby_seconds > 0
        self._own_tests = (
            NearbyTests(resources.codebase, self._sandbox, self._store, self._options)
            if early
            else None
        )

    async def sample(self, issue: Issue, context: Context) -> list[Candidate] | NoFix:
        """One candidate for each sample that came to an edit, in sample order; at least one.

        When a service fails one sample, the others of its wave still come to their ends, and what
        they paid for is saved, before that failure is raised.

        What a wave decides follows from what is saved, so that a run that goes on after a crash
        decides the same.
        """
        options = self._options
        approaches = await self._draw_approaches(issue)
        samples: list[Sample] = []
        for wave in waves(options.samples, first=options.first_wave, adaptive=options.adaptive):
            samples += await self._run_wave(issue, context, wave, approaches, samples)
            if len(samples) == options.samples or await self._is_enough(samples):
                break
        candidates = [sample.candidate for sample in samples if sample.candidate]
        return candidates or _explain_no_candidate(samples)

    async def _draw_approaches(self, issue: Issue) -> Approaches:
        if self._options.samples == 1 or not self._options.approaches:
            return Approaches()
        return await draw_approaches(self._model, issue, self._options.samples, self._store)

    async def _run_wave(
        self,
        issue: Issue,
        context: Context,
        wave: range,
        approaches: Approaches,
        before: Sequence[Sample],
    ) -> list[Sample]:
        """The independent samples without waiting for each other; the informed ones' edits last."""
        share = self._options.informed
        given = dict(enumerate(approaches.lines))

        async def run_independent(number: int) -> Sample:
            test = await self._write_test(issue, number)
            if is_informed(number, share):
                return test
            direction = Direction(approach=given.get(number, ""))
            return await self._write_edit(issue, context, test, direction)

        async def edit_informed(sample: Sample) -> Sample:
            if not is_informed(sample.number, share):
                return sample
            direction = Direction(approach=given.get(sample.number, ""), others=others)
            return await self._write_edit(issue, context, sample, direction)

        samples = _raise_first_failure(
            await gather_all(_catch_unavailable(run_independent(number)) for number in wave)
        )
        others = _collect_tried_edits([*before, *samples])
        return _raise_first_failure(
            await gather_all(_catch_unavailable(edit_informed(sample)) for sample in samples)
        )

    async def _write_test(self, issue: Issue, number: int) -> Sample:
        machine = TestingMachine(self._model, self._sandbox, issue, self._options, sample=number)
        test = await drive_on_budget(machine, TestingState, self._store, f"testing/{number}")
        return Sample(number, test)

    async def _write_edit(
        self, issue: Issue, context: Context, sample: Sample, direction: Direction
    ) -> Sample:
        seed = sample.test.best()
        if seed is None:
            return sample
        machine = EditingMachine(
            self._editing,
            issue=issue,
            context=context,
            seed=seed,
            sample=sample.number,
            own_tests=self._own_tests,
            direction=direction,
        )
        edit = await drive_on_budget(machine, EditingState, self._store, f"editing/{sample.number}")
        return Sample(sample.number, sample.test, edit)

    async def _is_enough(self, samples: Sequence[Sample]) -> bool:
        if any(sample.out_of_budget for sample in samples):
            return True
        candidates = [sample.candidate for sample in samples if sample.candidate]
        if not candidates:
            return False
        alone = [s for s in samples if not (s.edit and s.edit.informed_by)]
        sound = {s.number for s in alone if s.edit and not any(s.edit.broken[-1:])}
        # The very table that the choice is made from, if this was the last wave: its rows are kept.
        seconds = self._options.execution_seconds
        table = await vote(candidates, sandbox=self._sandbox, store=self._store, seconds=seconds)
        return is_enough(table, sound, len(alone), least=self._options.agreement)


def _collect_tried_edits(samples: Sequence[Sample]) -> tuple[TriedEdit, ...]:
    finished: list[FinishedSample] = []
    for sample in samples:
        if (edit := sample.edit) and edit.patches:
            run = edit.edited[-1] if edit.edited else None
            broken = edit.broken[-1] if edit.broken else ()
            finished.append(FinishedSample(sample.number, edit.patches[-1].diff, run, len(broken)))
    return to_tried_edits(finished)


def _explain_no_candidate(samples: Sequence[Sample]) -> NoFix:
    """Why there is not one candidate."""
    spent = next((sample.out_of_budget for sample in samples if sample.out_of_budget), "")
    if spent:
        return NoFix(reason="out of budget", details=(spent,))
    if all(sample.edit is None for sample in samples):
        return NoFix(reason="no reproduction", details=(reasons.NO_SCRIPT,))
    return NoFix(reason="no edit", details=(reasons.NO_EDIT,))


async def _catch_unavailable(
    sample: Awaitable[Sample],
) -> Sample | ModelUnavailable | SandboxUnavailable:
    try:
        return await sample
    except (ModelUnavailable, SandboxUnavailable) as error:
        return error


def _raise_first_failure(
    ended: Iterable[Sample | ModelUnavailable | SandboxUnavailable],
) -> list[Sample]:
    """The samples; raises the first failure among them."""
    samples: list[Sample] = []
    for one in ended:
        if not isinstance(one, Sample):
            raise one
        samples.append(one)
    return samples
