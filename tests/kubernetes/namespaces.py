"""Processes that take with them what they made on this machine: mounts, pods and their networks."""

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.kubernetes.cgroups import CgroupFolder
from tests.support.texts import texts_of

KERNEL_SETTINGS: Final = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",
)
"""What kubelets and network plugins set for the whole machine; here they write to files instead."""
TEXTS = texts_of(__file__)
PREPARE: str = TEXTS["PREPARE"]


class Namespaces:
    """`with Namespaces(folder) as inside`: processes with mounts and process ids of their own.

    When the block or the process that opened it ends, the kernel kills them all.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cgroups = CgroupFolder()
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Namespaces":
        self.cgroups.create()
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        prepare = ["sh", "-c", PREPARE, str(self.folder), *KERNEL_SETTINGS]
        pipe = subprocess.PIPE
        self._first = subprocess.Popen([*unshare, *prepare], stdin=pipe, stdout=pipe)
        assert self._first.stdout is not None
        assert self._first.stdout.readline() == b"ready\n"
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        self._inside = children.read_text().strip()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._first.stdin is not None
        assert self._first.stdout is not None
        self._first.stdin.close()
        self._first.wait()
        self._first.stdout.close()
        for process in self._started.values():
            process.wait()
        self.cgroups.remove()
        for left in ("var", "sys"):
            shutil.rmtree(self.folder / left)

    def start(self, name: str, argv: Sequence[str | Path]) -> None:
        """Start a program that stays; `log` has its output."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(self._enter(argv), stdout=log, stderr=log)

    def run(self, argv: Sequence[str | Path]) -> str:
        """What a program prints that ends by itself; its failure is the test's."""
        done = subprocess.run(
            self._enter(argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert done.returncode == 0, f"{argv}: {done.stdout}"
        return done.stdout

    def log(self, name: str) -> str:
        """The end of what a started program printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def assert_alive(self, name: str) -> None:
        assert self._started[name].poll() is None, f"{name} ended: {self.log(name)}"

    def wait_until(self, name: str, ready: Sequence[str | Path], seconds: float = 120) -> None:
        """Wait until the program `ready` succeeds; `name` is the one that must live for it."""
        deadline = time.monotonic() + seconds
        while subprocess.run(
            self._enter(ready), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode:
            self.assert_alive(name)
            assert time.monotonic() < deadline, f"{name} is not ready: {self.log(name)}"
            time.sleep(0.1)

    def _enter(self, argv: Sequence[str | Path]) -> list[str]:
        enter = ["nsenter", f"--target={self._inside}", "--mount", "--pid", "--"]
        return [*enter, *map(str, argv)]
