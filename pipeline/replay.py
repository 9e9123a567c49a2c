"""Repeats a run's verdict from its bundle, without executing anything or asking a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel

from pipeline.codebase.commit import Codebase, File
from pipeline.data.options import Options, SelectionMethod
from pipeline.data.types import CommitSha, Issue, NoFix, Selection
from pipeline.models.base import ModelProfile, ModelRequest, Price, Reply
from pipeline.resources import Workspace
from pipeline.selection.judge import Judge
from pipeline.selection.verdict import Judgement, SelectionQuestion, Verdict
from pipeline.store import Store, decode_document
from pipeline.workflows.outcome import load_end
from pipeline.workflows.reproduce import reconsider
from sandbox.frozen import replace
from sandbox.program import CommandRun, Execution, Program

M = TypeVar("M", bound=BaseModel)


class NotInBundle(Exception):
    """The replay needs a result that the run did not keep; `str(error)` says which."""


class BundleStore:
    """A store over the documents of a bundle, in memory; saving overlays them.

    Documents are not checked on the way in: one that does not validate counts as absent.
    """

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self._documents = documents
        self._saved: dict[str, BaseModel] = {}

    async def load(self, key: str, kind: type[M]) -> M | None:
        saved = self._saved.get(key)
        if isinstance(saved, kind):
            return saved
        found = self._documents.get(f"{key}.json")
        return None if found is None else decode_document(kind, found, key)

    async def save(self, key: str, value: BaseModel) -> None:
        self._saved[key] = value


class UnavailableSandbox:
    """A sandbox that refuses to run anything."""

    async def run(self, program: Program) -> Execution:
        """Raises `NotInBundle`."""
        what = (
            "a run of the repository's own tests"
            if program.script is None
            else "an execution of a test"
        )
        raise NotInBundle(what)

    async def run_command(self, program: Program) -> CommandRun:
        """Raises `NotInBundle`."""
        raise NotInBundle(f"a command ({program.argv[0]})")


class _NoFiles(dict[str, File]):
    """The files of a bundle, which holds results alone."""

    def __missing__(self, path: str) -> File:
        raise NotInBundle(f"the file {path}")


def open_replay(store: BundleStore, options: Options) -> Workspace:
    """A workspace that has only the results that `store` holds."""
    codebase = Codebase(Path(), CommitSha(""), _NoFiles())
    return Workspace(UnavailableSandbox(), codebase, store, options)


class _UnavailableModel:
    """A model that refuses every request: the bundle must hold the conversation."""

    profile = ModelProfile(
        provider="openai", name="none", window=1, max_output=1, sampling=False, price=Price()
    )

    async def complete(self, request: ModelRequest) -> Reply:
        raise NotInBundle(f"a model's reply ({request.call.partition('/')[0]})")


class _UnavailableReward:
    """A reward model that refuses every request: the bundle must hold the score."""

    async def score(self, issue: Issue, diff: str, summary: str = "") -> float:  # noqa: ARG002 - as every reward
        raise NotInBundle(f"a reward model's score ({len(issue.title) + len(diff)} characters)")


@dataclass(frozen=True)
class Replay:
    """The repeated verdict beside the recorded one."""

    judged: Judgement
    question: SelectionQuestion
    recorded: Verdict | None
    """None: the run did not use this method."""
    end: Selection | NoFix | None = None
    """How the run itself ended; None where the bundle does not say."""

    @property
    def equal(self) -> bool | None:
        """Whether both are the same; None without a recorded one."""
        if self.recorded is None:
            return None
        return _comparable(self.judged.verdict) == _comparable(self.recorded)


async def replay(documents: Mapping[str, bytes], method: SelectionMethod | None) -> Replay:
    """The verdict by `method`, or by the method that the run used; see `Judge`.

    With another method than the run's, executions decide, and no model.

    Raises:
        NotInBundle: the run ended too early, or the method needs a result that it does not have.
    """
    store = BundleStore(documents)
    question, way = await load_question(store)
    chosen_way = method or way
    recorded = await store.load(f"verdict/{chosen_way}", Verdict)
    options = replace(question.options, selection=chosen_way)
    same = recorded is not None
    judge = Judge(
        open_replay(store, options),
        model=_UnavailableModel() if question.model and same else None,
        reward=_UnavailableReward() if question.reward and same else None,
        unseen=question.unseen,
    )
    judged = await judge.judge(
        question.issue,
        question.candidates,
        tests=question.tests,
        reproduced=question.reproduced,
        checklist=question.checklist,
    )
    judged = await reconsider(judge, judged, store)
    return Replay(judged, question, recorded, await load_end(store))


async def load_question(store: Store) -> tuple[SelectionQuestion, SelectionMethod]:
    """What a run judged, and its method. Raises NotInBundle: it ended before."""
    for method in get_args(SelectionMethod):
        if found := await store.load(f"question/{method}", SelectionQuestion):
            return found, method
    raise NotInBundle("what was to be judged")


def _comparable(verdict: Verdict) -> tuple[object, ...]:
    """The parts of a verdict that must be equal; another version may word its sentences anew."""
    return (
        verdict.chosen,
        verdict.order,
        verdict.reason,
        verdict.decided_by,
        round(verdict.confidence, 6) if verdict.chosen is not None else None,
    )
