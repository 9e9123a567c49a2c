"""Executions whose container is opened while they are stopped, or dies."""

from typing import Any

import pytest

from sandbox.execution.cancellation import Stopped
from sandbox.execution.jobs import Job
from sandbox.execution.warm_pool import WarmExecution, WarmPool
from sandbox.execution.warm_worker import WarmContainer, WarmContainerDied
from sandbox.program import Ending, Limits


class NoStream:
    """A container that must be asked nothing."""

    def send(self, data: bytes, *, seconds: float) -> None:
        raise AssertionError(data)

    def read(self, *, deadline: float, stopped: object) -> None:
        raise AssertionError(deadline)


def test_it_never_begins_and_the_container_stays() -> None:
    closed: list[str] = []

    def open_container() -> WarmContainer:
        execution.stop()
        return WarmContainer(NoStream(), remove=lambda: closed.append("closed"))

    pool = WarmPool(open_container)
    job = Job(steps=[("true",)], checkout="/testbed", environment={}, tree="/opt/tree")
    execution = WarmExecution(pool, job, limits=Limits())
    with pytest.raises(Stopped):
        execution.run()
    assert closed == []
    pool.close()
    assert closed == ["closed"]


class MortalContainer(WarmContainer):
    """One that answers until somebody kills it."""

    alive = True

    def run_job(self, *_: Any, **__: Any) -> dict[str, Any]:
        if not self.alive:
            raise WarmContainerDied("It ended.")
        return {"end": Ending.EXIT, "code": 0, "output": "", "seconds": 0, "cpu_seconds": 0,
                "peak_kb": 0}  # fmt: skip


def test_one_that_dies_with_the_idle_ones_is_repeated_in_a_new_container() -> None:
    opened: list[MortalContainer] = []

    def open_container() -> WarmContainer:
        opened.append(MortalContainer(NoStream(), remove=lambda: None))
        return opened[-1]

    pool = WarmPool(open_container)
    for container in [pool.take(()), pool.take(())]:
        pool.give_back(container)
    for container in opened:
        container.alive = False
    job = Job(steps=[("true",)], checkout="/testbed", environment={}, tree="/opt/tree")
    for _ in opened[:]:  # every dead one is met once
        assert WarmExecution(pool, job, limits=Limits()).run().exit_code == 0
    pool.close()
