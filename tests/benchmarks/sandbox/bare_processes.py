"""The limit: the same scripts as bare subprocesses on prepared copies, in the same image.

One container without walls is kept; what is measured, is measured inside it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import docker

from sandbox.layout import LABEL_OWNER, LABEL_RUN

DRIVER = Path(__file__).with_name("bare_driver.py")


class BareProcesses:
    """`with Bare(...) as bare`: a container that runs one script on each copy after another."""

    def __init__(self, daemon: docker.APIClient, image: str) -> None:
        self._daemon = daemon
        made = cast(Any, daemon).create_container(
            image,
            entrypoint=["sleep", "7200"],
            user="0",
            network_disabled=True,
            labels={LABEL_RUN: "bench", LABEL_OWNER: "bench"},
        )
        self._container = str(made["Id"])

    def __enter__(self) -> "BareProcesses":
        self._daemon.start(self._container)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._daemon.remove_container(self._container, force=True, v=True)

    def prepare(self, diffs: Sequence[str]) -> dict[str, float]:
        """`seconds` and `mb` of ten copies, each with its diff."""
        return self._run_driver({"prepare": list(diffs)})

    def matrix(self, tests: Sequence[str], copies: int, parallel: int) -> float:
        """Seconds of every test on the tree and on each copy."""
        job = {"tests": list(tests), "copies": copies, "parallel": parallel}
        return self._run_driver(job)["seconds"]

    def start(self, rounds: int) -> float:
        """Median seconds of a program that does nothing."""
        return self._run_driver({"start": rounds})["seconds"]

    def _run_driver(self, job: dict[str, Any]) -> dict[str, float]:
        argv = ["python3", "-I", "-c", DRIVER.read_text(), json.dumps(job)]
        made = self._daemon.exec_create(self._container, argv)
        output = self._daemon.exec_start(str(made["Id"]))
        assert output.startswith(b"{"), output
        return cast(dict[str, float], json.loads(output))
