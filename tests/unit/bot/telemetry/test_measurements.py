"""Histograms that all workers add to."""

from __future__ import annotations

import logging
import time

import pytest
from redis.asyncio import Redis

from bot.data.run import Lane
from bot.server.metrics import Room, render_metrics
from bot.storage.history import Totals
from bot.storage.storage import Storage
from bot.storage.workers import WorkerState
from bot.telemetry.log import log_calls
from bot.telemetry.measurements import (
    DISK_FREE,
    DISK_SIZE,
    GITHUB_REMAINING,
    MODEL_CALL,
    RECORDER,
    GitHubRate,
    Recorder,
)
from sandbox.observation import Kind, add_observer, observe, remove_observer


async def test_the_samples_of_all_workers_are_added_and_the_scarcest_is_shown(
    redis: Redis, redis_prefix: str
) -> None:
    storage = Storage(redis, redis_prefix)
    first, second = Recorder(), Recorder()
    first.add(MODEL_CALL, 0.2, "claude", "")
    first.add(MODEL_CALL, 700, "claude", "")
    second.add(MODEL_CALL, 0.2, "claude", "")
    taken = second.take()
    second.give_back(taken)  # Redis did not answer
    gauges = {DISK_SIZE: 100.0, GITHUB_REMAINING: 12.0}
    for name, recorder, free in (("a", first, 50.0), ("b", second, 5.0)):
        await storage.workers.save_heartbeat(WorkerState(name=name, slots={Lane.ISSUES: 1}))
        measured = {**gauges, DISK_FREE: free}
        await storage.workers.save_measurements(name, measured, recorder.take())
    living = await storage.workers.list_living()
    measurements = await storage.workers.load_measurements(worker.name for worker in living)
    totals: Totals = await storage.run_queries.load_totals()
    page = render_metrics(totals, living, measurements, {}, Room())
    for bound, count in (("0.1", 0), ("0.25", 2), ("600", 2), ("+Inf", 3)):
        assert count_of(page, bound) == count
    assert "capuchin_disk_free_bytes 5\n" in page
    assert "capuchin_disk_free_ratio 0.05\n" in page
    assert "capuchin_github_remaining 12\n" in page


def count_of(page: str, bound: str) -> int:
    (line,) = (
        line
        for line in page.splitlines()
        if line.startswith("capuchin_model_call_duration_seconds_bucket{")
        and f'le="{bound}"' in line
    )
    return int(line.rpartition(" ")[2])


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
    RECORDER.take()
    add_observer("log", log_calls)
    add_observer("metrics", RECORDER.observe)
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
    assert any("TimeoutError" in name for name in RECORDER.take())
