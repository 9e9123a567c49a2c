"""Attempts of our own runs: every reply with the request that it answered.

The machines themselves render the system text and select the messages, so that what is trained on
is what is served.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from pipeline.bundle import MANIFEST
from pipeline.context.ranking import RankingMachine, RankingState
from pipeline.data.code_places import Context, Located
from pipeline.data.types import NOT_FIXED, Candidate, Issue, Selection
from pipeline.generation.diversity import EditTask
from pipeline.generation.editing import EditingMachine, EditingState
from pipeline.generation.exploring import ExploringMachine, ExploringState
from pipeline.generation.scripts import TestingState
from pipeline.generation.testing import TestingMachine
from pipeline.lab.bundles import list_entries, read_documents
from pipeline.lab.dataset import BadData
from pipeline.lab.learning.records import (
    AnswerLevel,
    Attempt,
    JudgedAnswer,
    Outcome,
    ReplyRow,
    SolvedIssue,
    Stage,
)
from pipeline.lab.learning.training_rows import names_files, names_places
from pipeline.localisation.process_reward import render_judgement
from pipeline.localisation.stages import LocalisationMachine, ReadingState, UnderstandingMachine
from pipeline.localisation.tree_search import find_beam
from pipeline.machine import Machine
from pipeline.models.base import ModelProfile, ModelRefused, ModelRequest, Reply
from pipeline.replay import BundleStore, NotInBundle, load_question, open_replay
from pipeline.resources import Resources
from pipeline.run_errors import OtherFormat
from pipeline.state import ReplyKind, S
from pipeline.store import Store
from pipeline.workflows.outcome import EFFECTIVE_KEY, EffectiveSetup, load_end
from sandbox.frozen import replace


class _BranchState(BaseModel):
    candidate: int


class _BranchHistory(BaseModel):
    states: tuple[_BranchState, ...]


@dataclass(frozen=True)
class _ProfileOnly:
    """The model of a finished run: its limits are known, and it is never asked."""

    profile: ModelProfile

    async def complete(self, request: ModelRequest) -> Reply:
        raise ModelRefused(f"{request.call} belongs to a finished run.")


async def read_attempts(
    folder: Path,
    issues: Mapping[str, SolvedIssue],
    outcomes: Mapping[str, Outcome] | None = None,
) -> AsyncGenerator[Attempt]:
    """The attempts of the runs in `folder`, one run at a time, each named after its issue in
    `issues`.

    Runs have the forms of `pipeline.lab.bundles.read_runs`; those of other issues are left
    out. `outcomes`: by run id, what became of its pull request; it labels the proposed edit.

    Raises:
        BadData: a run is broken, another version saved it, or no run has the name of an issue.
    """
    found = False
    for entry in await asyncio.to_thread(list_entries, folder):
        name = entry.name.removesuffix(".tar.zst")
        if name not in issues:
            continue
        documents = await asyncio.to_thread(read_documents, entry)
        if documents is None:
            continue
        try:
            attempts = await _read_run(issues[name], documents)
            attempts = await _label_proposed(attempts, documents, outcomes or {})
        except OtherFormat as error:
            raise BadData(f"{entry}: {error}") from None
        for attempt in attempts:
            found = True
            yield attempt
    if not found:
        raise BadData(
            f"{folder} holds no run with an edit that is named after a collected issue: collect "
            "the issues first."
        )


async def _read_run(solved: SolvedIssue, documents: Mapping[str, bytes]) -> list[Attempt]:
    store = BundleStore(documents)
    setup = await store.load(EFFECTIVE_KEY, EffectiveSetup)
    if setup is None:
        return []
    issue = _read_issue(documents) or solved.issue
    if "comments" in setup.options.without:
        issue = issue.as_reported()
    context = await store.load("context/files", Context)
    resources = open_replay(store, setup.options).with_model(_ProfileOnly(setup.solver))
    shared = await _read_rankings(resources, issue)
    judged: tuple[JudgedAnswer, ...] = ()
    if context:
        searched, judged = await _read_search(resources, issue, context, solved.reference)
        shared += searched
    edits = await _read_candidates(store)
    found: list[Attempt] = []
    for sample in sorted({*range(setup.options.samples), *edits}):
        if attempt := await _read_sample(
            solved.id, sample, issue, context, resources, shared, edits.get(sample)
        ):
            found.append(replace(attempt, judged=judged))
    return found


async def _read_candidates(store: Store) -> dict[int, Candidate]:
    """By sample, the edits as the run chose among them: formatted, with one that mends another."""
    try:
        question, _ = await load_question(store)
    except NotInBundle:  # it ended before
        return {}
    return {one.sample: one for one in question.candidates}


async def _label_proposed(
    attempts: list[Attempt], documents: Mapping[str, bytes], outcomes: Mapping[str, Outcome]
) -> list[Attempt]:
    """`attempts` with the label of the edit that the run proposed; none where people took another
    of its edits."""
    store = BundleStore(documents)
    outcome = outcomes.get(_read_run_id(documents))
    ended = await load_end(store)
    history = await store.load("contents", _BranchHistory)
    swapped = history is not None and any(state.candidate != 1 for state in history.states)
    if outcome is None or not isinstance(ended, Selection) or swapped:
        return attempts
    diff = ended.candidate.patch.diff
    resolved = {"merged": True, "closed": False, "reverted": False}.get(outcome)
    return [
        replace(one, outcome=outcome, resolved=resolved) if one.diff == diff else one
        for one in attempts
    ]


def _read_run_id(documents: Mapping[str, bytes]) -> str:
    """The id of the run that the bundle's manifest names; empty without one."""
    try:
        return str(json.loads(documents[MANIFEST])["run"])
    except (KeyError, TypeError, ValueError):
        return ""


