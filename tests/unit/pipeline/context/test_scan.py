"""The scan over the wire: what is asked, in what form, and what survives a bad scout."""

from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from pipeline.context.scout import SCHEMA, RelevanceReader
from pipeline.context.tokens import ESTIMATOR, estimate_tokens, open_counter
from pipeline.models.base import ModelRequest, ModelUnavailable, Reply
from pipeline.models.spec import parse_spec
from pipeline.models.wrappers import ConcurrencyWindow, ThrottledModel
from pipeline.store import DirStore
from tests.support.fakes import DyingStore, Killed
from tests.support.recorded_scout import ISSUE, NO, YES, modules, scanned, scouted, shared_prefix
from tests.support.tokenizer import CountingServer, real_tokens


async def test_all_questions_begin_alike_and_the_file_comes_last(tmp_path: Path) -> None:
    async with scouted({"reply": NO}) as (scout, server):
        await scanned(tmp_path, modules(5), scout)
    prompts = ["".join(part.text for part in asked.parts) for asked in server.requests]
    prefix = shared_prefix(prompts)
    assert prefix.startswith("system\n")
    assert ISSUE.body in prefix
    assert prefix.endswith('<file path="m')
    assert {asked.system for asked in server.requests} == {server.requests[0].system}


async def test_nearly_all_that_can_come_from_the_prefix_cache_does(tmp_path: Path) -> None:
    async with scouted({"reply": NO}) as (scout, server), server.serve() as url:
        await scanned(tmp_path, modules(20), scout)
        async with httpx.AsyncClient(trust_env=False) as client:
            said = (await client.get(f"{url}/metrics")).text
    counts = dict(line.rsplit(" ", 1) for line in said.splitlines())
    hits = int(counts['vllm:prefix_cache_hits_total{engine="0"}'])
    prompts = ["".join(part.text for part in asked.parts) for asked in server.requests]
    at_most = len(shared_prefix(prompts)) // 4 * (len(prompts) - 1)
    assert at_most * 0.9 < hits <= at_most * 1.05


async def test_the_form_is_asked_for_and_a_server_without_it_is_asked_once(tmp_path: Path) -> None:
    async with scouted({"reply": NO}) as (scout, server):
        await scanned(tmp_path / "a", modules(3), scout)
    assert all(asked.response_format for asked in server.requests)
    async with scouted({"reply": f"Sure! **{YES}**"}, forms=False) as (scout, server):
        verdicts = await scanned(tmp_path / "b", modules(3), scout)
    assert [bool(asked.response_format) for asked in server.requests] == [True] + [False] * 3
    assert {verdict.answer for verdict in verdicts.values()} == {"relevant"}


async def test_nonsense_is_asked_for_again_freely_and_then_kept_as_unknown(tmp_path: Path) -> None:
    answers = [{"when": ['"m1.py"'], "reply": "Blub."}, {"reply": NO}]
    async with scouted(*answers) as (scout, server):
        verdicts = await scanned(tmp_path, modules(3), scout)
    assert {path: v.answer for path, v in verdicts.items()} == {
        "m0.py": "not relevant",
        "m1.py": "unknown",
        "m2.py": "not relevant",
    }
    again = [asked for asked in server.requests if '"m1.py"' in asked.last_user_message]
    assert [bool(asked.response_format) for asked in again] == [True, False]


async def test_a_file_larger_than_the_window_is_read_in_pieces_and_joined(tmp_path: Path) -> None:
    big = "".join(f"def g{n}(x):\n    return x * {n}\n\n\n" for n in range(900))
    answers = [{"when": ["def g700("], "reply": YES}, {"reply": NO}]
    async with scouted(*answers, window=6000) as (scout, server):
        verdicts = await scanned(tmp_path, {"big.py": big, **modules(2)}, scout)
    assert verdicts["big.py"].answer == "relevant"
    assert verdicts["big.py"].lines
    read = "".join(asked.last_user_message for asked in server.requests)
    assert all(f"def g{n}(" in read for n in range(900))


