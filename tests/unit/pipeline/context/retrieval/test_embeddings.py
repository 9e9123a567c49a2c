"""An embedding model over the wire beside shared words: what it adds, and how it may fail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bot.runner.models import ModelContext, ModelFactory, build_ranker
from bot.settings import Settings
from bot.storage.workers import InFlightWork
from pipeline.context.files.sources import Sources, find_sources
from pipeline.context.retrieval.embeddings import split_parts
from pipeline.context.retrieval.prefilter import prefilter
from pipeline.data.options import Options
from pipeline.data.types import Issue, Usage
from pipeline.models.base import ModelMisconfigured
from pipeline.models.metering import Meter
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore
from sandbox.frozen import replace
from tests.support.data.repositories import make_codebase
from tests.support.recorded.openai_api import DIMENSIONS
from tests.support.recorded.server import RecordedServer
from tests.support.recorded_embeddings import served

FILES = {
    "a.py": "import socket\nsocket.close()\n",
    "b.py": "def reverse(text):\n    return text\n",
    "c.py": "paginators = [paginates for paginates in paginated]\n",
    "d.py": "value = 1\n",
}
ISSUE = Issue(repository="a/b", title="pagination", body="The value of pagination.")


async def opened(folder: Path, files: Mapping[str, str] = FILES) -> Sources:
    return await find_sources(await make_codebase(folder / "r.git", files))


def texts_of(server: RecordedServer) -> list[str]:
    return [message.text for asked in server.requests for message in asked.messages]


async def test_a_file_that_shares_no_word_is_found_by_its_meaning(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    by_words = await prefilter(sources, ISSUE, 10)
    assert [hit.path for hit in by_words.kept] == ["d.py"]
    async with served(key="secret") as (meaning, server):
        found = await prefilter(sources, ISSUE, 10, embedding_ranker=meaning)
    assert {"c.py", "d.py"} == {hit.path for hit in found.kept[:2]}
    assert ": 0." in {hit.path: hit.summary for hit in found.kept}["c.py"]
    assert found.meaning == "The embedding model mini helped to order 4 files."
    assert all(asked.call == "embedding" for asked in server.requests)


async def test_what_the_issue_names_stays_first_and_is_not_embedded(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    issue = replace(ISSUE, body='File "/x/site-packages/a.py", line 1')
    async with served() as (meaning, server):
        found = await prefilter(sources, issue, 2, embedding_ranker=meaning)
    assert [hit.path for hit in found.kept] == ["a.py", "c.py"]
    assert FILES["a.py"] not in texts_of(server)


async def test_where_the_issue_names_every_file_the_model_is_not_asked(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    issue = replace(ISSUE, body="See " + ", ".join(FILES))
    async with served() as (meaning, server):
        found = await prefilter(sources, issue, 2, embedding_ranker=meaning)
    assert (len(found.kept), found.meaning, server.requests) == (4, "", [])


async def test_only_the_first_by_words_are_put_before_the_model(tmp_path: Path) -> None:
    files = {f"m{n}.py": f"x = {n}\n" + "pagination\n" * n for n in range(20)}
    sources = await opened(tmp_path, files)
    async with served(files=5) as (meaning, server):
        found = await prefilter(sources, ISSUE, 20, fill_up=True, embedding_ranker=meaning)
    assert len(texts_of(server)) == 1 + 5
    assert len(found.kept) == 20
    assert "5 files" in found.meaning


async def test_vectors_are_kept_by_content_and_model(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    other = replace(ISSUE, title="another")
    async with served() as (meaning, server):
        first = await prefilter(sources, ISSUE, 10, embedding_ranker=meaning)
        asked = len(texts_of(server))
        assert await prefilter(sources, ISSUE, 10, embedding_ranker=meaning) == first
        await prefilter(sources, other, 10, embedding_ranker=meaning)
        changed = await opened(tmp_path, {**FILES, "new.py": "y = 2\n"})
        await prefilter(changed, ISSUE, 10, embedding_ranker=meaning)
        assert len(texts_of(server)) == asked + 1 + 1 + 2  # three issues, and one new content


NONSENSE = {
    "not JSON": "Sorry?",
    "another document": '{"data": "none"}',
    "not numbers": '{"data": [{"index": 0, "embedding": ["a"]}]}',
    "no numbers": '{"data": [{"index": 0, "embedding": []}]}',
    "infinite": '{"data": [{"index": 0, "embedding": [1e999]}]}',
    "enormous": '{"data": [{"index": 0, "embedding": [1e300]}]}',
    "too many": json.dumps({"data": [{"index": n, "embedding": [1]} for n in range(9)]}),
    "one twice": json.dumps({"data": [{"index": 0, "embedding": [1]}] * 2}),
}


@pytest.mark.parametrize("kind", NONSENSE)
async def test_nonsense_leaves_the_order_to_the_words_and_is_reported(
    tmp_path: Path, kind: str
) -> None:
    sources = await opened(tmp_path)
    by_words = await prefilter(sources, ISSUE, 10)
    async with served({"reply": NONSENSE[kind]}) as (meaning, _):
        found = await prefilter(sources, ISSUE, 10, embedding_ranker=meaning)
    assert found.kept == by_words.kept
    assert "mini was not used, as it " in found.meaning
    assert "127.0.0.1" not in found.meaning
    assert not found.embedding_used


async def test_vectors_of_another_length_are_not_compared(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    wrong = {"data": [{"index": n, "embedding": [1, 2]} for n in range(len(FILES))]}
    async with served({"when": ["paginators"], "reply": json.dumps(wrong)}) as (meaning, _):
        found = await prefilter(sources, ISSUE, 10, embedding_ranker=meaning)
    assert f"it gave vectors of {DIMENSIONS} and of 2 numbers" in found.meaning
    assert [hit.path for hit in found.kept] == ["d.py"]


async def test_a_model_of_vectors_without_direction_changes_nothing(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    zeros = json.dumps({"data": [{"index": 0, "embedding": [0, 0]}]})
    many = json.dumps({"data": [{"index": n, "embedding": [0, 0]} for n in range(len(FILES))]})
    answers = ({"when": ["pagination."], "reply": zeros}, {"reply": many})
    async with served(*answers) as (meaning, _):
        found = await prefilter(sources, ISSUE, 10, embedding_ranker=meaning)
    assert found.kept[0].path == "d.py"


async def test_a_server_that_is_down_or_refuses_the_key_is_reported(tmp_path: Path) -> None:
    sources = await opened(tmp_path)
    async with AsyncExitStack() as stack:
        nobody = build_ranker(stack, Settings(embedding_model="openai:mini@http://127.0.0.1:9/v1"))
        found = await prefilter(sources, ISSUE, 10, embedding_ranker=nobody)
    assert "as it cannot be reached" in found.meaning
    async with served({"status": 503, "reply": "x"}) as (meaning, _):
        found = await prefilter(sources, ISSUE, 10, embedding_ranker=meaning)
    assert "as it answered HTTP 503" in found.meaning
    assert [hit.path for hit in found.kept] == ["d.py"]


async def test_what_is_too_long_for_the_model_counts_by_its_beginning(tmp_path: Path) -> None:
    sources = await opened(tmp_path, {"long.py": "pagination = 1\n" * 70})
    answer = {"status": 400, "error": "too long", "times": 1, "reply": "{}", "when": ["= 1"]}
    async with served(answer) as (meaning, server):
        # The second time the reply of the answer would be sent: only the first text fails.
        (vector,) = await meaning.embedder.embed(["a text"])
        assert len(vector) == DIMENSIONS
        await prefilter(sources, ISSUE, 10, embedding_ranker=meaning)
    lengths = [len(text) for text in texts_of(server) if "= 1" in text]
    assert lengths == [1050, 525]


async def test_what_it_costs_is_paid_and_the_ceiling_holds(tmp_path: Path) -> None:
    store = DirStore(tmp_path)
    meter = await Meter.open(store, 1)
    async with served() as (_, server), server.serve() as url:
        settings = Settings(
            embedding_model=f"openai:recorded-claude-haiku-4-5@{url}/v1",
            solver_model=f"openai:m@{url}/v1",
        )
        async with ModelFactory(settings).open(
            ModelContext(meter, InFlightWork(), Options(), store)
        ) as models:
            assert models.embedding_ranker is not None
            await models.embedding_ranker.embedder.embed(["four letters a token"])
            (account,) = meter.accounts()
            assert (account.stage, account.usage) == ("embedding", Usage(input=5))
            assert account.dollars > 0
            meter.budget.spent = 1
            with pytest.raises(BudgetSpent):
                await models.embedding_ranker.embedder.embed(["more"])


@pytest.mark.parametrize("text", ["anthropic:claude", "mini", "openai:mini"])
def test_what_is_no_embedding_model_is_refused_by_name(text: str) -> None:
    with pytest.raises(ModelMisconfigured, match=r"CAPUCHIN_EMBEDDING_MODEL: .*openai:"):
        build_ranker(AsyncExitStack(), Settings(embedding_model=text))
    assert build_ranker(AsyncExitStack(), Settings()) is None


def test_parts_end_at_line_ends_and_lose_nothing_but_blanks() -> None:
    text = "".join(f"line {n}\n" for n in range(400)) + " " * 5000 + "\n" + "y" * 3000
    parts = split_parts(text)
    assert all(0 < len(part) <= 1200 for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part.endswith("\n") for part in parts[:3])
    assert sum(part.count("y") for part in parts) == 3000
