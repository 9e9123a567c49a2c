"""The variables that are read, with their defaults and bounds.

`expected/environment.json` holds of each its default, values that it takes and makes a difference
of, and values that it refuses. It is edited by hand; nothing makes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypedDict

import pytest

from bot.settings import Settings, SettingsError
from tests.doors.outside import ROOT, expected


class Variable(TypedDict):
    """One of the file's."""

    default: str
    takes: list[str]
    refuses: list[str]


VARIABLES: Mapping[str, Variable] = expected("environment")


class Asked(Mapping[str, str]):
    """An environment that holds nothing and keeps what it was asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_these_variables_are_read_and_no_others() -> None:
    asked = Asked()
    Settings.from_env(asked)
    assert sorted(asked.names) == sorted(VARIABLES)


def test_the_settings_page_names_them_with_their_defaults() -> None:
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    row = r"(?m)^\| `((?:CAPUCHIN|ANTHROPIC|OTEL)_\w+)` \| (?:`([^`]+)`)? *\|"
    assert dict(re.findall(row, text)) == {k: v["default"] for k, v in VARIABLES.items()}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_has_its_default_and_its_bounds(name: str) -> None:
    unset = Settings.from_env({})
    assert Settings.from_env({name: VARIABLES[name]["default"]}) == unset
    assert Settings.from_env({name: ""}) == unset
    for value in VARIABLES[name]["takes"]:
        assert Settings.from_env({name: value}) != unset, value
    for value in VARIABLES[name]["refuses"]:
        with pytest.raises(SettingsError, match=f"^{name}: "):
            Settings.from_env({name: value})