async def test_the_pieces_of_one_file_are_asked_about_side_by_side(tmp_path: Path) -> None:
    big = "".join(f"def g{n}(x):\n    return x * {n}\n\n\n" for n in range(900))
    running = most = 0
    async with scouted({"reply": NO}, window=6000, max_output=500) as (scout, _):

        class Watched(ThrottledModel):
            async def complete(self, request: ModelRequest) -> Reply:
                nonlocal running, most
                running += 1
                most = max(most, running)
                try:
                    return await super().complete(request)
                finally:
                    running -= 1

        await scanned(tmp_path, {"big.py": big}, Watched(scout, ConcurrencyWindow(8)))
    assert most > 1


async def test_a_later_piece_is_read_with_the_head_of_its_class(tmp_path: Path) -> None:
    text = "class Till(Base):\n" + "    def f(self):\n        return 1\n\n" * 900
    async with scouted({"reply": NO}, window=6000) as (scout, server):
        await scanned(tmp_path, {"big.py": text}, scout)
    parts = [asked.last_user_message for asked in server.requests]
    assert len(parts) > 2
    assert all("class Till(Base):" in part for part in parts)
    assert sum("[The lines below lie within:]" in part for part in parts) == len(parts) - 1


class Says:
    """A counter that finds every text equally long."""

    name = "says"

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    async def count(self, texts: Sequence[str]) -> list[int]:
        return [self._tokens for _ in texts]


async def frame() -> int:
    """Tokens of a question that are kept from the file."""
    async with scouted({"reply": NO}, window=6000, max_output=500) as (scout, _):
        return 6000 - RelevanceReader(scout, ISSUE).room


async def test_what_fits_the_scouts_window_by_its_own_count_is_read_whole(tmp_path: Path) -> None:
    text = "".join(f"def parse_header_{n}(line):\n    return line\n\n\n" for n in range(150))
    window = await frame() + (len(real_tokens(text)) + estimate_tokens(text)) // 2
    files = {"near.py": text, "small.py": "x = 1\n", "large.py": text * 4}
    server = CountingServer()
    async with server.serve() as url, open_counter(parse_spec(f"openai:m@{url}"), "") as counter:
        for folder, using, requests in (("a", ESTIMATOR, 2), ("b", counter, 1)):
            (tmp_path / folder).mkdir()
            async with scouted({"reply": NO}, window=window, max_output=500) as (scout, scouts):
                await scanned(tmp_path / folder, files, scout, counter=using)
            about = [
                asked.last_user_message
                for asked in scouts.requests
                if 'path="near.py"' in asked.last_user_message
            ]
            assert len(about) == requests
    assert server.asked == ["one two", text]  # neither what surely fits nor what surely does not


async def test_what_an_estimate_took_for_too_small_is_cut_by_the_exact_count(
    tmp_path: Path,
) -> None:
    text = "".join(f"def parse_header_{n}(line):\n    return line\n\n\n" for n in range(150))
    window = await frame() + estimate_tokens(text) + 100
    async with scouted({"reply": NO}, window=window, max_output=500) as (scout, server):
        await scanned(tmp_path, {"near.py": text}, scout, counter=Says(estimate_tokens(text) + 200))
    assert len(server.requests) == 2


async def test_a_window_smaller_than_stated_only_makes_the_pieces_smaller(tmp_path: Path) -> None:
    big = "".join(f"def g{n}(x):\n    return x * {n}\n\n\n" for n in range(60))
    whole = {
        "when": ["def g0(", "def g59("],
        "status": 400,
        "error": "maximum context length is 100",
    }
    answers = [whole, {"when": ["def g50("], "reply": YES}, {"reply": NO}]
    async with scouted(*answers) as (scout, server):
        verdicts = await scanned(tmp_path, {"big.py": big}, scout)
    assert verdicts["big.py"].answer == "relevant"
    ((first, last),) = verdicts["big.py"].lines
    assert big.split("\n")[first - 1 : last].count("def g50(x):") == 1
    assert any(f'lines="{first}-{last}"' in asked.last_user_message for asked in server.requests)


