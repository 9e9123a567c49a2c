"""One job for a container, the stream it is sent over, and what its answer means.

A script runs inside a wrapper that knows a nonce and prints it behind the script's own verdict.
Code under test that ends the interpreter (`os._exit`, an exit handler that does) does not print
it. The wrapper and that code share a process: code that searches the process for the nonce finds
it. This wall is against cheap forgeries, not against those.
"""

import base64
import binascii
import dataclasses
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final, Protocol

from sandbox.errors import SandboxUnavailable
from sandbox.frozen import replace
from sandbox.program import (
    BUILD_SECONDS,
    NO_BUILD,
    SCRIPT_PATH,
    Change,
    CommandRun,
    EditBuild,
    Ending,
    Execution,
    OutputWatch,
    Program,
)

STDOUT: Final = 1
STDERR: Final = 2
NONCE_PATH: Final = SCRIPT_PATH.rpartition("/")[0] + "/nonce"
NO_VERDICT: Final = (
    "[The process ended with exit code 0 before the script came to its verdict. It does not count.]"
)


class DeadlinePassed(Exception):
    """The deadline passed before the next frame came."""


class Stream(Protocol):
    """Standard input, output and error of process 1 of a container or pod."""

    def send(self, data: bytes, *, seconds: float) -> None:
        """Raises `OSError` or `ValueError` if `data` is not sent within `seconds`."""
        ...

    def read(self, *, deadline: float, stopped: Callable[[], bool]) -> tuple[int, bytes] | None:
        """The next piece of output and its stream (`STDOUT` or `STDERR`); None at the end.

        Raises:
            DeadlinePassed: `deadline` (of `time.monotonic`) has passed, or `stopped()` is true.
            OSError, ValueError: the connection is broken.
        """
        ...


@dataclass(frozen=True)
class Job:
    """What process 1 has to do: make a checkout, then run the steps until one fails."""

    steps: Sequence[Sequence[str]]
    checkout: str
    environment: Mapping[str, str]
    tree: str | None = None
    """The folder that is copied to the checkout first; None leaves the checkout as it is."""
    diffs: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Absolute path to text, written after the diffs."""
    capture: bool = False
    """Whether to report what the program changed in the checkout."""
    may_wait: bool = False
    build: EditBuild = NO_BUILD
    """What builds the checkout after the diffs."""
    last: int = 0
    """How many steps at the end run as well where the time was over before them."""
    watch: OutputWatch | None = None
    """Its `report` may be called from any thread."""

    @property
    def build_argv(self) -> tuple[str, ...]:
        """The program that builds the edited checkout; empty if there is nothing to build."""
        if not self.build.lines or not any(diff.strip() for diff in self.diffs):
            return ()
        # Each in the checkout, as at the installation.
        return ("sh", "-ec", "\n".join(f"({line}\n)" for line in self.build.lines))

    def to_line(self, nonce: str, cpu_seconds: float | None) -> bytes:
        """As process 1 of a cold container reads it; it enforces `cpu_seconds` if there are any."""
        job = {
            **self.to_message(),
            "nonce": nonce,
            "tree": self.tree,
            "checkout": self.checkout,
            "steps": [list(step) for step in self.steps],
            "cpu_seconds": cpu_seconds,
            "last": self.last,
        }
        return json.dumps(job).encode() + b"\n"

    def to_message(self) -> dict[str, Any]:
        """What process 1 of any container is told."""
        return {
            "diffs": list(self.diffs),
            "files": dict(self.files),
            "env": dict(self.environment),
            "may_wait": self.may_wait,
            "capture": self.capture,
            "build": list(self.build_argv),
            "build_seconds": BUILD_SECONDS,
            "outputs": list(self.build.outputs),
        }


def with_changes(execution: Execution, answer: Mapping[str, Any]) -> Execution:
    """`execution`, as a `CommandRun` if process 1 reports changes, or why it has none.

    Raises:
        SandboxUnavailable: the report is not one of process 1.
    """
    facts = execution.model_dump()
    if "changes" in answer:
        try:
            changes = tuple(_to_change(*fields) for fields in answer["changes"])
        except (TypeError, ValueError, binascii.Error) as error:
            raise SandboxUnavailable("The report of a command's changes is damaged.") from error
        return CommandRun(**facts, changes=changes)
    if "lost" in answer:
        return CommandRun(**facts, lost=str(answer["lost"]))
    return execution


def to_command_run(execution: Execution) -> CommandRun:
    """The run of a command; one that was killed leaves no changes, and says why."""
    if isinstance(execution, CommandRun):
        return execution
    reasons = {
        Ending.TIMEOUT: "It was killed because it ran too long.",
        Ending.MEMORY: "It was killed because it used too much memory.",
        Ending.OUTPUT: "It was killed because it printed too much.",
        Ending.KILLED: "It was killed by a signal.",
        Ending.UNBUILT: "The code does not build, so it was not run.",
    }
    lost = reasons.get(execution.ending, "Its checkout could not be read.")
    return CommandRun(**execution.model_dump(), lost=lost)


def _to_change(path: str, mode: str | None, content: str | None, was_there: bool) -> Change:
    # A name that is not UTF-8 gets a backslash, which no path of an edit may have.
    path = os.fsencode(path).decode("utf-8", "backslashreplace")
    if content is None:
        return Change(path=path, was_there=was_there)
    data = base64.b64decode(content, validate=True)
    return Change(path=path, content=data, mode=mode or "100644", was_there=was_there)


def wrap_script(program: Program) -> tuple[Program, str]:
    """The program in its wrapper, and the nonce; empty for a program that is not a script."""
    if program.script is None or list(program.argv[1:]) != [SCRIPT_PATH]:
        return program, ""
    nonce = secrets.token_hex(16)
    argv = (program.argv[0], "-c", _wrapper_source(), SCRIPT_PATH, NONCE_PATH)
    files = {**program.files, NONCE_PATH: nonce}
    return dataclasses.replace(program, argv=argv, files=files), nonce


def check_verdict(execution: Execution, nonce: str) -> Execution:
    """The execution without the nonce. Exit code 0 that the script did not reach becomes 1."""
    if not nonce:
        return execution
    pattern = rf"\n?{nonce} (\d{{1,3}})\n"
    reached = re.findall(pattern, execution.output)
    # The wrapper begins a new line, where the script may have ended one.
    output = re.sub(pattern, "", execution.output)
    if execution.exit_code == 0 and "0" not in reached:
        output = f"{output.rstrip()}\n{NO_VERDICT}\n".lstrip("\n")
        # Neither 0 (fixed) nor 2 (not fixed).
        return replace(execution, exit_code=1, output=output)
    return replace(execution, output=output)


@cache
def _wrapper_source() -> str:
    return (resources.files("sandbox.guest") / "script_wrapper.py").read_text("utf-8")
