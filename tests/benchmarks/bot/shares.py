"""Shares of the processors as `deploy/compose.yaml` gives them."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, cast

import yaml

COMPOSE: Final = Path(__file__).resolve().parents[3] / "deploy/compose.yaml"
DEFAULT: Final = 1024
PARENTS: Final = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/system.slice"))
"""Of cgroup 1, and where systemd puts services and Docker's containers side by side."""


def read_shares(service: str) -> int:
    """`cpu_shares` of a service in compose.yaml."""
    found = yaml.safe_load(COMPOSE.read_text())
    return cast(int, found["services"][service].get("cpu_shares", DEFAULT))


@contextmanager
def group_of_processes(name: str, shares: int) -> Generator[Path | None]:
    """A control group beside that of the Docker daemon; None where it cannot be made.

    Its file `cgroup.procs` takes the numbers of processes, which end before the block does.
    """
    parent = next((each for each in PARENTS if each.is_dir()), None)
    folder = parent / name if parent else None
    try:
        if folder is None:
            raise FileNotFoundError
        folder.mkdir()
        old = folder / "cpu.shares"
        if old.exists():
            old.write_text(str(shares))
        else:  # https://github.com/opencontainers/cgroups, ConvertCPUSharesToCgroupV2Value
            (folder / "cpu.weight").write_text(str(1 + (shares - 2) * 9999 // 262142))
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(50):
        with suppress(OSError):  # a process in it has not quite ended
            folder.rmdir()
            return
        time.sleep(0.1)
