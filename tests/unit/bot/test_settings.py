"""The environment: removed variables, and the table of the variables that remain."""

from __future__ import annotations

import pytest

from bot.runner.sandbox import pod_options
from bot.settings import REMOVED, Settings, SettingsError, variable_fields, variable_name


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_variable_stops_the_start_with_a_sentence_about_what_to_do(name: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} was removed: .{{20,}}\\.$"):
        Settings.from_env({name: "1"})
    assert Settings.from_env({name: ""}) == Settings()


def test_no_removed_variable_is_read() -> None:
    assert REMOVED.keys().isdisjoint(variable_name(name) for name in variable_fields())


def test_no_variable_sets_an_interval() -> None:
    assert Settings.from_env({"CAPUCHIN_TIMINGS": '{"sweep_seconds": 1}'}) == Settings()


@pytest.mark.parametrize(("runtime", "runtime_class"), [("auto", ""), ("gvisor", "gvisor")])
def test_the_runtime_of_the_sandbox_is_the_runtime_class_of_pods(
    runtime: str, runtime_class: str
) -> None:
    settings = Settings.from_env({"CAPUCHIN_SANDBOX_RUNTIME": runtime})
    assert pod_options(settings).runtime_class == runtime_class
