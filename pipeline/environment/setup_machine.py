"""Lets a model write the commands that make an environment work, if no rule succeeded.

Its commands have only the rights of the build container. The environment's health decides whether
they succeeded, never the model.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from pydantic import Field

from pipeline.codebase.commit import Codebase
from pipeline.data.code_places import SourceFile
from pipeline.environment.health import Grade
from pipeline.environment.record import TriedAttempt
from pipeline.languages.manifests import DEPENDENCY_FILES
from pipeline.languages.python.interpreter import MINORS
from pipeline.machine import Machine
from pipeline.models.base import Model
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.state import ReplyKind, State
from prompts.templates import render
from prompts.text import shorten

MOST_REPLIES: Final = 4
"""Each costs a build of minutes."""
MOST_COMMANDS: Final = 40
LONGEST_COMMAND: Final = 2000
MOST_PATHS: Final = 250
MOST_FILES: Final = 14
LONGEST_FILE: Final = 6000
"""Characters shown of a file."""
_RECIPES: Final = re.compile(
    r"\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.travis\.yml|azure-pipelines\.yml"
    r"|appveyor\.yml|\.appveyor\.yml|\.circleci/config\.yml|\.readthedocs\.ya?ml|Makefile"
    r"|\.devcontainer/devcontainer\.json|environment\.ya?ml|Dockerfile|CONTRIBUTING\.\w+"
)
"""Files that show how others install and test the repository."""
_LOCKS: Final = re.compile(r"(.*/)?((uv|poetry|pdm)\.lock|[^/]*lock[^/]*\.(json|yaml))|PKG-INFO")
_PYTHON: Final = re.compile(r"3\.\d{1,2}")
_TOO_OLD: Final = f"Python 2 and Python 3 before 3.{MINORS[0]} cannot be had here."
_SEND_NEWER: Final = (
    f"{_TOO_OLD} Send all blocks again with a newer <python>, or only a <give_up> block."
)

Build = Callable[[Sequence[str], str], Awaitable[TriedAttempt]]
"""Builds an environment with these commands and a Python (`3.N`, or empty), and checks it."""


class EnvironmentState(State):
    """The commands so far, and their results."""

    setups: list[tuple[str, ...]] = Field(default_factory=list[tuple[str, ...]])
    pythons: list[str] = Field(default_factory=list[str])
    """`pythons[i]` is the version that `setups[i]` wants; empty for the default."""
    tried: list[TriedAttempt] = Field(default_factory=list[TriedAttempt])
    """`tried[i]` is the result of `setups[i]`."""
    given_up: str = ""
    """Why the model gave up. Untrusted."""


class EnvironmentMachine(Machine[EnvironmentState]):
    """Replies: `<setup>`, with `<python>` if another is needed; or `<give_up>`."""

    def __init__(
        self,
        model: Model,
        *,
        attempts: int,
        question: str,
        build: Build,
    ) -> None:
        """`question` comes from `render_question`."""
        super().__init__(model, call="environment", attempts=min(attempts, MOST_REPLIES))
        self._question = question
        self._build = build

    @property
    def system(self) -> str:
        return render("environment/system")

    def start(self) -> EnvironmentState:
        return EnvironmentState(pending=self._question)

    async def read(self, state: EnvironmentState, reply: str) -> ReplyKind | Malformed:
        match only_tag(reply, "setup", "give_up"):
            case Malformed() as malformed:
                return malformed
            case Tag("give_up", body):
                state.given_up = " ".join(body.split())[:1000] or "It gave no reason."
                return ReplyKind.APPROVED
            case tag:
                return self._read_setup(state, tag.body, reply)

    def _read_setup(self, state: EnvironmentState, body: str, reply: str) -> ReplyKind | Malformed:
        commands = parse_commands(body)
        if isinstance(commands, Malformed):
            return commands
        stated = only_tag(reply, "python") if "<python>" in reply else Tag("python", "")
        python = stated.body.strip() if isinstance(stated, Tag) else ""
        if refusal := refuse_python(python):
            return refusal
        state.setups.append(commands)
        state.pythons.append(python)
        return ReplyKind.REVISED

    async def execute(self, state: EnvironmentState) -> str | None:
        attempt = await self._build(state.setups[-1], state.pythons[-1])
        state.tried.append(attempt)
        if attempt.grade > Grade.BROKEN:
            return None
        return render("environment/review", attempt=attempt)


def refuse_python(python: str) -> Malformed | None:
    """Why no environment can have that `python`; None if one may, or if none is named."""
    if re.match(r"2\b", python):
        return Malformed(_SEND_NEWER)
    if python and not _PYTHON.fullmatch(python):
        return Malformed("<python> takes a version such as 3.8. Send all blocks again.")
    if python and int(python.removeprefix("3.")) < MINORS[0]:
        return Malformed(_SEND_NEWER)
    return None


def parse_commands(body: str) -> tuple[str, ...] | Malformed:
    """Parse the commands of a `<setup>` block, one per line; a backslash at the end joins the next
    line."""
    lines = re.sub(r"\\\n[ \t]*", "", body.replace("\r\n", "\n")).split("\n")
    commands = [line.strip() for line in lines]
    commands = [line for line in commands if line and not line.startswith("#")]
    if not commands:
        return Malformed("The <setup> block holds no command. Send all commands, or <give_up>.")
    if len(commands) > MOST_COMMANDS or any(len(line) > LONGEST_COMMAND for line in commands):
        return Malformed(
            f"Send at most {MOST_COMMANDS} commands of at most {LONGEST_COMMAND} characters."
        )
    if any(not char.isprintable() and char != "\t" for line in commands for char in line):
        return Malformed("A command holds a character that cannot be printed. Send all again.")
    return tuple(commands)


async def render_question(
    repository: str, codebase: Codebase, tried: Sequence[TriedAttempt]
) -> str:
    """The machine's first task: the tree, the files that show how to install it, the attempts so
    far."""
    files: list[SourceFile] = []
    for path in choose_files(codebase)[:MOST_FILES]:
        if text := await codebase.read_text(path):
            files.append(SourceFile(path=path, text=shorten(text, LONGEST_FILE), tokens=0))
    paths = sorted(codebase.files, key=lambda path: (path.count("/"), path))
    return render(
        "environment/write",
        repository=repository,
        paths=paths[:MOST_PATHS],
        more=len(paths[MOST_PATHS:]),
        files=files,
        tried=tried,
        pythons=next((attempt.pythons for attempt in tried if attempt.pythons), ()),
        too_old=_TOO_OLD,
    )


def choose_files(codebase: Codebase) -> list[str]:
    """Choose files: first declarations, then how others install and test; the shortest paths
    first."""
    there = sorted(codebase.files, key=lambda path: (path.count("/"), len(path), path))
    declared = [
        path for path in there if DEPENDENCY_FILES.fullmatch(path) and not _LOCKS.fullmatch(path)
    ]
    return [*declared[: MOST_FILES // 2], *(path for path in there if _RECIPES.fullmatch(path))]
