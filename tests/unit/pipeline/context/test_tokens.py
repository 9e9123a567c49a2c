import base64
import random
from pathlib import Path

import pytest

from bot.runner.models import ModelContext, ModelFactory
from bot.settings import Settings
from pipeline.context.files.sources import find_sources
from pipeline.context.finder import ContextFinder
from pipeline.context.tokens import ESTIMATOR, estimate_tokens, open_counter, weight, weight_for
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.models.metering import Meter
from pipeline.models.spec import ModelSpec, parse_spec
from pipeline.store import DirStore
from tests.support.data.repositories import make_codebase
from tests.support.fakes import ScriptedModel
from tests.support.tokenizer import CountingServer, real_tokens

ROOT = Path(__file__).parents[4]
OURS = [
    path
    for folder in ("bot", "pipeline", "sandbox", "prompts", "deploy", "tests/unit")
    for path in sorted((ROOT / folder).rglob("*.*"))
    if path.suffix in {".py", ".j2", ".md", ".yaml", ".yml", ".json", ".sh"}
    if 200 < path.stat().st_size < 100_000
]
NOISE = random.Random(1)


def test_the_estimate_is_above_a_real_count_and_not_far(tmp_path: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in OURS]
    real = [len(real_tokens(text)) for text in texts]
    guess = [estimate_tokens(text) for text in texts]
    under = [path for path, r, g in zip(OURS, real, guess, strict=True) if g < r]
    assert len(texts) > 200
    assert under == []
    assert sum(guess) < 1.6 * sum(real)


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(NOISE.randbytes(5000)).decode(),
        NOISE.randbytes(5000).hex(),
        "中文字符" * 500,
        "Größe und Straße, schön übermäßig. " * 100,
        "Это просто обычный русский текст. " * 100,
        "MAX_BUFFER_SIZE = OTHER_CONSTANT\n" * 100,
        "(((((([[[[{{{{,,,,;;;;" * 100,
        "\t\t\t\tx\n\n\n\n" * 300,
        "3.14159 0x7fff 1e-10 " * 200,
    ],
    ids=["base64", "hex", "chinese", "german", "russian", "capitals", "signs", "tabs", "numbers"],
)
def test_the_estimate_is_safe_for_unusual_text(text: str) -> None:
    assert estimate_tokens(text) >= len(real_tokens(text))


def test_text_of_the_weight_of_a_room_is_estimated_to_fit() -> None:
    assert estimate_tokens("") == 0
    for tokens in (100, 101, 5000):
        text = "(" * weight_for(tokens)
        assert weight(text) == weight_for(tokens)
        assert tokens - 2 <= estimate_tokens(text) <= tokens


async def test_a_server_that_counts_is_asked_and_each_content_once(tmp_path: Path) -> None:
    files = {"a.py": "def f(x):\n    return x\n", "b.py": "y = 'größe'\n", "c.py": "y = 'größe'\n"}
    sources = await find_sources(await make_codebase(tmp_path / "r.git", files))
    server = CountingServer(key="secret")
    async with (
        server.serve() as url,
        open_counter(parse_spec(f"openai:m@{url}"), "secret") as counter,
    ):
        first = await sources.count_tokens(list(files), counter)
        asked = len(server.asked)
        again = await sources.count_tokens(list(files), counter)
    assert first == again == {path: len(real_tokens(text)) for path, text in files.items()}
    assert asked == len(server.asked) == 1 + 2  # the probe, and two contents


async def test_where_the_server_dies_the_rest_is_estimated(tmp_path: Path) -> None:
    files = {f"f{n}.py": f"value_{n} = {n}\n" for n in range(3)}
    sources = await find_sources(await make_codebase(tmp_path / "r.git", files))
    server = CountingServer(broken_after=1)
    async with server.serve() as url, open_counter(parse_spec(f"openai:m@{url}"), "") as counter:
        assert counter is not ESTIMATOR
        counted = await sources.count_tokens(list(files), counter)
    assert counted == {path: estimate_tokens(text) for path, text in files.items()}


async def test_a_server_that_does_not_count_leaves_the_estimate() -> None:
    server = CountingServer(key="secret")
    async with server.serve() as url:
        refused = parse_spec(f"openai:m@{url}")
        elsewhere = parse_spec(f"openai:m@{url}/elsewhere")
        for spec in (refused, elsewhere, parse_spec("openai:m@http://127.0.0.1:9/v1")):
            async with open_counter(spec, "") as counter:
                assert counter is ESTIMATOR
    async with open_counter(ModelSpec(provider="anthropic", name="claude"), "key") as counter:
        assert counter is ESTIMATOR


async def test_what_fits_by_the_servers_count_is_shown_whole(tmp_path: Path) -> None:
    text = "".join(f"def parse_header_{n}(line):\n    return line\n\n\n" for n in range(150))
    exact = len(real_tokens(text))
    budget = (
        exact + estimate_tokens(text)
    ) // 2  # it fits by the count, and would not by the estimate
    codebase = await make_codebase(tmp_path / "r.git", {"heads.py": text})
    asked = ScriptedModel({})
    server = CountingServer()
    async with server.serve() as url, open_counter(parse_spec(f"openai:m@{url}"), "") as counter:
        for name, using, whole in (("exact", counter, True), ("guessed", ESTIMATOR, False)):
            finder = ContextFinder(
                solver=asked,
                scout=None,
                store=DirStore(tmp_path / name),
                options=Options(context_tokens=budget, context_cap=budget),
                counter=using,
            )
            issue = Issue(repository="a/b", title="parse_header_7 fails", body="")
            context = await finder.find(codebase, issue)
            assert context is not None
            assert (context.files[0].text == text) is whole
            assert sum(file.tokens for file in context.files) <= budget


async def test_a_run_counts_at_its_solvers_server(tmp_path: Path) -> None:
    store = DirStore(tmp_path)
    purpose = ModelContext(await Meter.open(store, 1), Options())
    async with CountingServer().serve() as url:
        settings = Settings(solver_model=f"openai:m@{url}", scout_model=f"openai:s@{url}")
        async with ModelFactory(settings).open(purpose) as models:
            assert models.counter.name == f"openai:m@{url}"
            assert models.scout_counter.name == f"openai:s@{url}"
            assert await models.counter.count(["def f(): 1"]) == [len(real_tokens("def f(): 1"))]