async def _read_rankings(resources: Resources, issue: Issue) -> tuple[ReplyRow, ...]:
    found: list[ReplyRow] = []
    for number in range(10):
        state = await resources.store.load(f"context/ranking-{number}", RankingState)
        if state:
            machine = RankingMachine(resources.model, issue, (), budget=0, cap=0, number=number)
            found += list_replies(machine, state, "files")
    return tuple(found)


async def _read_search(
    resources: Resources, issue: Issue, context: Context, reference: str
) -> tuple[tuple[ReplyRow, ...], tuple[JudgedAnswer, ...]]:
    """The replies of each conversation of a search that ended with an answer, and the answers."""
    found: list[ReplyRow] = []
    judged: list[JudgedAnswer] = []
    for number in range(find_beam(resources.options.samples).width):
        understood = await resources.store.load(f"understanding/{number}", ReadingState)
        if understood and understood.files:
            reader = UnderstandingMachine(resources, resources.model, issue, context, number)
            right = names_files((file.path for file in understood.files), reference)
            found += _mark(list_replies(reader, understood, "understanding"), right)
            judged.append(_judge("files", issue, Located(files=understood.files), right))
        located = await resources.store.load(f"localisation/{number}", ReadingState)
        if located and located.places:
            locator = LocalisationMachine(
                resources, resources.model, issue, context, number, files=()
            )
            right = names_places(located.places, reference)
            found += _mark(list_replies(locator, located, "localisation"), right)
            named = Located(files=(), places=located.places)
            judged.append(_judge("places", issue, named, right))
    return tuple(found), tuple(judged)


def _judge(level: AnswerLevel, issue: Issue, found: Located, right: bool) -> JudgedAnswer:
    system, question = render_judgement(issue, found)
    return JudgedAnswer(level=level, system=system, question=question, right=right)


def _mark(replies: Iterator[ReplyRow], right: bool) -> list[ReplyRow]:
    return [replace(reply, right=right) for reply in replies]


async def _read_sample(
    name: str,
    sample: int,
    issue: Issue,
    context: Context | None,
    resources: Resources,
    shared: tuple[ReplyRow, ...],
    judged: Candidate | None,
) -> Attempt | None:
    store = resources.store
    test = await store.load(f"testing/{sample}", TestingState)
    edit = await store.load(f"editing/{sample}", EditingState)
    seed = test.best() if test else None
    if test is None and judged is None:
        return None
    tester = TestingMachine(resources, issue, sample=sample)
    replies = [*shared, *(list_replies(tester, test, "reproduction") if test else ())]
    candidate = judged or (edit.candidate(sample) if edit else None)
    # The machine that edits may mend the script as well: what it ends with is judged.
    final = (seed[0].text, seed[1]) if seed else None
    if edit and candidate and candidate.test and candidate.test.text in edit.scripts:
        text = candidate.test.text
        final = text, edit.base[edit.scripts.index(text)]
    if edit and context:
        task = EditTask(issue, context, sample, seed)
        if edit.machine == "explore":
            explored = await store.load(f"editing/{sample}", ExploringState)
            explorer = ExploringMachine(resources, task)
            replies += list_replies(explorer, explored, "edit") if explored else []
        else:
            replies += list_replies(EditingMachine(resources, task), edit, "edit")
    return Attempt(
        issue=name,
        source=f"run {name}, sample {sample}",
        diff=candidate.patch.diff if candidate else "",
        summary=edit.summarise() if edit and resources.options.summaries else "",
        shown=tuple(file.path for file in context.files) if context else None,
        replies=tuple(replies),
        script=final[0] if final else "",
        red_before=final[1].exit_code == NOT_FIXED if final else None,
        broken=edit.broken[-1] if edit and edit.broken else None,
    )


def list_replies(machine: Machine[S], state: S, stage: Stage) -> Iterator[ReplyRow]:
    """The well-formed replies of a machine, each with the request that it answered.

    Of earlier replies, a request holds the answers alone (SWE-Reasoner, equations 1 and 2).
    """
    answers = [i for i, message in enumerate(state.messages) if message.role == "assistant"]
    for number, (at, kind) in enumerate(zip(answers, state.attempts, strict=False)):
        if kind is ReplyKind.MALFORMED:
            continue
        yield ReplyRow(
            stage=stage,
            system=machine.system,
            messages=tuple(machine.select_messages(state.messages[:at])),
            thinking=state.thinking[number] if number < len(state.thinking) else "",
            answer=state.messages[at].text,
        )


def _read_issue(documents: Mapping[str, bytes]) -> Issue | None:
    try:
        return Issue.model_validate_json(documents["issue.json"])
    except (KeyError, ValidationError):
        return None
