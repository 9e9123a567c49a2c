"""The strategy `search`, with every model over a real socket, as the settings build them."""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from bot.runner.models import ModelContext, ModelFactory
from bot.settings import Settings
from capuchin_demo.recorded.recording import ReceivedRequest
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.code_places import SearchRecord
from pipeline.data.options import Options
from pipeline.data.presets import apply_preset
from pipeline.data.types import Selection
from pipeline.localisation.tree_search import NOTHING_FOUND, find_beam
from pipeline.models.metering import Meter
from pipeline.solve import Solver
from pipeline.store import DirStore, Store
from tests.contracts.models.clients import KEY, recording
from tests.support.data.solver_shop import GOOD_EDIT, GOOD_SCRIPT, ISSUE, RANKING, TEST_FILE, Shop

M = TypeVar("M", bound=BaseModel)

LOOK = "<think>I wonder aloud.</think>\n<bash>\ngrep -n result shop/till.py; rm -r shop\n</bash>"
TILL = "It adds there.\n\n<files>\n- shop/till.py: the sign is wrong\n</files>"
NAMES = "<files>\nshop/names.py\n</files>"
LOOP = "<places>\nshop/till.py:3-4: the loop subtracts\n</places>"
COUNT = "<places>\nshop/till.py:8-9: it counts\n</places>"
SURE: dict[str, float] = {"+": -0.1, "-": -2.4}
UNSURE: dict[str, float] = {"+": -2.4, "-": -0.1}
ANSWERS: tuple[dict[str, Any], ...] = (
    {"call": "understanding/0", "turn": 0, "reply": NAMES},
    {"call": "understanding/1", "turn": 0, "reply": LOOK},
    {"call": "understanding/1", "turn": 1, "reply": "<files>\nshop/nowhere.py\n</files>"},
    {"call": "understanding/1", "reply": TILL},
    {"call": "localisation/0", "reply": COUNT},
    {"call": "localisation/1", "turn": 0, "reply": "<places>\nshop/till.py:3-99\n</places>"},
    {"call": "localisation/1", "reply": LOOP},
    {"call": "relevance", "reply": '{"thoughts": "x", "relevant": true, "summary": "Adds up."}'},
    {"call": "ranking", "reply": RANKING},
    {"call": "testing", "turn": 0, "reply": GOOD_SCRIPT},
    {"call": "editing", "turn": 0, "reply": GOOD_EDIT},
    {"call": "testing", "reply": "<approve/>"},
    {"call": "editing", "reply": "<approve/>"},
    {"call": "reproduction", "reply": TEST_FILE},
)
VERDICTS: tuple[dict[str, Any], ...] = (
    {"call": "prm/verdict", "when": "result -= price", "reply": "+", "logprobs": SURE},
    {"call": "prm/verdict", "when": "the sign is wrong", "reply": "+", "logprobs": SURE},
    {"call": "prm/verdict", "reply": "-", "logprobs": UNSURE},
)
IN_WORDS: tuple[dict[str, Any], ...] = (
    {"call": "prm/verdict", "reply": "+"},
    {"call": "prm/judge", "when": "result -= price", "reply": "Yes.\n\n<score>\n90\n</score>"},
    {"call": "prm/judge", "when": "the sign is wrong", "reply": "<score>80 %</score>"},
    {"call": "prm/judge", "reply": "<score>\n5\n</score>"},
)


@dataclass
class Searched:
    result: Selection
    record: SearchRecord
    asked: Sequence[ReceivedRequest]
    judged: Sequence[ReceivedRequest]
    spent: set[str]

    def told(self, call: str) -> str:
        """All messages of the last request of a conversation."""
        request = [request for request in self.asked if request.call == call][-1]
        return "\n".join(message.text for message in request.messages)


@asynccontextmanager
async def served(*answers: dict[str, Any]) -> AsyncGenerator[tuple[RecordedServer, str]]:
    server = RecordedServer(recording(*answers), key=KEY)
    async with server.serve() as url:
        yield server, f"{url}/v1"


