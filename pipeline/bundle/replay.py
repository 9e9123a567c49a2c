"""A verdict made again from what a run kept: nothing is executed, and no model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError

from pipeline.codebase.commit import Codebase
from pipeline.models.base import ModelProfile, ModelRequest, Price, Reply
from pipeline.options import SelectionMethod
from pipeline.selection.judge import Judge
from pipeline.selection.verdict import Judgement, SelectionQuestion, Verdict
from pipeline.types import Issue, replace
from sandbox.base import Execution
from sandbox.program import Program

M = TypeVar("M", bound=BaseModel)


class NotInBundle(Exception):
    """A result that the run did not keep would be needed; `str(error)` says which."""


class BundleStore:
    """A store over documents in memory, by their names in a bundle; what is saved lies over them.

    The documents are as they came: one that does not validate is as good as absent.
    """

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self._documents = documents
        self._saved: dict[str, BaseModel] = {}

    async def load(self, key: str, kind: type[M]) -> M | None:
        """See `pipeline.store.Store`."""
        saved = self._saved.get(key)
        if isinstance(saved, kind):
            return saved
        try:
            return kind.model_validate_json(self._documents[f"{key}.json"])
        except (KeyError, ValidationError):
            return None

    async def save(self, key: str, value: BaseModel) -> None:
        """See `pipeline.store.Store`."""
        self._saved[key] = value


class UnavailableSandbox:
    """A sandbox in which nothing is run."""

    async def run(self, program: Program) -> Execution:
        """Raises `NotInBundle`."""
        what = (
            "a run of the repository's own tests"
            if program.script is None
            else "an execution of a test"
        )
        raise NotInBundle(what)


class _UnavailableModel:
    """A model whose conversations must be there already."""

    profile = ModelProfile(
        provider="openai", name="none", window=1, max_output=1, sampling=False, price=Price()
    )

    async def complete(self, request: ModelRequest) -> Reply:
        raise NotInBundle(f"a model's reply ({request.call.partition('/')[0]})")


class _UnavailableReward:
    """A reward model whose scores must be there already."""

    async def score(self, issue: Issue, diff: str) -> float:
        raise NotInBundle(f"a reward model's score ({len(issue.title) + len(diff)} characters)")


@dataclass(frozen=True)
class Replay:
    """The verdict made again, beside the one that was kept."""

    judged: Judgement
    question: SelectionQuestion
    recorded: Verdict | None
    """None: this way of choosing was not the run's."""

    @property
    def equal(self) -> bool | None:
        """Whether it is the recorded verdict; None where there is none to compare."""
        if self.recorded is None:
            return None
        return _comparable(self.judged.verdict) == _comparable(self.recorded)


async def replay(documents: Mapping[str, bytes], method: SelectionMethod | None) -> Replay:
    """The verdict by `method`, or by the method that the run used; see `Judge`.

    By another way than the run's, the last word is the executions' and no model's.

    Raises:
        NotInBundle: the run did not get so far, or another way needs what it did not do.
    """
    store = BundleStore(documents)
    question, way = await _load_question(store)
    chosen_way = method or way
    recorded = await store.load(f"verdict/{chosen_way}", Verdict)
    options = replace(question.options, selection=chosen_way)
    same = recorded is not None
    judge = Judge(
        _UnavailableModel() if question.model and same else None,
        UnavailableSandbox(),
        Codebase(Path(), "", {}),
        store,
        options,
        reward=_UnavailableReward() if question.reward and same else None,
    )
    judged = await judge.judge(
        question.issue,
        question.candidates,
        tests=question.tests,
        reproduced=question.reproduced,
    )
    return Replay(judged, question, recorded)


async def _load_question(store: BundleStore) -> tuple[SelectionQuestion, SelectionMethod]:
    for method in get_args(SelectionMethod):
        if found := await store.load(f"question/{method}", SelectionQuestion):
            return found, method
    raise NotInBundle("what was to be judged")


def _comparable(verdict: Verdict) -> tuple[object, ...]:
    """What a verdict says. Sentences may be worded otherwise by another version."""
    return (
        verdict.chosen,
        verdict.order,
        verdict.reason,
        verdict.decided_by,
        round(verdict.confidence, 6),
    )
