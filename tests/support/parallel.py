"""How pytest-xdist shares the suite between processes: whole files, long ones first."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

GROUPS: Final[Mapping[str, str]] = {
    # They delete or count the sandbox images of this machine's Docker daemon.
    "tests/e2e/cli/test_doctor.py": "images",
    "tests/e2e/solve/test_python_versions.py": "images",
    "tests/e2e/worker/test_image_cleanup.py": "images",
    "tests/contracts/sandbox/test_images.py": "images",
    # Each starts a Docker daemon of its own.
    "tests/e2e/failures/test_docker.py": "own daemon",
    "tests/contracts/sandbox/test_gvisor.py": "own daemon",
}
"""Files that follow one another in one process, and the name of their group."""
INTERRUPTED: Final = 2
"""The exit status of a process that somebody interrupted; xdist treats it as one that crashed."""


class FileScheduling(LoadScopeScheduling):
    """Gives a process one file, or one of `GROUPS`, at a time."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # keeps the order of `tests.support.durations`
        super().__init__(config, log)

    def remove_node(self, node: WorkerController) -> str | None:
        """Give what `node` has left to the others; return the test in which it crashed, if it did.

        That test has failed, and is not run again: it would take the next process with it. One that
        ended in order with tests left (its connection broke, or somebody told it to go) has not
        crashed, and xdist would call that a defect of its own.

        Raises:
            RuntimeError: nobody is there to run the rest.
        """
        units = self.assigned_work.pop(node)
        left = [test for unit in units.values() for test, done in unit.items() if not done]
        if not left:
            return None
        ended = hasattr(node, "workeroutput") and node.workeroutput["exitstatus"] != INTERRUPTED
        if not ended:
            units[self._split_scope(left[0])][left[0]] = True
        elif all(other.shutting_down for other in self.nodes):
            raise RuntimeError(f"The process {node.gateway.id} ended before it ran {left[0]}.")
        self.workqueue.update(
            {name: unit for name, unit in units.items() if not all(unit.values())}
        )
        for other in self.nodes:
            self._reschedule(other)
        return None if ended else left[0]

    def _reschedule(self, node: WorkerController) -> None:
        """Give `node` files until it has three tests, or there are none.

        It begins a test when it knows the next: one that replaces a crashed process and gets a file
        of one test would wait for ever.
        """
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._needs_more(node):
            self._assign_work_unit(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """As before; a process that has just crashed cannot be told, and `remove_node` follows."""
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _needs_more(self, node: WorkerController) -> bool:
        return self._pending_of(self.assigned_work[node]) <= 2

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        return GROUPS.get(path, path)
