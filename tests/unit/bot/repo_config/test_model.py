"""The repository's settings file: defaults, every kind of mistake and where it is said to be."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bot.repo_config.model import ConfigProblem, RepoConfig, parse_config
from pipeline.options import Options

EXAMPLE = Path(__file__).parents[4] / "capuchin.example.yml"


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "version: 1", "budget:\nsamples:\n"])
def test_nothing_said_means_the_defaults(text: str) -> None:
    assert parse_config(text) == RepoConfig()


def test_the_defaults_are_the_pipelines() -> None:
    assert RepoConfig().options() == Options()


def test_every_setting_reaches_the_pipeline() -> None:
    config = parse_config(
        "samples: 3\nattempts: 4\ncontext_tokens: 9000\nexecution_seconds: 5\nsuite_seconds: 60\n"
        "budget: {run: 2.5}\ntest: python -m pytest 'a b'\nnever_touch: [vendored/**]\n"
        "allow_lock_files: true\nnearby_seconds: 7\n"
        "include: [src/**]\nexclude: [src/old]\nadaptive: false\n"
        "selection: machine\nconfidence: 0.6\nbatch: true\nthinking_tokens: 4000\n"
    )
    assert isinstance(config, RepoConfig)
    assert config.options() == Options(
        samples=3,
        attempts=4,
        context_tokens=9000,
        execution_seconds=5,
        suite_seconds=60,
        dollars=2.5,
        test_command=("python", "-m", "pytest", "a b"),
        never_touch=("vendored/**",),
        allow_lock_files=True,
        include=("src/**",),
        exclude=("src/old",),
        adaptive=False,
        selection="machine",
        confidence=0.6,
        nearby_seconds=7,
        batch=True,
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
    assert {"type": "string"} in schema["properties"]["test"]["anyOf"]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("version: 1\nsampels: 3", 2, 1, 'no setting "sampels". Did you mean "samples"?'),
        ("budget:\n  rum: 3", 2, 3, 'no setting "budget.rum". Did you mean "run"?'),
        ("xyz: 1", 1, 1, 'There is no setting "xyz".'),
        ("1: 2", 1, 1, 'There is no setting "1".'),
        ("samples: 0", 1, 10, "greater than or equal to 1"),
        ("samples: true", 1, 10, "valid integer"),
        ("samples: '3'", 1, 10, "valid integer"),
        ("samples: .nan", 1, 10, "valid integer"),
        ("execution_seconds: .inf", 1, 20, "less than or equal to 3600"),
        ("samples: 2020-01-01", 1, 10, "valid integer"),
        ("enabled: 1", 1, 10, "valid boolean"),
        ("selection: best", 1, 12, "Input should be 'evidence', 'voting' or 'machine'"),
        ("selection: exec", 1, 12, 'by "capuchin fix --selection exec". Write evidence, voting'),
        ("confidence: 60", 1, 13, "less than or equal to 1"),
        ("stale_days: -1", 1, 13, "greater than or equal to 0"),
        ("version: 2", 1, 10, "Input should be 1"),
        ("budget: 3", 1, 9, "should be a mapping"),
        ("quota:\n  persn: 3", 2, 3, 'no setting "quota.persn". Did you mean "person"?'),
        ("samples: 3\nagreement: 2", 2, 1, '"agreement" was removed: it has one good value'),
        ("prefilter:\n  keep: 3", 1, 1, '"prefilter" was removed: it is automatic now.'),
        ("untrusted_comments: keep", 1, 21, "'drop' or 'mark'"),
        ("setup: pip install", 1, 8, "should be a list"),
        ('test: "pytest \'a"', 1, 7, "quotes are not closed"),
        ("never_touch:\n - a\n - 1", 3, 4, '"never_touch.1": Input should be a valid string'),
        ("samples: 2\nsamples: 3", 2, 1, '"samples" is set twice'),
        ("samples: 0\nxyz: 1", 1, 10, "greater than or equal"),
        ("[1]", 1, 1, "must be a mapping"),
        ("a: b: c", 1, 5, "Not YAML"),
        ("a\n---\nb", 2, 1, "Not YAML"),
        ("? [a]\n: b", 1, 3, "A key must be a word, no list or mapping"),
        ("samples: !!bool maybe", 1, 1, "Not YAML: a value is malformed"),
        ('samples: !!int ""', 1, 1, "Not YAML: a value is malformed"),
        ("samples: !!timestamp x", 1, 10, "Not YAML: failed to construct timestamp"),
        ("samples: 0x" + "f" * 5000, 1, 1, "Not YAML: a value is malformed or too large"),
        ("samples: 1e3", 1, 10, "valid integer"),
        ("<<: {samples: 0}", 1, 15, "greater than or equal to 1"),
        ("<<: {<<: {samples: 1, sampels: 2}}", 1, 23, 'no setting "sampels"'),
        ("2020-01-01: 3", 1, 1, "must be a mapping"),
        ("x: 2020-99-99", 1, 1, "Not YAML"),
        ("samples: " + "9" * 5000, 1, 1, "Not YAML"),
        ("a\x00b", 1, 1, "Not YAML"),
        ('test: "\\ud800"', 1, 1, "invalid characters"),
        ("!!python/object/apply:os.system [id]", 1, 1, "Not YAML"),
        ("a: &x [1]\nb: *x", 1, 4, "Anchors and aliases are not read here"),
        ("[" * 5000, 1, 21, "Nested too deeply"),
        ("#" * 65_537, 1, 1, "larger than 64 KiB"),
    ],
)
def test_a_mistake_is_said_with_its_place(text: str, line: int, column: int, message: str) -> None:
    found = parse_config(text)
    assert isinstance(found, ConfigProblem)
    assert (found.line, found.column) == (line, column)
    assert message in found.message
