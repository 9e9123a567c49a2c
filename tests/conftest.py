"""Fixtures that every folder may use."""

from typing import Any

import pytest

from tests.support.parallel import FileScheduling

# Their assertions, too, say what they saw.
pytest.register_assert_rewrite("tests.e2e", "tests.machines")

pytest_plugins = (
    "tests.support.redis",
    "tests.support.hub",
    "tests.support.server_settings",
    "tests.support.durations",
    "tests.support.no_paid_services",
    "tests.support.loop_watch",
    "tests.support.trainer",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sequences", "generated sequences of webhooks (tests/e2e/sequences)")
    group.addoption("--sequences", type=int, default=100, help="how many are played")
    group.addoption("--sequences-from", type=int, default=0, help="the seed of the first")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    return FileScheduling(config, log)
