"""Models as people write them; their prices, clients and destinations."""

import json
from pathlib import Path

import pytest

from pipeline.data.types import Usage
from pipeline.models.base import ModelMisconfigured, Price
from pipeline.models.factory import ModelOptions, build_model
from pipeline.models.spec import (
    OPENAI_URL,
    UNKNOWN_HOST,
    ModelSpec,
    PricesInvalid,
    destinations,
    is_own,
    look_up,
    parse_spec,
    parse_specs,
    price_table,
    read_prices,
)
from tests.support.texts import texts_of

ROWS = texts_of(__file__)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("anthropic:claude-sonnet-4-6", ModelSpec(provider="anthropic", name="claude-sonnet-4-6")),
        (
            " anthropic:recorded-claude-haiku-4-5@http://127.0.0.1:8123 ",
            ModelSpec(
                provider="anthropic",
                name="recorded-claude-haiku-4-5",
                base_url="http://127.0.0.1:8123",
            ),
        ),
        (
            "openai:Qwen/Qwen2.5-Coder:32b@http://vllm:8000/v1/",
            ModelSpec(
                provider="openai", name="Qwen/Qwen2.5-Coder:32b", base_url="http://vllm:8000/v1"
            ),
        ),
        (
            "openai:m@https://[::1]:8000/v1",
            ModelSpec(provider="openai", name="m", base_url="https://[::1]:8000/v1"),
        ),
    ],
)
def test_a_model_is_read_as_people_write_it(text: str, spec: ModelSpec) -> None:
    assert parse_spec(text) == spec


def test_a_model_is_written_as_it_is_read() -> None:
    for text in ("anthropic:claude-sonnet-4-6", "openai:a/b@http://vllm:8000/v1"):
        assert str(parse_spec(text)) == text


@pytest.mark.parametrize(("text", "sentence"), ROWS["what_names_no_model_is_explained"])
def test_what_names_no_model_is_explained(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_spec(text)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="may not hold a user or password") as caught:
        parse_spec("openai:qwen@http://me:hunter2@vllm:8000/v1")
    assert "hunter2" not in str(caught.value)


