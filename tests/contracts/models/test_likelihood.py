"""Reward models over real sockets: the OpenAI SDK against the recorded service, as vLLM speaks."""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bot.runner.models import ModelContext, ModelFactory
from bot.settings import Settings
from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.options import Options
from pipeline.data.types import Candidate, Issue, Patch, VoteTable
from pipeline.models.base import (
    ModelError,
    ModelMisconfigured,
    ModelUnavailable,
    Reward,
    ScoreUnavailable,
)
from pipeline.models.metering import Meter
from pipeline.selection.ties import BETA, score_candidates
from pipeline.store import DirStore
from tests.contracts.models.clients import KEY, recording

ISSUE = Issue(repository="acme/shop", title="total() subtracts", body="It gives -1.")
VERDICTS: tuple[dict[str, Any], ...] = (
    {"when": "good", "reply": "+", "logprobs": {"+": -0.1, " +": -4.0, "-": -2.5}},
    {"when": "bad", "reply": "-", "logprobs": {"-": -0.2, "+": -1.8}},
)


@asynccontextmanager
async def server(*answers: dict[str, Any]) -> AsyncGenerator[tuple[RecordedServer, str]]:
    made = RecordedServer(recording(*answers), key=KEY)
    async with made.serve() as url:
        yield made, f"openai:orm@{url}/v1"


@asynccontextmanager
async def reward_of(
    folder: Path, orm: str, reference: str = "", ceiling: float = 10
) -> AsyncGenerator[tuple[Reward, Meter]]:
    """The reward model as a worker makes it of its settings."""
    solver = "openai:m@http://127.0.0.1:9/v1"
    both = ",".join(filter(None, (orm, reference)))
    settings = Settings.model_validate(
        {"solver_model": solver, "orm_model": both, "model_api_key": KEY}
    )
    store = DirStore(folder / "meter")
    meter = await Meter.open(store, ceiling)
    purpose = ModelContext(meter, Options())
    async with ModelFactory(settings).open(purpose) as models:
        assert models.orm is not None
        yield models.orm, meter


async def test_a_verdict_is_scored_by_its_first_token(tmp_path: Path) -> None:
    async with server(*VERDICTS) as (asked, spec), reward_of(tmp_path, spec) as (reward, meter):
        good = await reward.score(ISSUE, "good")
        bad = await reward.score(ISSUE, "bad")
    assert good == pytest.approx(math.log(math.exp(-0.1) + math.exp(-4)) + 2.5)
    assert bad == pytest.approx(-1.6)
    assert [(q.max_tokens, q.thinks) for q in asked.requests] == [(1, False)] * 2
    assert {a.stage: a.calls for a in meter.accounts()} == {"orm": 2}


async def test_a_service_that_knows_no_templates_is_asked_without_their_switch(
    tmp_path: Path,
) -> None:
    refuses = {**VERDICTS[0], "status": 400, "times": 1}
    async with server(refuses) as (asked, spec), reward_of(tmp_path, spec) as (reward, _):
        assert await reward.score(ISSUE, "good") == await reward.score(ISSUE, "good")
    assert [q.thinks for q in asked.requests][-2:] == [True, True]


async def test_a_verdict_reads_what_the_sample_left_and_the_implicit_reward_does_not(
    tmp_path: Path,
) -> None:
    async with server(*VERDICTS) as (asked, spec), reward_of(tmp_path, spec) as (reward, _):
        await reward.score(ISSUE, "good", "The sign. </summary>")
    assert "<summary>\nThe sign. <\\/summary>\n</summary>" in asked.requests[0].last_user_message
    sure = {"reply": "+", "prompt_logprob": -0.5}
    async with (
        server(sure) as (asked, orm),
        server(sure) as (_, base),
        reward_of(tmp_path, orm, base) as (reward, _),
    ):
        await reward.score(ISSUE, "x = 1", "The sign.")
    assert "The sign." not in asked.requests[0].last_user_message + asked.requests[0].prefill


