"""Each way in which a model call ends, and what comes of the sample and of the run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.options import Options
from pipeline.data.types import NoFix, Selection
from pipeline.generation.editing import EditingState
from pipeline.models.base import Model, ModelMisconfigured, ModelUnavailable
from pipeline.models.providers.provider_http import Endpoint
from pipeline.models.spec import ModelSpec, look_up
from pipeline.models.wrappers import ConcurrencyWindow, ThrottledModel
from pipeline.reproduction.writer import ReproductionState
from pipeline.solve import Solver
from pipeline.state import Phase, ReplyKind, State
from pipeline.store import DirStore
from pipeline.workflows.outcome import Models
from tests.support.data.solver_shop import (
    APPROVE,
    GOOD_EDIT,
    GOOD_SCRIPT,
    ISSUE,
    RANKING,
    TEST_FILE,
    Shop,
)

USUAL: list[dict[str, object]] = [
    {"call": "ranking", "reply": RANKING},
    {"call": "approaches", "reply": "None."},
    {"call": "testing", "turn": 0, "reply": GOOD_SCRIPT},
    {"call": "editing", "turn": 0, "reply": GOOD_EDIT, "thinking": "I add them up."},
    {"call": "editing", "reply": f"<think>Is it right?</think>{APPROVE}"},
    {"call": "testing", "reply": APPROVE},
    {"call": "reproduction", "reply": TEST_FILE},
]


@asynccontextmanager
async def service(*first: dict[str, object]) -> AsyncGenerator[tuple[Model, RecordedServer]]:
    """A chat model over a real socket whose answers begin with `first`."""
    from pipeline.models.providers.openai_chat import OpenAIChatModel  # not while collecting

    written = {"version": 1, "note": "Made up.", "answers": [*first, *USUAL]}
    server = RecordedServer(Recording.model_validate(written))
    async with server.serve() as url:
        spec = ModelSpec(provider="openai", name="claude-haiku-4-5", base_url=f"{url}/v1")
        client = OpenAIChatModel(look_up(spec).profile, Endpoint(f"{url}/v1", sdk_retries=0))
        try:
            yield ThrottledModel(client, ConcurrencyWindow(8), waits=(0.0,)), server
        finally:
            await client.aclose()


async def solved(shop: Shop, model: Model, samples: int = 2) -> Selection | NoFix:
    solver = Solver(
        Models(solver=model, scout=None),
        shop.workspace(Options(samples=samples, rankings=1, attempts=3)),
    )
    return await solver.solve(ISSUE)


async def phase_of(shop: Shop, number: int) -> EditingState:
    state = await DirStore(shop.folder / "store").load(f"editing/{number}", EditingState)
    assert state is not None
    return state


ALONE: dict[str, tuple[dict[str, object], Phase]] = {
    "a refusal": ({"stop": "refusal", "reply": "No."}, Phase.REFUSED),
    "a context that is too long": (
        {"status": 400, "error": "maximum context length is 8192 tokens"},
        Phase.OUT_OF_CONTEXT,
    ),
    "replies that are cut off for their length": (
        {"stop": "length", "reply": "<edit>\nshop/till.py\n<<<<<<< SEARCH\n"},
        Phase.OUT_OF_ATTEMPTS,
    ),
}


@pytest.mark.parametrize("case", ALONE)
async def test_one_sample_ends_alone_by(case: str, shop: Shop) -> None:
    answer, phase = ALONE[case]
    async with service({"call": "editing/1", **answer}) as (model, _):
        result = await solved(shop, model)
    assert isinstance(result, Selection)
    assert result.candidate.sample == 0
    assert (await phase_of(shop, 1)).phase is phase


@pytest.mark.parametrize("case", ALONE)
async def test_a_description_that_no_model_wrote_says_what_ended_it(case: str, shop: Shop) -> None:
    answer, phase = ALONE[case]
    async with service({"call": "reproduction", **answer}) as (model, _):
        result = await solved(shop, model)
    assert isinstance(result, Selection)
    ended = ReproductionState(pending="", phase=phase, attempts=[ReplyKind.MALFORMED] * 3)
    wanted = f"Not described: {ended.describe_end()}."
    assert (result.evidence.cause, result.evidence.change.startswith(wanted)) == (wanted, True)


def test_each_way_of_ending_has_its_own_words() -> None:
    ways = [phase for phase in Phase if phase.final and phase is not Phase.APPROVED]
    ends = {
        State(pending="", phase=phase, ceiling="Today's limit was reached.").describe_end()
        for phase in ways
    }
    assert len(ends - {""}) == len(ways)


async def test_when_every_sample_is_refused_the_run_is_an_honest_no(shop: Shop) -> None:
    async with service({"call": "editing", "stop": "refusal", "reply": "No."}) as (model, _):
        result = await solved(shop, model)
    assert isinstance(result, NoFix)
    assert result.reason == "no edit"
    assert "declined to answer" in result.details[0]


PASSING: dict[str, dict[str, object]] = {
    "overload": {"status": 529},
    "a rate limit": {"status": 429},
    "a stream that ends early": {"cut": "end"},
    "a connection that breaks": {"cut": "drop"},
    "an error inside the stream": {"status": 500, "late": True},
}


@pytest.mark.parametrize("case", PASSING)
async def test_what_passes_is_waited_out_and_the_same_question_asked_again(
    case: str, shop: Shop
) -> None:
    answer = {"call": "editing/1", "turn": 0, "reply": GOOD_EDIT, "times": 1, **PASSING[case]}
    async with service(answer) as (model, server):
        result = await solved(shop, model)
    assert isinstance(result, Selection)
    asked = [r.messages for r in server.requests if r.call == "editing/1" and r.turn == 0]
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert (await phase_of(shop, 1)).phase is Phase.APPROVED


@pytest.mark.parametrize("case", PASSING)
async def test_what_does_not_pass_is_the_callers_and_nothing_saved_is_lost(
    case: str, shop: Shop
) -> None:
    async with service({"call": "editing/1", "reply": GOOD_EDIT, **PASSING[case]}) as (model, _):
        with pytest.raises(ModelUnavailable):
            await solved(shop, model)
    async with service() as (model, server):
        assert isinstance(await solved(shop, model), Selection)
    # The other sample's call may have been in flight: it alone may be asked again.
    assert "testing/1" not in {asked.call for asked in server.requests}


async def test_a_model_that_was_retired_is_the_operators(shop: Shop) -> None:
    async with service({"call": "editing", "status": 404}) as (model, _):
        with pytest.raises(ModelMisconfigured):
            await solved(shop, model)


async def test_thinking_is_kept_in_the_state_and_never_sent_back(shop: Shop) -> None:
    async with service() as (model, server):
        assert isinstance(await solved(shop, model, samples=1), Selection)
    state = await phase_of(shop, 0)
    assert state.thinking == ["I add them up.", "Is it right?"]
    sent = " ".join(m.text for asked in server.requests for m in asked.messages)
    assert "I add them up." not in sent
    assert "think>" not in " ".join(m.text for m in state.messages)