def test_several_models_are_separated_by_commas_in_order_of_preference() -> None:
    specs = parse_specs("anthropic:a, openai:b/c@http://vllm:8000/v1")
    assert [str(spec) for spec in specs] == ["anthropic:a", "openai:b/c@http://vllm:8000/v1"]
    assert parse_specs("anthropic:a") == (parse_spec("anthropic:a"),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "names no model"),
        ("anthropic:a,,anthropic:b", "names no model"),
        ("anthropic:a,openai:b", "has no address"),
        ("anthropic:a,anthropic:a", "anthropic:a is named twice"),
    ],
)
def test_a_list_that_names_no_models_is_explained(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_specs(text)


MILLION = Usage(input=1_000_000, output=1_000_000, cache_read=1_000_000, cache_write=1_000_000)


@pytest.mark.parametrize(
    ("name", "dollars"),
    [
        ("claude-sonnet-4-6", 3 + 15 + 0.30 + 3.75),
        ("claude-sonnet-4-5-20250929", 3 + 15 + 0.30 + 3.75),
        ("claude-opus-4-5", 5 + 25 + 0.50 + 6.25),
        ("claude-haiku-4-5", 1 + 5 + 0.10 + 1.25),
    ],
)
def test_a_known_model_costs_its_list_price(name: str, dollars: float) -> None:
    known = look_up(parse_spec(f"anthropic:{name}"))
    assert known.price_source == "list"
    assert known.profile.price.of(MILLION) == pytest.approx(dollars)
    assert price_table().date in known.note


@pytest.mark.parametrize(
    "text", ["anthropic:{}", "openai:{}@http://127.0.0.1:8000/v1", "anthropic:{}@http://localhost"]
)
def test_a_recording_is_priced_as_what_it_stands_for_and_keeps_its_name(text: str) -> None:
    known = look_up(parse_spec(text.format("recorded-claude-sonnet-4-6")))
    live = look_up(parse_spec("anthropic:claude-sonnet-4-6"))
    assert known.profile.price == live.profile.price
    assert known.profile.name == "recorded-claude-sonnet-4-6"


def test_a_model_on_a_server_of_ones_own_is_free() -> None:
    known = look_up(parse_spec("openai:Qwen/Qwen3@http://vllm:8000/v1"))
    assert known.price_source == "local"
    assert known.profile.price.of(MILLION) == 0
    assert known.profile.sampling


def test_ones_own_hardware_costs_its_hours_as_in_the_papers_table_1(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    paper = {"dollars_per_hour": 8.24, "tokens_per_second": 9051}
    file.write_text(json.dumps({"version": 1, "date": "2026-11", "compute": {"*": paper}}))
    known = look_up(parse_spec("openai:Qwen/Qwen2.5@http://vllm:8000/v1"), read_prices(file))
    # Appendix C of CodeMonkeys: 1.32083 billion tokens for 334.02 dollars.
    dollars = known.profile.price.of(Usage(input=1_320_000_000, output=830_000))
    assert dollars == pytest.approx(334.02, abs=0.1)
    assert known.profile.price.of(Usage(cache_read=1_000_000)) == 0
    assert "$8.24 per hour and 9,051 tokens per second" in known.profile.price_note
    paid = look_up(parse_spec("openai:gpt-7@https://api.openai.com/v1"), read_prices(file))
    assert paid.price_source == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "anthropic:claude-of-tomorrow",
        "anthropic:qwen@http://gateway:8000",
        "openai:gpt-7@https://api.openai.com/v1",
        "openai:gpt-7@https://API.OpenAI.com./v1",
        "openai:x@https://llm.of-nobody-listed.example/v1",
        "openai:x@https://203.0.113.7/v1",
    ],
)
def test_an_unknown_paid_model_is_dearer_than_every_known_one(text: str) -> None:
    known = look_up(parse_spec(text))
    assert known.price_source == "unknown"
    assert "is not known" in known.note
    dearest = max(facts.price.of(MILLION) for facts in price_table().models.values())
    assert known.profile.price.of(MILLION) > dearest


@pytest.mark.parametrize("host", ["gpu", "localhost", "10.0.0.7", "[::1]", "myopenai.com", "a.lan"])
def test_a_host_of_ones_own_is_free(host: str) -> None:
    """A name that only ends like a paid one is not that."""
    table = read_prices(None, ["myopenai.com", ".lan"])
    assert look_up(parse_spec(f"openai:m@http://{host}:80/v1"), table).price_source == "local"


def test_the_table_is_sane() -> None:
    table = price_table()
    for facts in (*table.models.values(), table.unknown, table.local):
        assert facts.max_output < facts.window
        assert facts.price.cache_read <= facts.price.input <= facts.price.output


FACTS = {"price": {"input": 1, "output": 2}, "window": 1000, "max_output": 100, "sampling": True}


def written(folder: Path, **prices: object) -> Path:
    path = folder / "own.json"
    path.write_text(json.dumps({"version": 1, "date": "2026-11", **prices}))
    return path


