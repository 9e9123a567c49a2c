"""What a worker measures of itself."""

import logging
import time

import pytest

from bot.telemetry.log import log_calls
from bot.telemetry.measurements import METRICS, GitHubRate, measure
from sandbox.observation import Kind, add_observer, observe, remove_observer


def test_the_rate_is_the_lowest_of_any_installation_until_its_hour_ends() -> None:
    rate, soon = GitHubRate(), str(int(time.time()) + 600)
    for remaining in ("4000", "120", "3990", "x", "9" * 40):
        rate.note({"x-ratelimit-remaining": remaining, "x-ratelimit-reset": soon})
    assert rate.remaining == 120
    late = GitHubRate()
    late.note({"x-ratelimit-remaining": "3", "x-ratelimit-reset": "1000"})
    assert late.remaining is None


def test_a_call_is_in_the_debug_log_alone_with_the_class_of_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "bot.telemetry")
    add_observer("log", log_calls)
    add_observer("metrics", measure)
    try:
        with (
            pytest.raises(TimeoutError),
            observe(Kind.MODEL_CALL, model="claude", call="samples/1"),
        ):
            raise TimeoutError("with words of a stranger")
    finally:
        remove_observer("log")
        remove_observer("metrics")
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.getMessage().startswith(
        "model call: model=claude call=samples/1 error=TimeoutError seconds="
    )
    failed = {"model": "claude", "error": "TimeoutError"}
    assert METRICS.get_sample_value("capuchin_model_call_duration_seconds_count", failed) == 1
