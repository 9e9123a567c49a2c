from __future__ import annotations

import pytest

from pipeline.models.spec import ModelSpec, parse_spec, parse_specs


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (
            "anthropic:claude-sonnet-4-6",
            ModelSpec(provider="anthropic", name="claude-sonnet-4-6"),
        ),
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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "names no model"),
        ("claude-sonnet-4-6", "names no model"),
        ("anthropic:", "names no model"),
        ("anthropic:two words", "names no model"),
        ("openai:@http://vllm:8000/v1", "names no model"),
        ("gemini:pro", "'gemini' is not a provider"),
        ("openai:qwen", "has no address: write openai:qwen@http"),
        ("openai:qwen@", "not an address that begins with http"),
        ("openai:qwen@vllm:8000/v1", "not an address that begins with http"),
        ("openai:qwen@ftp://vllm/v1", "not an address that begins with http"),
        ("openai:qwen@http:///v1", "not an address that begins with http"),
        ("openai:qwen@http://vllm:99999/v1", "is not an address"),
        ("openai:qwen@http://[::1/v1", "is not an address"),
        ("openai:qwen@http://vllm/v1?key=1", "neither a query nor a fragment"),
        ("openai:qwen@http://vllm/v1#x", "neither a query nor a fragment"),
    ],
)
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
