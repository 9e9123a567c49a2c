"""A reward model's scores, which part what the executions leave equal (SWE-Reasoner's ORM)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pipeline.concurrency import gather_bounded
from pipeline.errors import BudgetSpent
from pipeline.models.base import ModelError
from pipeline.models.likelihood import Likelihood, Reward, ScoreUnavailable
from pipeline.models.wrappers.metered import Meter, run_metered
from pipeline.store import Store
from pipeline.types import Frozen, Issue, VoteTable
from prompts import render

T = TypeVar("T")

BETA = 0.5
"""How sharp the implicit reward is (SWE-Reasoner, section 2.2.2)."""
GOOD, BAD = "+", "-"
"""The verdict's tokens (SWE-Reasoner, section 2.2.2)."""
_FLOOR = -20.0
"""The log-probability of a token that is not even among the likeliest ones."""
_CONCURRENCY = 4


class VerdictReward:
    """The log-odds of `+` against `-` as the first token of a model's verdict."""

    def __init__(self, model: Likelihood, meter: Meter) -> None:
        self._model = model
        self._meter = meter

    async def score(self, issue: Issue, diff: str) -> float:
        """See `Reward.score`."""
        system, question = render("orm/system"), render("orm/verdict", issue=issue, diff=diff)
        chances = await run_metered(
            self._meter,
            self._model.profile,
            self._model.first_token(system, question, call="orm/verdict"),
            stage="orm",
            texts=(system, question),
        )
        if GOOD not in chances and BAD not in chances:
            raise ScoreUnavailable(f"The reward model's verdict is neither {GOOD} nor {BAD}.")
        return chances.get(GOOD, _FLOOR) - chances.get(BAD, _FLOOR)


class ImplicitReward:
    """What DPO trains: beta times the log-ratio of an edit's probability by policy and reference.

    Rafailov et al. 2023, section 4; SWE-Reasoner, equation 4. The edit is the assistant's whole
    answer to the issue.
    """

    def __init__(self, policy: Likelihood, reference: Likelihood, meter: Meter) -> None:
        self._models = (policy, reference)
        self._meter = meter

    async def score(self, issue: Issue, diff: str) -> float:
        """See `Reward.score`."""
        question = render("orm/issue", issue=issue)
        found: list[float] = []
        for model in self._models:
            asked = model.answer(question, diff, call="orm/edit")
            found.append(
                await run_metered(
                    self._meter, model.profile, asked, stage="orm", texts=(question, diff)
                )
            )
        score = BETA * (found[0] - found[1])
        if not math.isfinite(score):
            raise ScoreUnavailable("The reward model's score is no number.")
        return score


class UnusableReward:
    """A reward model that cannot be asked at all."""

    def __init__(self, why: ModelError) -> None:
        self._why = why

    async def score(self, issue: Issue, diff: str) -> float:  # noqa: ARG002 - as every reward
        """Raises what is wrong with it."""
        raise self._why


class SavedScore(Frozen):
    """One score, as it is kept."""

    score: float


async def score_candidates(
    reward: Reward, issue: Issue, table: VoteTable, candidates: Sequence[int], store: Store
) -> tuple[Mapping[int, float], str]:
    """The scores of `candidates`, each saved under `orm/<digest>`; or none, and why, in a sentence.

    A reward model that does not answer costs a run nothing but the order of what is equal.
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
