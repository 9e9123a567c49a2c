"""How probably an answer of the search is right."""

import math
import re
from collections.abc import Sequence
from typing import Literal, Protocol

from pipeline.concurrency import gather_bounded
from pipeline.data.code_places import Located
from pipeline.data.types import Issue
from pipeline.models.base import (
    Likelihood,
    Message,
    Model,
    ModelError,
    ModelRequest,
    ScoreUnavailable,
)
from pipeline.models.metering import Meter, ask_verdict
from pipeline.replies import Malformed, tags
from pipeline.store import Store, digest, load_or_run
from prompts.templates import render
from sandbox.frozen import Frozen, replace

Form = Literal["sign", "words"]
"""How the judge answers: `sign`, `+` or `-` as its first token; `words`, with a score from 0 to 100
for a service that gives no log-probabilities."""


def render_judgement(issue: Issue, found: Located, form: Form = "sign") -> tuple[str, str]:
    """The system text and the question about one answer of the search.

    With `places`, those are judged, and else the files (SWE-Reasoner, section 2.2.2). Scores, once
    given, are not shown.
    """
    system = render("search/judge_system", form=form)
    return system, render("search/judge", issue=issue, found=found, form=form)


_CALL = "prm/verdict"
_CONCURRENCY = 4
_LEFT_OUT = "The process reward model was left out, so the search was not guided"
NOT_SCORED = f"{_LEFT_OUT}: the budget was spent."


class StepScore(Frozen):
    """A score in the form in which it is saved."""

    probability: float
    in_words: bool = False
    """Whether the model wrote it, without log-probabilities."""


class ProcessReward(Protocol):
    async def score(self, issue: Issue, found: Located) -> StepScore:
        """How probably the places of `found` are right, or its files before there are places.

        Raises:
            ModelError: there is no score.
            BudgetSpent: the ceiling is reached; nothing was sent.
        """
        ...


class VerdictProcessReward:
    """The probability of `+` against `-` as the first token of a model's verdict."""

    def __init__(self, model: Likelihood, meter: Meter) -> None:
        self._model = model
        self._meter = meter

    async def score(self, issue: Issue, found: Located) -> StepScore:
        system, question = render_judgement(issue, found)
        odds = await ask_verdict(self._model, self._meter, system, question, call=_CALL)
        return StepScore(probability=1 / (1 + math.exp(-odds)))


class JudgeInWords:
    """The score from 0 to 100 that a model writes after its reasons."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def score(self, issue: Issue, found: Located) -> StepScore:
        system, question = render_judgement(issue, found, "words")
        asked = (Message(role="user", text=question),)
        most = min(4_000, self._model.profile.max_output)
        reply = await self._model.complete(
            ModelRequest(system, asked, "prm/judge", max_tokens=most, temperature=0)
        )
        match tags(reply.text, "score"):
            case Malformed(hint):
                raise ScoreUnavailable(f"The process reward model wrote no score: {hint}")
            case found_tags:
                number = re.fullmatch(r"(\d{1,3})(?: ?%| ?/ ?100)?", found_tags["score"].strip())
        if number is None or int(number[1]) > 100:
            raise ScoreUnavailable("The process reward model's score is not from 0 to 100.")
        return StepScore(probability=int(number[1]) / 100, in_words=True)


class VerdictOrWords:
    """The verdict's probability; where the service gives none, the score in words."""

    def __init__(self, verdict: ProcessReward, words: ProcessReward) -> None:
        self._verdict = verdict
        self._words = words

    async def score(self, issue: Issue, found: Located) -> StepScore:
        try:
            return await self._verdict.score(issue, found)
        except ScoreUnavailable:
            return await self._words.score(issue, found)


class UnusableProcessReward:
    """A process reward model that cannot be used."""

    def __init__(self, why: ModelError) -> None:
        self._why = why

    async def score(self, issue: Issue, found: Located) -> StepScore:  # noqa: ARG002 - as every reward
        raise self._why


async def score_answers(
    reward: ProcessReward, issue: Issue, answers: Sequence[Located], store: Store
) -> tuple[list[Located], str]:
    """`answers` with scores, best first; unscored, in their order, with a sentence on failure.

    Each score is saved under `search/score/<digest>`. The sentence also says where scores are
    words; it is empty in the normal course.

    Raises:
        BudgetSpent: the ceiling is reached; the scores until then are saved.
    """

    async def one(found: Located) -> StepScore:
        _, question = render_judgement(issue, found)
        key = f"search/score/{digest(question)}"
        return await load_or_run(store, key, StepScore, lambda: reward.score(issue, found))

    try:
        scores = await gather_bounded(_CONCURRENCY, (one(found) for found in answers))
    except ModelError as error:
        return list(answers), f"{_LEFT_OUT}: {error}"
    field = "places_score" if answers and answers[0].places else "files_score"
    scored = [
        replace(found, **{field: score.probability})
        for found, score in zip(answers, scores, strict=True)
    ]
    scored.sort(key=lambda found: -(getattr(found, field) or 0.0))  # stable: earlier ones first
    if any(score.in_words for score in scores):
        return scored, (
            "The process reward model gave no log-probabilities, so its written scores were used."
        )
    return scored, ""
