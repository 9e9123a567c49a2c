"""The repository's settings file: defaults, every kind of mistake and where it is said to be."""

from pathlib import Path

import pytest
import yaml

from bot.repo_config.model import (
    MAX_PROBLEMS,
    ConfigProblem,
    RepoConfig,
    parse_config,
    parse_or_list_problems,
)
from pipeline.data.options import Options
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

EXAMPLE = Path(__file__).parents[4] / "capuchin.example.yml"


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "version: 1", "budget:\nsamples:\n"])
def test_nothing_said_means_the_defaults(text: str) -> None:
    assert parse_config(text) == RepoConfig()


def test_the_defaults_are_the_pipelines() -> None:
    assert RepoConfig().options() == Options()


def test_every_setting_reaches_the_pipeline() -> None:
    config = parse_config(
        "samples: 3\nminutes: 60\n"
        "budget: {run: 2.5}\ntest: python -m pytest 'a b'\nnever_touch: [vendored/**]\n"
        "exclude: [src/old]\nconfidence: 0.6\nthinking_tokens: 4000\n"
    )
    assert isinstance(config, RepoConfig)
    assert config.options() == Options(
        samples=3,
        minutes=60,
        dollars=2.5,
        test_command=("python", "-m", "pytest", "a b"),
        never_touch=("vendored/**",),
        exclude=("src/old",),
        confidence=0.6,
        thinking_tokens=4000,
    )


def test_a_test_command_may_be_a_list() -> None:
    assert parse_config("test: [pytest, -q]") == RepoConfig(test=("pytest", "-q"))


def test_the_example_names_every_setting_with_its_default() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert parse_config(text) == RepoConfig()
    assert set(yaml.safe_load(text)) == set(RepoConfig.model_fields)


def test_every_setting_is_described_in_the_schema() -> None:
    schema = RepoConfig.model_json_schema()
    assert schema["additionalProperties"] is False
    assert all("description" in field for field in schema["properties"].values())
    assert schema["properties"]["test"]["type"] == ["string", "array"]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        *TEXTS["MISTAKES"],
        ("samples: 1" + ":1" * 400 + ".5", 1, 10, "Not YAML: a value is malformed or too large"),
        ("samples: 1" + ":1" * 20_000, 1, 10, "Not YAML: a value is malformed or too large"),
        ("samples: 0x" + "f" * 5000, 1, 10, "Not YAML: a value is malformed or too large"),
        ("samples: " + "9" * 5000, 1, 10, "Not YAML"),
        ("a: \ud800", 1, 1, "invalid characters"),
        ("[" * 60_000, 1, 21, "Nested too deeply"),
        ("#" * 65_537, 1, 1, "larger than 64 KiB"),
    ],
)
def test_a_mistake_is_reported_with_its_place(
    text: str, line: int, column: int, message: str
) -> None:
    found = parse_config(text)
    assert isinstance(found, ConfigProblem)
    assert (found.line, found.column) == (line, column)
    assert message in found.message


def test_all_mistakes_are_named_keys_that_are_set_twice_too() -> None:
    found = parse_or_list_problems("samples: 3\nbudget:\n  run: 1\n  run: 2\nsamples: 0\nxyz: 1\n")
    assert isinstance(found, list)
    assert [(each.line, each.message) for each in found] == [
        (4, '"run" is set twice.'),
        (5, '"samples" is set twice.'),
        (5, '"samples": Write a whole number from 1 to 100.'),
        (6, 'There is no setting "xyz".'),
    ]


def test_a_list_of_one_may_be_its_item() -> None:
    text = 'never_touch: docs/**\nsetup: pip install .\ntrust: ["@write", alice]\n'
    found = parse_config(text)
    assert isinstance(found, RepoConfig)
    assert (found.never_touch, found.setup) == (("docs/**",), ("pip install .",))
    assert found.trust == ("@write", "alice")


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("".join(f"a{n}: 1\n" for n in range(7_000)), "6,980 more errors"),
        ("labels: [" + "1," * 30_000 + "]", "29,980 more errors"),
    ],
)
def test_a_file_of_mistakes_is_described_in_part(text: str, more: str) -> None:
    found = parse_or_list_problems(text)
    assert isinstance(found, list)
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1].message.startswith(more)
