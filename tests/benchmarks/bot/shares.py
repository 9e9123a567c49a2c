"""Shares of the processors beside Docker's containers, as `deploy/compose.yaml` gives them."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, cast

from ruamel.yaml import YAML

COMPOSE: Final = Path(__file__).resolve().parents[3] / "deploy/compose.yaml"
DEFAULT: Final = 1024
PARENTS: Final = tuple(
    Path("/sys/fs/cgroup") / name for name in ("cpu/docker", "docker", "system.slice")
)
"""Where Docker puts containers: cgroup 1, cgroup 2, and cgroup 2 under systemd."""


def read_shares(service: str) -> int:
    """`cpu_shares` of a service in compose.yaml."""
    found = YAML(typ="safe", pure=True).load(COMPOSE.read_text())
    return cast(int, found["services"][service].get("cpu_shares", DEFAULT))


@contextmanager
def group_of_processes(name: str, shares: int) -> Generator[Path | None]:
    """A control group beside the containers; None where it cannot be made.

    Its file `cgroup.procs` takes the numbers of processes; they go back to the root in the end.
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
        for process in (folder / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (folder.parents[1] / "cgroup.procs").write_text(process)
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.1)
