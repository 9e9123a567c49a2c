"""How long a program ran that was killed, as its container says."""

import time
from typing import cast

import docker
import pytest

from sandbox.docker import cold_execution
from sandbox.docker.cold_execution import ColdExecution, ColdProtocol
from sandbox.docker.container import Daemon, Runtime
from sandbox.execution.jobs import Job
from sandbox.program import Ending, Execution, Limits

KILLED = {"signal": 9, "limit": "idle", "seconds": 3.0124, "cpu_seconds": 0.04, "oom": 0}


class LateProtocol(ColdProtocol):
    """A busy host reads all that process 1 says only at the end."""

    def run_job(self, *args: object, **options: object) -> None:
        self.ready_at = time.monotonic()
        self.end = dict(KILLED)


class EndedContainer:
    """A client of a daemon that has one container."""

    def wait(self, container: str, **options: object) -> None:
        pass

    def inspect_container(self, container: str) -> dict[str, object]:
        return {"State": {"ExitCode": 137, "OOMKilled": False}}

    def remove_container(self, container: str, **options: object) -> None:
        pass


def name_container(*_: object, **__: object) -> str:
    return "c"


def test_a_host_that_reads_late_takes_no_time_off_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_execution, "ColdProtocol", LateProtocol)
    monkeypatch.setattr(cold_execution, "create_cold_container", name_container)
    run = ColdExecution(
        Daemon(cast(docker.APIClient, EndedContainer()), Runtime(""), {}),
        "image",
        Job(steps=[("true",)], checkout="/testbed", environment={}),
        limits=Limits(),
    ).run()
    assert run == Execution(
        exit_code=None,
        output="",
        seconds=3.012,
        ending=Ending.TIMEOUT,
        limit="idle",
        cpu_seconds=0.04,
    )
