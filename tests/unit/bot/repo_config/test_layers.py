"""The organisation's settings under the repository's, and how people learn what they are."""

from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from bot.comments.settings_file import render_config, render_config_lines
from bot.repo_config.model import (
    EffectiveConfig,
    LayerProblem,
    RepoConfig,
    json_schema,
    list_settings,
    merge_layers,
    parse_config,
)
from tests.support.snapshots import assert_snapshot
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

ROOT = Path(__file__).parents[4]
SCHEMA_FILE = "capuchin.schema.json"
OURS = ".github/capuchin.yml"
THEIRS = "acme/.github: .github/capuchin.yml"


def merge(organisation: str, repository: str) -> EffectiveConfig | LayerProblem:
    return merge_layers([(THEIRS, parse_config(organisation)), (OURS, parse_config(repository))])


def of(organisation: str, repository: str) -> EffectiveConfig:
    found = merge(organisation, repository)
    assert isinstance(found, EffectiveConfig)
    return found


def test_without_a_file_every_value_is_a_default() -> None:
    found = merge_layers([])
    assert isinstance(found, EffectiveConfig)
    assert found.config == RepoConfig()
    assert {one.source for one in list_settings(found)} == {"default"}


def test_the_repository_goes_before_its_organisation_key_by_key() -> None:
    found = of("samples: 3\nminutes: 2\nnever_touch: [a, b]", "samples: 4\nnever_touch: [c]")
    assert (found.config.samples, found.config.minutes) == (4, 2)
    assert found.config.never_touch == ("c",)
    sources = {one.key: one.source for one in list_settings(found)}
    assert (sources["samples"], sources["minutes"], sources["draft"]) == (OURS, THEIRS, "default")


def test_a_default_that_a_repository_states_goes_before_its_organisation() -> None:
    found = of("enabled: false\nbudget: {run: 3}", "enabled: true\nbudget: {run: 10}")
    assert found.config == RepoConfig()
    assert dict(found.origins) == {"enabled": OURS, "budget.run": OURS}


def test_an_empty_mapping_takes_nothing_away() -> None:
    assert of("budget: {run: 3}", "budget: {}").config.budget.run == 3


@pytest.mark.parametrize(("texts", "source"), [(("x: 1", ""), THEIRS), (("", "x: 1"), OURS)])
def test_a_mistake_is_reported_with_its_file(texts: tuple[str, str], source: str) -> None:
    found = merge(*texts)
    assert isinstance(found, LayerProblem)
    assert found.source == source
    assert found.problem.message == 'There is no setting "x".'


def test_every_key_is_explained_on_one_line() -> None:
    lines = render_config_lines(of("samples: 3", "budget: {run: 2.5}")).splitlines()
    assert len(lines) == len(list_settings(of("", "")))
    assert [line.split() for line in lines if line.startswith(("samples", "budget.run"))] == [
        ["samples", "3", "#", "acme/.github:", ".github/capuchin.yml"],
        ["budget.run", "2.5", "#", ".github/capuchin.yml"],
    ]


def test_the_comment_tells_what_files_set_first() -> None:
    said = render_config(of("samples: 3", "never_touch: ['`@all`', '<b>|x']"))
    assert_snapshot("config_comment", said)


def test_the_comment_without_a_file_tells_where_one_would_be() -> None:
    said = render_config(of("", ""))
    assert said.startswith("No settings file was found. I look for `.github/capuchin.yml`")
    assert "- `samples`: `10`\n" in said


@pytest.mark.parametrize(("text", "valid"), TEXTS["CHECKED"])
def test_the_schema_says_of_a_file_what_the_check_says(text: str, valid: bool) -> None:
    checker = jsonschema_rs.validator_for(json_schema())
    assert checker.is_valid(yaml.safe_load(text)) is valid
    assert isinstance(merge_layers([(OURS, parse_config(text))]), EffectiveConfig) is valid


def test_the_example_is_checked_by_the_schema_in_an_editor() -> None:
    example = (ROOT / "capuchin.example.yml").read_text(encoding="utf-8")
    assert example.splitlines()[0].endswith(f"/{SCHEMA_FILE}")
    assert jsonschema_rs.validator_for(json_schema()).is_valid(yaml.safe_load(example))
