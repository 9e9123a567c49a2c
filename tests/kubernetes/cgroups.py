"""A folder of our own in each of this machine's control group hierarchies (version 1)."""

import os
import time
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "capuchin-kube-"


class CgroupFolder:
    """Where a kubelet makes the groups of its pods, instead of in `kubepods` at the top."""

    def __init__(self) -> None:
        self.name = f"{PREFIX}{os.getpid()}"

    def create(self) -> None:
        if (ROOT / "cgroup.controllers").exists():
            pytest.fail("this machine has control groups of version 2 only; Kubernetes 1.20 was "
                        "tried on version 1")  # fmt: skip
        for hierarchy in sorted(ROOT.iterdir()):
            if hierarchy.is_symlink() or not hierarchy.is_dir():
                continue
            for left in hierarchy.glob(PREFIX + "*"):
                if not Path("/proc", left.name.removeprefix(PREFIX)).exists():
                    remove_empty(left)  # of tests that were killed
            folder = hierarchy / self.name
            folder.mkdir()
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (folder / setting).exists():
                    (folder / setting).write_text((hierarchy / setting).read_text())

    def remove(self) -> None:
        deadline = time.monotonic() + 60
        for folder in ROOT.glob(f"*/{self.name}"):
            while not remove_empty(folder):
                assert time.monotonic() < deadline, f"{folder} is in use"
                time.sleep(0.1)


def remove_empty(folder: Path) -> bool:
    """Remove a group and those below it; False if a process is in one of them."""
    try:
        for inner, _, _ in os.walk(folder, topdown=False):
            Path(inner).rmdir()
    except OSError:
        return False
    return True
