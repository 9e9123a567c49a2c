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
        ("version: 1\nsampels: 3", 2, 1, 'no setting "sampels". Did you mean "samples"?'),
        ("budget:\n  rum: 3", 2, 3, 'no setting "budget.rum". Did you mean "run"?'),
        ("xyz: 1", 1, 1, 'There is no setting "xyz".'),
        ("1: 2", 1, 1, 'There is no setting "1".'),
        ("samples: 0", 1, 10, '"samples": Write a whole number from 1 to 100.'),
        ("samples: true", 1, 10, "Write a whole number from 1 to 100."),
        ("samples: '3'", 1, 10, "Write a whole number from 1 to 100, without quotes."),
        ("samples: .nan", 1, 10, "Write a whole number"),
        ("budget: {run: .inf}", 1, 15, "Write a number above 0 and up to 1,000."),
        ("commits: [sign-off, signoff]", 1, 21, "Write sign-off, co-author, a prefix of titles"),
        ("samples: 2020-01-01", 1, 10, "Write a whole number"),
        ("enabled: 1", 1, 10, '"enabled": Write true or false.'),
        ("enabled: 'yes'", 1, 10, "Write true or false, without quotes."),
        ("unproven: always", 1, 11, "Write draft or never."),
        ("version: 1\nadaptive: false", 2, 1, '"adaptive" no longer exists.'),
        ("python: 3.10", 1, 9, "YAML reads this as the number 3.1. Put it in quotes."),
        ("draft: until-green", 1, 8, "Write true, false, until_green, or a list"),
        ("run: 5", 1, 1, '"run" belongs below "budget", indented.'),
        ("budget:\n  samples: 3", 2, 3, '"samples" does not belong below "budget"'),
        ("generators: [{machin: fixed}]", 1, 15, 'machin". Did you mean "machine"?'),
        ("budget:\n\trun: 3", 2, 1, "indent with spaces, not tabs"),
        ("samples: 1\n\tminutes: 2", 2, 1, "a tab cannot indent a line. Use spaces."),
        ("samples: 1\n  minutes: 2", 2, 10, "Indent it like its neighbours"),
        ("samples:3", 1, 1, "with a space after the colon"),
        ("test: [pytest", 1, 7, "this bracket is not closed"),
        ("test: 'pytest", 1, 7, "this quote is not closed"),
        ('trust: ["@acme/core"]', 1, 9, "Write write, triage, a login"),
        ("confidence: 60", 1, 13, "Write a number from 0 to 1."),
        ("minutes: -1", 1, 10, "Write a number from 0 to 10,080."),
        ("version: 2", 1, 10, "Write 1."),
        ("budget: 3", 1, 9, 'on lines of their own, indented: "run" and "day".'),
        ("root: ../x", 1, 7, "Write a folder of the repository, such as backend."),
        ("root: /srv", 1, 7, "Write a folder of the repository, such as backend."),
        ("env: {TZ: 1}", 1, 11, "YAML reads this as the number 1. Put it in quotes."),
        ("env: {A-B: x}", 1, 12, "Write at most 50 variables, each a name and a text"),
        ("env: TZ=UTC", 1, 6, "Write at most 50 variables, each a name and a text"),
        ("build: 3", 1, 8, "Write a text or a list of texts."),
        ("setup: 3", 1, 8, "Write a text or a list of texts."),
        ('test: "pytest \'a"', 1, 7, "A quote in this line is not closed."),
        ("never_touch:\n - a\n - 1", 3, 4, '"never_touch.1": YAML reads this as the number 1'),
        ("samples: 2\nsamples: 3", 2, 1, '"samples" is set twice'),
        ("samples: 0\nxyz: 1", 1, 10, "Write a whole number"),
        ("[1]", 1, 1, "must be a mapping"),
        ("a: b: c", 1, 5, "Not YAML"),
        ("a\n---\nb", 2, 1, "Not YAML"),
        ("? [a]\n: b", 1, 3, "A key must be a word, no list or mapping"),
        ("samples: !!bool maybe", 1, 10, "Tags such as !!str are not read here"),
        ("labels: !!omap [a: 1, a: 1]", 1, 9, "Tags such as !!str are not read here"),
        ("samples: 0x_", 1, 10, "Not YAML: a value is malformed"),
        ("samples: 1" + ":1" * 400 + ".5", 1, 10, "Not YAML: a value is malformed or too large"),
        ("samples: 1" + ":1" * 20_000, 1, 10, "Not YAML: a value is malformed or too large"),
        ('a: 1\nb: "\\UFFFFFFFF"', 2, 7, "Not YAML: found invalid Unicode"),
        ("samples: 0x" + "f" * 5000, 1, 10, "Not YAML: a value is malformed or too large"),
        ("samples: 1e3", 1, 10, "Write a whole number"),
        ("<<: {samples: 0}", 1, 15, "Write a whole number"),
        ("<<: {<<: {samples: 1, sampels: 2}}", 1, 23, 'no setting "sampels"'),
        ("2020-01-01: 3", 1, 1, "must be a mapping"),
        ("x: 2020-99-99", 1, 4, "Not YAML"),
        ("samples: " + "9" * 5000, 1, 10, "Not YAML"),
        ("a\x00b", 1, 1, "Not YAML"),
        ('test: "\\ud800"', 1, 10, "Not YAML: found invalid Unicode"),
        ("a: \ud800", 1, 1, "invalid characters"),
        ("!!python/object/apply:os.system [id]", 1, 1, "Tags such as !!str are not read here"),
        ("a: &x [1]\nb: *x", 1, 4, "Anchors and aliases are not read here"),
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
