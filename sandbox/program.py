"""What a sandbox is asked to run, within which limits, and what it reports of it."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import Field

from sandbox.frozen import Frozen
from sandbox.guest.supervisor.time_limit import WALL_FACTOR, WALL_MARGIN
from sandbox.layout import ENVIRONMENT

INODES: Final = 200_000
OPEN_FILES: Final = 4096


class Limits(Frozen):
    """What one execution may use. Every limit is enforced from outside the process."""

    seconds: float = Field(default=100, gt=0)
    """Processor time of all its processes; then they are killed (CodeMonkeys, Table 4, has as much
    wall time). After so much wall time a program that does nothing is killed too, and after
    `wall_seconds` any. For a build it is wall time."""
    memory_mb: int = Field(default=2048, gt=0)
    """Resident memory together with everything written to the checkout, /tmp and /dev/shm."""
    cpus: float = Field(default=1, gt=0)
    processes: int = Field(default=256, gt=0)
    disk_mb: int = Field(default=1024, gt=0)
    """How much may be written to the checkout, and as much to /tmp."""
    output_kept_bytes: int = Field(default=64 * 1024, gt=0)
    """How much output is kept: half from the head, half from the tail."""
    output_total_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    """A program that prints more than this is killed."""

    @property
    def wall_seconds(self) -> float:
        """How long an execution may take on a busy host."""
        return self.seconds * WALL_FACTOR + WALL_MARGIN


class Ending(StrEnum):
    """How an execution ended, as seen from outside the process that ran."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output limit"
    KILLED = "killed"
    """By a signal that the sandbox did not send."""
    UNBUILT = "not built"
    """The program did not start: the code does not build with the edit. The output is what the
    build printed."""


class Execution(Frozen):
    """What one run of one program printed, and how it ended."""

    exit_code: int | None
    """None unless the program ended by itself (`ending` is EXIT)."""
    output: str
    """Standard output and error interleaved, decoded as UTF-8 with replacement, the middle cut."""
    seconds: float
    """Wall time."""
    ending: Ending = Ending.EXIT
    limit: str = ""
    """Which limit a TIMEOUT met: `processor time`, `idle` (it did nothing), `wall time`; empty
    where that is not known."""
    cpu_seconds: float | None = None
    """Processor time of all its processes; None where it was not measured."""
    peak_memory_mb: float | None = None
    """Largest resident memory of its largest process; None where it was not measured."""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0

    @property
    def own_seconds(self) -> float:
        """Its processor time, which a busy host does not lengthen; wall time where that was not
        measured."""
        return self.seconds if self.cpu_seconds is None else self.cpu_seconds


class EditBuild(Frozen):
    """How the code is built again once an edit has changed it, before anything runs with it."""

    lines: tuple[str, ...] = ()
    """For a shell, in the checkout, without a network; what they write is part of the edit's tree.
    None: the edit's tree is used as it is."""
    outputs: tuple[str, ...] = ()
    """Names of folders that builds write to: nobody's edit."""


NO_BUILD: Final = EditBuild()