def test_an_operators_file_overrules_the_table_and_adds_to_it(tmp_path: Path) -> None:
    own = written(
        tmp_path,
        models={"claude-haiku-4-5": FACTS, "ours": FACTS},
        local={**FACTS, "window": 7000},
        paid_hosts=["models.example"],
    )
    table = read_prices(own)
    haiku = look_up(parse_spec("anthropic:claude-haiku-4-5-20251001"), table)
    assert haiku.profile.price == Price(input=1, output=2)
    assert haiku.note.endswith("at the operator's own price of 2026-11.")
    assert look_up(parse_spec("anthropic:ours"), table).price_source == "list"
    kept = look_up(parse_spec("anthropic:claude-opus-4-5"), table)
    assert kept == look_up(parse_spec("anthropic:claude-opus-4-5"))
    assert look_up(parse_spec("openai:m@http://vllm/v1"), table).profile.window == 7000
    assert (
        look_up(parse_spec("openai:m@http://a.models.example/v1"), table).price_source == "unknown"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Invalid JSON"),
        ("{}", "version: Field required"),
        ('{"version": 2, "date": "d"}', "version: Input should be 1"),
        ('{"version": 1, "date": "d", "model": {}}', "model: Extra inputs are not permitted"),
        ('{"version": 1, "date": "d", "models": {"m": {}}}', "models.m.price: Field required"),
    ],
)
def test_a_file_that_holds_no_prices_is_explained(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "own.json"
    path.write_text(text)
    with pytest.raises(PricesInvalid) as caught:
        read_prices(path)
    assert str(caught.value).startswith(f"{path}: {sentence}")


def test_thinking_is_a_servers_own_affair() -> None:
    haiku = look_up(parse_spec("anthropic:claude-haiku-4-5")).profile
    local = look_up(parse_spec("openai:m@http://vllm/v1")).profile
    assert haiku.thinking
    assert local.thinking, "a server that declines is told apart"


async def test_a_spec_becomes_its_client() -> None:
    # Imported here, so that a process that only collects this file need not load them.
    from pipeline.models.providers.anthropic import AnthropicModel
    from pipeline.models.providers.openai_chat import OpenAIChatModel

    first = build_model(parse_spec("anthropic:claude-sonnet-4-6"), api_key="k")
    second = build_model(parse_spec("openai:m@http://127.0.0.1:1/v1"), api_key="")
    assert isinstance(first, AnthropicModel)
    assert isinstance(second, OpenAIChatModel)
    await first.aclose()
    await second.aclose()


async def test_what_the_operator_knows_better_overrules_the_table() -> None:
    model = build_model(
        parse_spec("openai:m@http://127.0.0.1:1/v1"),
        api_key="",
        options=ModelOptions(window=131_072, max_output=16_384, price=Price(output=1)),
    )
    assert (model.profile.window, model.profile.max_output) == (131_072, 16_384)
    assert model.profile.price == Price(output=1)
    await model.aclose()


def test_anthropics_service_needs_a_key() -> None:
    with pytest.raises(ModelMisconfigured, match="No key is set for anthropic:m"):
        build_model(parse_spec("anthropic:m"), api_key="")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("url", ROWS["loopback_and_private_addresses_are_own"])
def test_loopback_and_private_addresses_are_own(url: str) -> None:
    assert all(is_own(host) for host in destinations(url))


@pytest.mark.parametrize(
    "host",
    [
        "api.anthropic.com",
        "8.8.8.8",
        "172.32.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "192.0.2.1",
        "2001:db8::1",
        "::ffff:8.8.8.8",
        "127.1",
        "2130706433",
        "0x7f000001",
        "10.0.0.1.nip.io",
        "localhost.example.org",
        "vllm",
        "vllm.internal",
        UNKNOWN_HOST,
    ],
)
def test_what_is_not_certain_is_not_own(host: str) -> None:
    assert not is_own(host)


def test_names_are_own_if_the_operator_says_so_and_nobody_sells_there() -> None:
    declared = (" VLLM ", "gpu.example.org.", ".lan", "api.openai.com", "", ".")
    assert all(is_own(host, declared) for host in ("vllm", "gpu.example.org", "a.b.lan", "A.LAN."))
    others = ("lan", "xvllm", "b.gpu.example.org", "api.openai.com", "evil.lan.example.org", "")
    assert not any(is_own(host, declared) for host in others)


def test_a_proxy_on_the_way_is_a_destination_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    monkeypatch.setenv("no_proxy", "localhost,10.0.0.7")
    assert destinations("http://10.0.0.5/v1") == ("10.0.0.5", "proxy.example.org")
    assert destinations("http://10.0.0.7/v1") == ("10.0.0.7",)
    assert destinations("http://localhost:1/v1") == ("localhost",)


@pytest.mark.parametrize("name", ["gpt-5", "gpt-4.1-mini", "o4-mini"])
def test_a_name_of_openais_needs_no_address(name: str) -> None:
    assert parse_spec(f"openai:{name}").base_url == OPENAI_URL
    with pytest.raises(ValueError, match="has no address"):
        parse_spec("openai:gpt-oss-120b")
