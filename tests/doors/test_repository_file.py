"""`.github/capuchin.yml`: where it is, its keys, its mistakes; capuchin.schema.json has more."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doors.outside import ROOT, assert_expected, quoted
from tests.support.command_line import here


def keys_of(schema: dict[str, Any], above: str = "") -> list[str]:
    """The keys that an object may have, in dots, without those that are only explained."""
    found: list[str] = []
    for name, each in schema.get("properties", {}).items():
        if not each.get("doNotSuggest"):
            found += [above + name, *keys_of(each.get("items", each), f"{above}{name}.")]
    return found


def test_these_keys_can_be_set_and_the_published_schema_is_current() -> None:
    ended = here("config", "schema")
    assert ended.code == 0
    assert_expected("repository_file", sorted(keys_of(ended.json)))
    assert ended.json == json.loads((ROOT / "capuchin.schema.json").read_text(encoding="utf-8"))


def test_the_defaults_are_in_force_without_a_file(tmp_path: Path) -> None:
    shown = here("config", "show", "--json", cwd=tmp_path)
    assert shown.code == 0
    assert yaml.safe_load(here("config", "show", cwd=tmp_path).out) == shown.json
    assert here("config", "show", "--json", str(ROOT / "capuchin.example.yml")).json == shown.json


def test_it_is_found_in_the_first_of_two_places(tmp_path: Path) -> None:
    def samples() -> int:
        return here("config", "show", "--json", cwd=tmp_path).json["samples"]

    (tmp_path / ".capuchin.yml").write_text("samples: 2\n")
    assert samples() == 2
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/capuchin.yml").write_text("samples: 3\n")
    assert samples() == 3


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("version: 1\nsampels: 3", 2, 1, ["sampels", "samples"]),
        ("budget:\n  rum: 3", 2, 3, ["budget.rum", "run"]),
        ("attempts: 3", 1, 1, ["attempts", "capuchin fix --set KEY=VALUE"]),
        ("xyz: 1", 1, 1, ["xyz"]),
        ("samples: 0", 1, 10, ["samples"]),
        ("enabled: 1", 1, 10, ["enabled"]),
        ("version: 2", 1, 10, ["version"]),
        ("samples: 2\nsamples: 3", 2, 1, ["samples"]),
        ("never_touch:\n - a\n - 1", 3, 4, ["never_touch.1"]),
        ("[1]", 1, 1, []),
        ("a: b: c", 1, 5, []),
        ("a: &x [1]\nb: *x", 1, 4, []),
    ],
)
def test_a_mistake_has_its_place_and_names_what_was_meant(
    tmp_path: Path, text: str, line: int, column: int, words: list[str]
) -> None:
    (tmp_path / "wrong.yml").write_text(text, encoding="utf-8")
    ended = here("config", "check", "--json", "wrong.yml", cwd=tmp_path)
    problem = ended.json["problem"]
    assert (ended.code, ended.json["file"], ended.json["valid"]) == (1, "wrong.yml", False)
    assert (problem["line"], problem["column"]) == (line, column)
    assert quoted(problem["message"]) == words
    assert ended.err == f"wrong.yml:{line}:{column}: {problem['message']}\n"


def test_a_file_of_the_organisation_gives_what_the_repositorys_does_not(tmp_path: Path) -> None:
    (tmp_path / "ours.yml").write_text("samples: 2\nbudget:\n  run: 3\n")
    (tmp_path / "theirs.yml").write_text("samples: 4\nminutes: 5\nbudget:\n  day: 6\n")
    words = ("config", "show", "--defaults", "theirs.yml", "ours.yml", "--json")
    found = here(*words, cwd=tmp_path).json
    assert (found["samples"], found["minutes"]) == (2, 5)
    assert found["budget"] == {"run": 3.0, "day": 6.0}
    rows = here(*words, "--explain", cwd=tmp_path).json
    assert [row for row in rows if row["from"] == "theirs.yml"] == [
        {"key": "minutes", "value": 5, "from": "theirs.yml"},
        {"key": "budget.day", "value": 6.0, "from": "theirs.yml"},
    ]
