"""How pytest-xdist shares the suite between processes: whole files, long ones first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

GROUPS: Final[Mapping[str, str]] = {
    # They delete or count the sandbox images of this machine's Docker daemon.
    "tests/e2e/cli/test_doctor.py": "images",
    "tests/e2e/cli/test_doctor_clean.py": "images",
    "tests/e2e/solve/test_python_versions.py": "images",
    "tests/e2e/worker/test_image_cleanup.py": "images",
    "tests/contracts/sandbox/test_base_image.py": "images",
    "tests/contracts/sandbox/test_images.py": "images",
    # Each starts a Docker daemon of its own.
    "tests/e2e/failures/test_docker.py": "own daemon",
    "tests/contracts/sandbox/test_gvisor.py": "own daemon",
    # They read the same syntax trees, which a process parses once.
    "tests/unit/test_house.py": "sources",
    "tests/unit/sandbox/test_frozen.py": "sources",
    "tests/unit/bot/test_bootstrap_is_the_only_wiring.py": "sources",
}
"""Files that follow one another in one process, and the name of their group."""
SLOW_FIRST: Final = (
    "tests/e2e/cli/",
    "tests/e2e/",
    "tests/contracts/",
    "tests/soak/",
    "tests/safety/",
    "tests/machines/",
)
"""The short files of unit tests come last, so that both processes end at about the same time."""


class FileScheduling(LoadScopeScheduling):
    """Gives a process one file, or one of `GROUPS`, at a time."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # keeps the order of `order_by_duration`
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        return GROUPS.get(path, path)


def order_by_duration(items: list[pytest.Item]) -> None:
    """Put files of slow folders first; the order within a file stays."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    ranks = (n for n, folder in enumerate(SLOW_FIRST) if nodeid.startswith(folder))
    return next(ranks, len(SLOW_FIRST))
