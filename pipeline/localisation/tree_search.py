"""Searches in two stages, keeping the best answers of each (SWE-Reasoner, section 2.2.1).

    width × understanding ─score─▶ keep ─▶ width × localisation ─score─▶ keep ─▶ edits

Each machine, each score and the result are saved under keys of their own.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.concurrency import gather_all
from pipeline.context.finder import CONTEXT_KEY
from pipeline.context.retrieval.retrieve import build_reading_list
from pipeline.data.code_places import Context, Located, SearchRecord
from pipeline.data.types import Issue
from pipeline.localisation.process_reward import NOT_SCORED, ProcessReward, score_answers
from pipeline.localisation.stages import (
    SHARE,
    LocalisationMachine,
    ReadingMachine,
    ReadingState,
    UnderstandingMachine,
    show_located,
)
from pipeline.models.base import Model
from pipeline.models.wrappers import CacheWarmup
from pipeline.reasons import budget_sentence
from pipeline.resources import Resources, drive_on_budget
from pipeline.run_errors import BudgetSpent
from sandbox.frozen import Frozen, replace

SEARCH_KEY = "search/result"
"""The key of the result; absent while a restart of the same run could find more."""
SEARCH_END_KEY = "search/end"
"""The key of the last result of such a run."""
SEARCH_STAGES = ("understanding", "localisation", "prm")
"""The stages under which its calls are accounted."""
_FIRST_KEY = "search/understood"
NOTHING_FOUND = "The search named no files, so the edits start from the ranked files alone."


class Beam(NamedTuple):
    """How wide a search is from a number of edits on."""

    edits: int
    """SWE-Reasoner's generation budget: `Options.samples`."""
    width: int
    """Answers drawn in each stage."""
    keep: int
    """Answers that go on, where a reward model tells them apart."""


BEAMS = (Beam(1, 1, 1), Beam(2, 2, 1), Beam(4, 2, 1), Beam(8, 4, 2))
"""Section 3.4 states the widths: 2 for 2 and 4 edits, 4 for 8. It states none for one edit, nor how
many answers go on: half of them, here."""


def find_beam(edits: int) -> Beam:
    """The beam for a run with `edits` samples."""
    return [beam for beam in BEAMS if beam.edits <= edits][-1]


async def add_search(
    issue: Issue, context: Context, resources: Resources, reward: ProcessReward | None
) -> Context:
    """`context` with what a search found; as it is with a strategy that does not search.

    Raises:
        ModelError, SandboxError: call again to resume.
    """
    if not resources.options.searches:
        return context
    resources.say("Searching for the lines that have to change.")
    return replace(context, search=await LocationSearch(resources, reward).search(issue, context))


async def search_first(
    issue: Issue, resources: Resources, reward: ProcessReward | None
) -> Context | None:
    """The files that a search names, which itself begins with the names of all; None if it names
    none. Saved as a ranking's. Raises as `add_search`."""
    r = resources
    if saved := await r.store.load(CONTEXT_KEY, Context):
        return saved
    read = await build_reading_list(r.codebase, issue, r.options)
    names = Context(files=(), dropped=tuple(file.path for file in read.files))
    context = await add_search(issue, names, r, reward)
    located = context.search.located if context.search else ()
    for one in reversed(located):  # the best comes first
        context = await show_located(context, one, r.codebase, r.options.context_tokens)
    if not context.files:
        return None
    await r.store.save(CONTEXT_KEY, context)
    return context


class _Stage(Frozen):
    """What goes on after a stage, as it is saved."""

    answers: tuple[Located, ...]
    note: str = ""


