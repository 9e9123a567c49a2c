"""What a sandbox can do, and how the code that ran in it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from sandbox.frozen import Frozen


class SandboxError(Exception):
    """The sandbox itself failed; this says nothing about the code that ran in it.

    SandboxError
    ├── SandboxUnavailable   passes by itself: Docker is down; try again later
    ├── PatchRejected        the caller's diff does not apply to the checkout
    └── EnvironmentFailed    the repository's: it could not be installed
    """


class SandboxUnavailable(SandboxError):
    """No container could be started or reached."""


class PatchRejected(SandboxError):
    """A diff does not apply to the checkout; `str(error)` holds git's own words."""


class EnvironmentFailed(SandboxError):
    """The repository could not be installed.

    `command` is the step that failed, `log` the end of its output.
    """

    def __init__(self, message: str, *, command: str, log: str) -> None:
        super().__init__(message)
        self.command = command
        self.log = log


class Ending(StrEnum):
    """How an execution ended, as seen from outside the process that ran."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output limit"
    KILLED = "killed"
    """By a signal that was not ours."""


class Execution(Frozen):
    """What one run of one program printed, and how it ended."""

    exit_code: int | None
    """None unless the program ended by itself (`ending` is EXIT)."""
    output: str
    """Standard output and error interleaved, decoded as UTF-8 with replacement, the middle cut."""
    seconds: float
    ending: Ending = Ending.EXIT
    cpu_seconds: float | None = None
    """Processor time of all its processes; None where nobody measured."""
    peak_memory_mb: float | None = None
    """Resident memory of its largest process at its largest; None where nobody measured."""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


NO_ENV: Final[Mapping[str, str]] = MappingProxyType({})


def repeat_environment(number: int) -> Mapping[str, str]:
    """The environment of the `number`-th run of the same, counted from 1.

    A first run has Python's hash seed 0; what hangs on the order of a set ends otherwise with
    another seed, and again so whenever the same runs are made again.
    """
    return {"PYTHONHASHSEED": str(number)}


class Sandbox(Protocol):
    """One repository at one commit, installed; each run sees a fresh copy of it."""

    async def run_script(
        self,
        script: str,
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Execution:
        """Run a Python script from the root of a fresh checkout with `diffs` applied in order.

        The failure of the code that ran is data, in the `Execution`. `seconds` is the wall-clock
        limit; None is the sandbox's own. `env` is set beside what every program here sees, or
        instead of it. Equal calls may share one run: whoever wants another gives another `env`.

        Raises:
            PatchRejected: a diff does not apply; nothing was run.
            SandboxUnavailable: the run could not be started or its end not be learnt.
        """
        ...

    async def run_command(
        self,
        argv: Sequence[str],
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        output_bytes: int | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Execution:
        """Run a program from the root of a fresh checkout with `diffs` applied in order.

        `output_bytes` is how much of the output is kept (head and tail); None is the sandbox's
        own limit. Raises as `run_script` does.
        """
        ...