async def search(
    shop: Shop,
    verdicts: Sequence[dict[str, Any]],
    *more: dict[str, Any],
    prm: str = "openai:prm@{url}",
    store: Store | None = None,
    **options: object,
) -> Searched:
    """Solve the shop's issue; `more` come before the usual answers, and so instead."""
    set_ = {"samples": 2, "informed": 0, "strategy": "search", **options}
    chosen = Options.model_validate(set_)
    store = store or DirStore(shop.folder / "store")
    idle = {"call": "nothing", "reply": "x"}
    async with served(*more, *ANSWERS) as (solver, url), served(*verdicts, idle) as (judge, at):
        settings = Settings.model_validate(
            {
                "solver_model": f"openai:solver@{url}",
                "scout_model": f"openai:scout@{url}",
                "prm_model": prm.format(url=at),
                "model_api_key": KEY,
            }
        )
        meter = await Meter.open(store, 10)
        context = ModelContext(meter, chosen)
        async with ModelFactory(settings, waits=()).open(context) as models:
            work = Solver(models, shop.workspace(chosen, store))
            result = await work.solve(ISSUE)
    assert isinstance(result, Selection), result
    record = result.evidence.context.search
    assert record is not None
    spent = {account.stage for account in meter.accounts()}
    return Searched(result, record, solver.requests, judge.requests, spent)


async def test_the_best_answer_of_each_stage_goes_on_and_the_edits_start_from_it(
    shop: Shop,
) -> None:
    found = await search(shop, VERDICTS)
    (located,) = found.record.located
    assert [file.path for file in located.files] == ["shop/till.py"]
    (place,) = located.places
    assert (place.path, place.first, place.last) == ("shop/till.py", 3, 4)
    assert place.scope == "def total(prices):"
    assert "result -= price" in place.code
    assert located.places_score == pytest.approx(0.9089, abs=1e-3)
    assert found.record.notes == ()
    assert [request.max_tokens for request in found.judged] == [1, 1, 1, 1]
    for call in ("editing/0", "editing/1"):
        assert "shop/till.py:3-4: the loop subtracts" in found.told(call)
    assert not any(request.call == "approaches" for request in found.asked)
    assert {"understanding", "localisation", "prm"} <= found.spent
    assert len(found.result.evidence.votes.candidates) == 2


async def test_commands_are_run_mistakes_explained_and_thoughts_sent_to_nobody(shop: Shop) -> None:
    found = await search(shop, VERDICTS)
    reading = found.told("understanding/1")
    assert "4:        result -= price" in reading
    assert "'shop/nowhere.py'" in reading
    locating = found.told("localisation/1")
    assert ("1 to 9" in locating, "3 to 99" in locating) == (True, True)
    assert "shop/till.py: the sign is wrong" in locating
    assert "It adds there." not in locating  # of the stage before, only its answer goes on
    everything = [m.text for asked in (*found.asked, *found.judged) for m in asked.messages]
    assert not any("I wonder aloud" in text for text in everything)


async def test_swe_reasoner_thinks_and_searches_before_anything_is_ranked(shop: Shop) -> None:
    chosen = {"strategy": "swe_reasoner", "samples": 2}
    options = apply_preset(Options.model_validate(chosen), chosen).model_dump()
    found = await search(shop, VERDICTS, **options)
    stages = [request.call.partition("/")[0] for request in found.asked]
    assert not {"relevance", "ranking", "approaches"} & set(stages)
    first = {stage: stages.index(stage) for stage in ("understanding", "localisation", "editing")}
    assert sorted(first, key=first.__getitem__) == list(first)
    calls = {request.call for request in found.asked}
    assert {f"{stage}/{number}" for stage in first for number in range(2)} <= calls
    assert all(request.thinking_tokens for request in found.asked)
    assert len(found.judged) == 4, "two answers of each stage"
    opening = found.told("understanding/0")
    assert "shop/names.py" in opening
    assert "def polite" not in opening
    editing = found.told("editing/0")
    assert "shop/till.py:3-4: the loop subtracts" in editing
    assert "def count(prices)" in editing
    assert "def polite" not in editing
    assert all("me too" not in message.text for one in found.asked for message in one.messages)
    assert [file.path for file in found.result.evidence.context.files] == ["shop/till.py"]


async def test_a_search_that_names_nothing_is_followed_by_a_ranking(shop: Shop) -> None:
    nothing = {"call": "understanding", "reply": "I do not know."}
    found = await search(shop, (), nothing, without=["ranking"], approaches=False)
    assert found.record.notes == (NOTHING_FOUND,)
    stages = [request.call.partition("/")[0] for request in found.asked]
    assert stages.index("understanding") < stages.index("ranking") < stages.index("editing")


