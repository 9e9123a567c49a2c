"""What the environment sets, and what it does not."""

from __future__ import annotations

import pytest

from bot.runner.sandbox import pod_options
from bot.settings import Settings


def test_no_variable_sets_an_interval() -> None:
    assert Settings.from_env({"CAPUCHIN_TIMINGS": '{"sweep_seconds": 1}'}) == Settings()


@pytest.mark.parametrize(("runtime", "runtime_class"), [("auto", ""), ("gvisor", "gvisor")])
def test_the_runtime_of_the_sandbox_is_the_runtime_class_of_pods(
    runtime: str, runtime_class: str
) -> None:
    settings = Settings.from_env({"CAPUCHIN_SANDBOX_RUNTIME": runtime})
    assert pod_options(settings).runtime_class == runtime_class