def with_variables(lines: Iterable[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Shell lines that run with the variables `env`."""
    sets = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(env.items()))
    return tuple(f"export {sets}; {line}" if sets else line for line in lines)


BUILD_SECONDS: Final = 600.0
"""Processor time of one edit's build."""
NO_ENV: Final[Mapping[str, str]] = MappingProxyType({})
SCRIPT_PATH: Final = "/tmp/capuchin/reproduce_issue.py"  # noqa: S108 - a file system of its own in the container

COMMAND_PATH: Final = "/tmp/capuchin/command"  # noqa: S108
NO_GIT: Final = "There is no git repository here, only its files; diff -u compares two of them."
_FUNCTIONS: Final = f"""\
git() {{
    case "$1" in apply | clone | config | init | -*) ;; *)
        case " $* " in *" --no-index "*) ;; *)
            command git rev-parse --git-dir >/dev/null 2>&1 ||
                {{ echo "{NO_GIT}" >&2; return 128; }}
        esac
    esac
    command git "$@"
}}
command grep -qs --exclude-dir=x x /dev/null
[ $? -eq 1 ] && grep() {{ command grep --exclude-dir=__pycache__ "$@"; }}
"""
"""For a command that looks around: without a repository git prints pages of its usage, and the
checkout is compiled. A grep that cannot leave out folders stays as it is."""


@dataclass(frozen=True)
class OutputWatch:
    """Reports lines of output while a program runs; best effort, and untrusted."""

    mark: str
    report: Callable[[str], None]
    """Receives what follows the mark in a line that begins with it. Called in the event loop."""


@dataclass(frozen=True)
class Program:
    """One program, the edits that it runs on, and what it may use."""

    argv: Sequence[str]
    """Programs of the environment go by their bare names."""
    diffs: Sequence[str] = ()
    """Applied to the fresh checkout in this order, before the program starts."""
    seconds: float | None = None
    """Processor time (`Limits.seconds`); None is the sandbox's own limit."""
    output_bytes: int | None = None
    """How much of the output is kept, head and tail; None is the sandbox's own limit."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Set in addition to the variables that every program sees, or in place of them."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Absolute path to text; written after the diffs."""
    watch: OutputWatch | None = None
    may_wait: bool = False
    """Whether it may do nothing for long; `Limits.wall_seconds` still ends it."""
    may_share: bool = False
    """Whether equal programs may share one run."""
    built: bool = True
    """Whether the code is built with the edits first (`EditBuild`)."""

    def __post_init__(self) -> None:
        """Raises `ValueError` if there is nothing to run."""
        if not self.argv:
            raise ValueError("There is no program to run.")

    @property
    def script(self) -> str | None:
        """The Python script of `python_script`; None for any other program."""
        return self.files.get(SCRIPT_PATH)


def python_script(
    text: str,
    *,
    diffs: Sequence[str] = (),
    seconds: float | None = None,
    env: Mapping[str, str] = NO_ENV,
) -> Program:
    """The program that runs `text` with the environment's Python.

    Equal scripts may share one run; a caller that wants another run gives another `env`.
    """
    return Program(
        argv=(f"{ENVIRONMENT}/bin/python", SCRIPT_PATH),
        diffs=diffs,
        seconds=seconds,
        env=env,
        files={SCRIPT_PATH: text},
        may_share=True,
    )


def repeat_environment(number: int) -> Mapping[str, str]:
    """The environment of the `number`-th run of the same program, counted from 1.

    The first run has Python's hash seed 0. What depends on the order of a set may end differently
    with another seed, and ends the same way when the same runs are repeated.
    """
    return {"PYTHONHASHSEED": str(number)}


def shell_command(
    text: str,
    *,
    diffs: Sequence[str] = (),
    seconds: float | None = None,
    output_bytes: int | None = None,
) -> Program:
    """The program that runs `text` with bash, or with sh in an image without bash.

    It lies in a file: the kernel limits the length of an argument. git says in a sentence that the
    checkout is not a repository, and grep leaves out compiled files.
    """
    choose = 'command -v bash >/dev/null && exec bash -c "$2" "$1"; exec sh -c "$2" "$1"'
    return Program(
        argv=("sh", "-c", choose, "sh", COMMAND_PATH, _FUNCTIONS + '. "$0"\n'),
        diffs=diffs,
        seconds=seconds,
        output_bytes=output_bytes,
        files={COMMAND_PATH: text},
    )


class Change(Frozen):
    """What a command did to one path of its checkout."""

    path: str
    """Relative to the checkout; bytes that are not UTF-8 as escapes. Untrusted."""
    content: bytes | None = None
    """None for a deleted file; the target of a link."""
    mode: str = "100644"
    """git's: `100644`, `100755` or `120000` (a link)."""
    was_there: bool = False
    """Whether the installed tree, without any edit, has the path."""


class CommandRun(Execution):
    """A command's execution, and the checkout it left."""

    changes: tuple[Change, ...] | None = None
    """Everything that differs from the unedited tree, the edits it ran on included; compiled
    Python and the folders of caches are left out. None if it is not known (see `lost`): only a
    program that exits by itself leaves changes, and within limits. The checkout is read when all
    of its processes have ended (`sandbox.guest.supervisor.capture`)."""
    lost: str = ""
    """Why `changes` are not known, as a sentence."""