async def test_a_finished_search_is_neither_asked_nor_judged_again(shop: Shop) -> None:
    first = await search(shop, VERDICTS)
    for kept in ("outcome", "search/result", "search/understood"):
        (shop.folder / "store" / f"{kept}.json").unlink()
    again = await search(shop, ())
    assert again.record == first.record
    assert again.judged == []
    assert not [a for a in again.asked if a.call.startswith(("understanding", "localisation"))]


class Watching:
    """A store in memory that remembers what it held before each save of the search."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self.documents = dict(documents)
        self.moments: list[dict[str, str]] = []

    async def load(self, key: str, kind: type[M]) -> M | None:
        text = self.documents.get(key)
        return None if text is None else kind.model_validate_json(text)

    async def save(self, key: str, value: BaseModel) -> None:
        if is_of_search(key):
            kept = {k: text for k, text in self.documents.items() if is_of_search(k)}
            self.moments.append(kept)
        self.documents[key] = value.model_dump_json()


def is_of_search(key: str) -> bool:
    return key.startswith(("search", "understanding", "localisation"))


async def test_a_search_that_is_killed_before_any_save_goes_on_there(shop: Shop) -> None:
    store = Watching({})
    calm = await search(shop, VERDICTS, store=store)
    once = Counter(asked_by_search(calm))
    assert len(store.moments) > 10
    rest = {k: v for k, v in store.documents.items() if not is_of_search(k) and k != "outcome"}
    left: list[int] = []
    for moment in store.moments:
        again = await search(shop, VERDICTS, store=Watching({**rest, **moment}))
        assert again.record == calm.record
        assert again.result == calm.result
        repeated = Counter(asked_by_search(again))
        assert repeated <= once
        left.append(repeated.total())
    assert left == sorted(left, reverse=True), "what was saved is not asked again"
    assert left[-1] == 0


def asked_by_search(found: Searched) -> list[tuple[str, str]]:
    """The requests of the search and of its reward model, each by its last message."""
    asked = [a for a in found.asked if is_of_search(a.call)]
    return [(a.call, a.messages[-1].text) for a in (*asked, *found.judged)]


async def test_a_service_without_log_probabilities_is_asked_to_write_its_score(shop: Shop) -> None:
    found = await search(shop, IN_WORDS)
    (located,) = found.record.located
    assert (located.files_score, located.places_score) == (0.8, 0.9)
    (note,) = found.record.notes
    assert "log-probabilities" in note


@pytest.mark.parametrize(
    ("prm", "why"),
    [
        ("openai:prm@http://127.0.0.1:9/v1", "openai:prm at 127.0.0.1 cannot be reached"),
        ("nonsense", "'nonsense' names no model"),
        ("openai:prm@{url}", "wrote no score"),
    ],
)
async def test_a_reward_model_that_fails_is_left_out_in_one_sentence_and_all_answers_go_on(
    shop: Shop, prm: str, why: str
) -> None:
    words = ({"call": "prm", "reply": "I cannot say."},)
    found = await search(shop, words, prm=prm)
    assert [located.places_score for located in found.record.located] == [None, None]
    (note,) = found.record.notes
    assert "process reward model" in note
    assert why in note
    assert "shop/till.py:8-9" in found.told("editing/0")
    assert "shop/till.py:3-4" in found.told("editing/1")


async def test_a_search_that_names_nothing_leaves_the_ranked_files(shop: Shop) -> None:
    blind = {"call": "understanding", "reply": "I do not know."}
    drawn = {"call": "approaches", "reply": "None."}
    found = await search(shop, VERDICTS, blind, drawn)
    assert found.record.located == ()
    assert found.record.notes == (NOTHING_FOUND,)
    assert "A colleague has searched" not in found.told("editing/0")


@pytest.mark.parametrize(
    ("edits", "width", "keep"), [(1, 1, 1), (2, 2, 1), (4, 2, 1), (7, 2, 1), (8, 4, 2), (100, 4, 2)]
)
def test_the_widths_are_the_papers(edits: int, width: int, keep: int) -> None:
    beam = find_beam(edits)
    assert (beam.width, beam.keep) == (width, keep)