async def test_after_a_crash_only_what_has_no_verdict_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    async with scouted({"reply": NO}) as (scout, _):
        with pytest.raises(Killed):
            await scanned(tmp_path, modules(30), scout, store=DyingStore(folder, 12))
    kept = kept_in(folder)
    assert 0 < kept < 12
    # Another server: a question of the dead one may still be on its way.
    async with scouted({"reply": NO}) as (scout, server):
        assert len(await scanned(tmp_path, modules(30), scout, store=DirStore(folder))) == 30
    assert len(server.requests) == 30 - kept


def kept_in(folder: Path) -> int:
    return len(list((folder / "context/relevance").glob("*.json")))


async def test_a_later_run_of_the_same_issue_asks_nothing_again(tmp_path: Path) -> None:
    answers = [{"when": ['"m1.py"'], "reply": "Blub."}, {"reply": NO}]
    async with scouted(*answers) as (scout, server):
        await scanned(tmp_path, modules(5), scout)
        first = len(server.requests)
        await scanned(tmp_path, modules(5), scout)
    # Only the unknown one: it may be luckier.
    assert {'"m1.py"' in asked.last_user_message for asked in server.requests[first:]} == {True}


async def test_a_scout_that_dies_half_way_goes_on_where_it_was(tmp_path: Path) -> None:
    store = DirStore(tmp_path / "store")
    dead = {"when": ['"m2'], "status": 503}
    probe = {"call": "relevance/probe", "status": 503}
    async with scouted(probe, dead, {"reply": NO}) as (scout, _):
        with pytest.raises(ModelUnavailable):
            await scanned(tmp_path, modules(30), scout, store=store)
    kept = kept_in(tmp_path / "store")
    assert 0 < kept < 30
    async with scouted({"reply": NO}) as (scout, server):
        verdicts = await scanned(tmp_path, modules(30), scout, store=store)
    assert {verdict.answer for verdict in verdicts.values()} == {"not relevant"}
    assert len(server.requests) == 30 - kept


async def test_a_file_that_only_the_server_fails_at_is_unknown(tmp_path: Path) -> None:
    answers = [{"when": ['"m1.py"'], "status": 500}, {"reply": NO}]
    async with scouted(*answers) as (scout, _):
        verdicts = await scanned(tmp_path, modules(6), scout)
    assert [path for path, v in verdicts.items() if v.answer == "unknown"] == ["m1.py"]


async def test_a_slow_answer_holds_up_no_other(tmp_path: Path) -> None:
    told: list[int] = []

    async def counted(done: int, _total: int) -> None:
        told.append(done)

    answers = [{"when": ['"m1.py"'], "reply": YES, "delay": 1.0}, {"reply": NO}]
    async with scouted(*answers) as (scout, _):
        verdicts = await scanned(tmp_path, modules(12), scout, counted=counted)
    assert told == list(range(13))
    assert verdicts["m1.py"].answer == "relevant"


async def test_a_scout_that_reasons_at_length_before_it_answers_is_understood(
    tmp_path: Path,
) -> None:
    reasoning = "It could matter, as it defines what the issue names. " * 80  # a thousand tokens
    answers = {"reply": f'{{"thoughts": "{reasoning}", "relevant": true, "summary": "It adds."}}'}
    async with scouted(answers) as (scout, server):
        verdicts = await scanned(tmp_path, modules(1), scout)
    assert [(v.answer, v.summary) for v in verdicts.values()] == [("relevant", "It adds")]
    asked = server.requests[0]
    assert asked.max_tokens == 32_000 // 8
    assert "First think it through" in asked.last_user_message
    assert SCHEMA["required"] == ["thoughts", "relevant", "summary"]