class LocationSearch:
    """Finds where the cause of an issue is thought to be."""

    def __init__(self, resources: Resources, reward: ProcessReward | None) -> None:
        """`reward`: None draws and prunes nothing by scores: every answer goes on."""
        self._resources = resources
        self._reward = reward
        model = resources.clock.limit(resources.model, "samples")
        # All machines of the search share their opening.
        self._model: Model = CacheWarmup(model)
        self._beam = find_beam(resources.options.samples)
        self._ceiling = ""
        """The ceiling that kept it from asking, as a sentence; empty if none did."""

    async def search(self, issue: Issue, context: Context) -> SearchRecord:
        """Search, or load the saved result. Without an answer, `located` is empty.

        Raises:
            ModelError, SandboxError: call again to resume.
        """
        store = self._resources.store
        saved = await store.load(SEARCH_KEY, SearchRecord)
        if saved is not None:
            return saved
        understood = await store.load(_FIRST_KEY, _Stage)
        if understood is None:
            understood = await self._prune(issue, await self._understand(issue, context), "")
            if not self._ceiling:
                await store.save(_FIRST_KEY, understood)
        found = await self._locate(issue, context, understood.answers)
        located = await self._prune(issue, found, understood.note) if found else understood
        cut = f"The search was cut short: {self._ceiling}" if self._ceiling else ""
        notes = [cut, located.note, "" if located.answers else NOTHING_FOUND]
        record = SearchRecord(
            width=self._beam.width, located=located.answers, notes=tuple(filter(None, notes))
        )
        # With a higher ceiling, a restarted run continues.
        await store.save(SEARCH_END_KEY if self._ceiling else SEARCH_KEY, record)
        return record

    async def _understand(self, issue: Issue, context: Context) -> list[Located]:
        r = self._resources
        machines = [
            UnderstandingMachine(r, self._model, issue, context, number)
            for number in range(self._beam.width)
        ]
        return [Located(files=state.files) for state in await self._drive(machines) if state.files]

    async def _locate(
        self, issue: Issue, context: Context, parents: Sequence[Located]
    ) -> list[Located]:
        """Draw `width` answers, which start from `parents` in turn."""
        if not parents:
            return []
        r = self._resources
        starts = [parents[number % len(parents)] for number in range(self._beam.width)]
        machines = [
            LocalisationMachine(r, self._model, issue, context, number, files=start.files)
            for number, start in enumerate(starts)
        ]
        states = await self._drive(machines)
        return [
            Located(files=start.files, places=state.places, files_score=start.files_score)
            for start, state in zip(starts, states, strict=True)
            if state.places
        ]

    async def _drive(self, machines: Sequence[ReadingMachine]) -> list[ReadingState]:
        share = self._resources.options.dollars * SHARE / (2 * self._beam.width)
        for machine in machines:
            machine.allow(share)
        store = self._resources.store
        states = await gather_all(
            drive_on_budget(machine, ReadingState, store, machine.call) for machine in machines
        )
        self._ceiling = next(filter(None, (one.ceiling for one in states)), self._ceiling)
        return states

    async def _prune(self, issue: Issue, drawn: Sequence[Located], note: str) -> _Stage:
        """The best of the distinct answers; all of them where nothing tells them apart.

        A reward model that failed in the first stage is not asked again in the second.
        """
        answers = _merge_equal(drawn)
        failed = bool(note) and not any(found.files_score is not None for found in drawn)
        if self._reward is None or not answers or failed:
            return _Stage(answers=tuple(answers), note=note)
        try:
            ranked, why = await score_answers(self._reward, issue, answers, self._resources.store)
        except BudgetSpent as spent:
            self._ceiling = self._ceiling or budget_sentence(spent)
            return _Stage(answers=tuple(answers), note=NOT_SCORED)
        best = ranked[0]
        score = best.places_score if best.places else best.files_score
        kept = ranked if score is None else ranked[: self._beam.keep]
        return _Stage(answers=tuple(kept), note=why or note)


def _merge_equal(answers: Sequence[Located]) -> list[Located]:
    """The first of each group of answers that name the same, whatever their reasons."""
    distinct: dict[object, Located] = {}
    for found in answers:
        files = frozenset(file.path for file in found.files)
        places = frozenset((place.path, place.first, place.last) for place in found.places)
        distinct.setdefault((files, places), found)
    return list(distinct.values())
