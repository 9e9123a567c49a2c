"""The variables that are read, and their bounds; docs/settings.md shows their defaults.

`expected/environment.json` lists by variable values that make a difference, and values that are
refused. It is edited by hand.
"""

from collections.abc import Iterator, Mapping

import pytest

from bot.settings import Settings, SettingsError
from tests.doors.outside import expected

VARIABLES: Mapping[str, tuple[list[str], list[str]]] = expected("environment")


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


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_has_its_bounds(name: str) -> None:
    unset = Settings.from_env({})
    assert Settings.from_env({name: ""}) == unset
    takes, refuses = VARIABLES[name]
    for value in takes:
        assert Settings.from_env({name: value}) != unset, value
    for value in refuses:
        with pytest.raises(SettingsError, match=f"^{name}: "):
            Settings.from_env({name: value})