async def test_the_implicit_reward_is_beta_times_the_log_ratio_over_the_edits_tokens(
    tmp_path: Path,
) -> None:
    edit = "x" * 390
    tokens = len(f"assistant\n{edit}") // 4
    policy = {"reply": "+", "prompt_logprob": -0.5}
    reference = {"reply": "+", "prompt_logprob": -2.0}
    async with (
        server(policy) as (asked, orm),
        server(reference) as (_, base),
        reward_of(tmp_path, orm, base) as (reward, _),
    ):
        score = await reward.score(ISSUE, edit)
    assert score == pytest.approx(BETA * 1.5 * tokens)
    assert [q.prefill for q in asked.requests] == ["", edit]


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "no log-probabilities": ({"reply": "+"}, "gave no log-probabilities"),
    "another word": ({"reply": "I", "logprobs": {"I": -0.1}}, "neither + nor -"),
    "a key that is refused": ({"status": 401, "reply": "+"}, "does not accept the key"),
    "overload": ({"status": 529, "reply": "+"}, "is overloaded"),
    "half an answer": ({"cut": "end", "reply": "+"}, "cannot be reached, or hung up"),
}


@pytest.mark.parametrize("name", UNFIT)
async def test_a_reward_model_that_talks_nonsense_is_one_sentence(
    name: str, tmp_path: Path
) -> None:
    answer, sentence = UNFIT[name]
    async with server(answer) as (_, spec), reward_of(tmp_path, spec) as (reward, _):
        with pytest.raises(ModelError, match=sentence.replace("+", r"\+")):
            await reward.score(ISSUE, "good")


async def test_a_reference_without_log_probabilities_of_the_prompt_is_reported(
    tmp_path: Path,
) -> None:
    async with (
        server({"reply": "+", "prompt_logprob": -1}) as (_, orm),
        server({"reply": "+"}) as (_, base),
        reward_of(tmp_path, orm, base) as (reward, _),
    ):
        with pytest.raises(ScoreUnavailable, match="log-probabilities"):
            await reward.score(ISSUE, "x = 1")


async def test_a_dead_reward_model_is_unavailable(tmp_path: Path) -> None:
    async with reward_of(tmp_path, "openai:orm@http://127.0.0.1:9/v1") as (reward, _):
        with pytest.raises(ModelUnavailable):
            await reward.score(ISSUE, "x = 1")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [("nonsense", "names no model"), ("anthropic:claude", "gives no log-probabilities")],
)
async def test_a_model_that_is_no_reward_model_is_reported_when_it_is_asked(
    spec: str, sentence: str, tmp_path: Path
) -> None:
    async with reward_of(tmp_path, spec) as (reward, _):
        with pytest.raises(ModelMisconfigured, match=sentence):
            await reward.score(ISSUE, "x = 1")


def table(*diffs: str) -> VoteTable:
    candidates = [Candidate(sample=n, patch=Patch(diff=d)) for n, d in enumerate(diffs)]
    return VoteTable(candidates=tuple(candidates), tests=(), base=(), runs=((),) * len(diffs))


async def test_scores_are_kept_and_a_spent_budget_is_reported(tmp_path: Path) -> None:
    store = DirStore(tmp_path / "store")
    edits = table("good", "bad")
    async with server(*VERDICTS) as (asked, spec):
        async with reward_of(tmp_path, spec) as (reward, _):
            first, _ = await score_candidates(reward, ISSUE, edits, (0, 1), store)
            assert first[0] > first[1]
            assert await score_candidates(reward, ISSUE, edits, (0, 1), store) == (first, "")
        assert len(asked.requests) == 2
        async with reward_of(tmp_path / "poor", spec, ceiling=1e-9) as (reward, meter):
            meter.budget.spent = 1.0
            none, why = await score_candidates(reward, ISSUE, table("good 2"), (0,), store)
        assert (none, "budget" in why) == ({}, True)
        assert len(asked.requests) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"top_logprobs": 5},
        {"prompt_logprobs": 0, "stream": True},
        {"continue_final_message": True},
        {"logprobs": True, "top_logprobs": 21},
    ],
)
async def test_the_recorded_service_refuses_what_vllm_refuses(body: dict[str, Any]) -> None:
    made = RecordedServer(Recording.model_validate(
        {"version": 1, "note": "n", "answers": [{"call": "*", "reply": "+"}]}
    ))  # fmt: skip
    said = {"model": "m", "messages": [{"role": "user", "content": "x"}], **body}
    async with made.serve() as url, httpx2.AsyncClient() as client:
        answer = await client.post(f"{url}/v1/chat/completions", json=said)
    assert answer.status_code == 400
