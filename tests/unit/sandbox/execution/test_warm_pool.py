"""An execution that is stopped while its container is opened."""

from __future__ import annotations

import pytest

from sandbox.execution.cancellation import Stopped
from sandbox.execution.job import Job
from sandbox.execution.warm_pool import WarmExecution, WarmPool
from sandbox.execution.warm_worker import WarmContainer
from sandbox.limits import Limits


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

    pool = WarmPool("image", labels={}, open_container=open_container)
    job = Job(steps=[("true",)], checkout="/testbed", environment={}, tree="/opt/tree")
    execution = WarmExecution(pool, job, limits=Limits())
    with pytest.raises(Stopped):
        execution.run()
    assert closed == []
    pool.close()
    assert closed == ["closed"]
