"""A reward model's scores, which break ties left by the executions (SWE-Reasoner's ORM)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pipeline.concurrency import gather_bounded
from pipeline.errors import BudgetSpent
from pipeline.models.base import ModelError
from pipeline.models.likelihood import Likelihood, Reward, ScoreUnavailable
from pipeline.models.verdict import ask_verdict
from pipeline.models.wrappers.metered import Meter, run_metered
from pipeline.store import Store
from pipeline.types import Frozen, Issue, VoteTable
from prompts.templates import render

T = TypeVar("T")

ORM_STAGE = "orm"
"""The stage of its calls in the accounts."""
BETA = 0.5
"""The sharpness of the implicit reward (SWE-Reasoner, section 2.2.2)."""
_CONCURRENCY = 4


class VerdictReward:
    """The log-odds of `+` against `-` as the first token of a model's verdict."""

    def __init__(self, model: Likelihood, meter: Meter) -> None:
        self._model = model
        self._meter = meter

    async def score(self, issue: Issue, diff: str) -> float:
        """Score an edit (see `Reward.score`)."""
        system, question = render("orm/system"), render("orm/verdict", issue=issue, diff=diff)
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

    async def score(self, issue: Issue, diff: str) -> float:
        """Score an edit (see `Reward.score`)."""
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
            raise ScoreUnavailable("The reward model's score is no number.")
        return score


class UnusableReward:
    """A reward model that cannot be used."""

    def __init__(self, why: ModelError) -> None:
        self._why = why

    async def score(self, issue: Issue, diff: str) -> float:  # noqa: ARG002 - as every reward
        """Raise the error that makes it unusable."""
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
        diff = table.candidates[candidate].patch.diff
        key = f"orm/{hashlib.sha256(diff.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
        saved = await store.load(key, SavedScore)
        if saved is None:
            saved = SavedScore(score=await reward.score(issue, diff))
            await store.save(key, saved)
        return saved.score

    try:
        scores = await gather_bounded(_CONCURRENCY, (one(candidate) for candidate in candidates))
    except BudgetSpent:
        return {}, "The reward model was not asked: the budget was spent."
    except ModelError as error:
        return {}, f"The reward model was left out: {error}"
    return dict(zip(candidates, scores, strict=True)), ""
