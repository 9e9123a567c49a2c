"""Lets a model write the commands that make an environment work, if no rule succeeded.

Its commands have only the rights of the build container. The environment's health decides whether
they succeeded, never the model.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from pydantic import Field

from pipeline.codebase.commit import Codebase
from pipeline.data.code_places import SourceFile
from pipeline.environment.health import Grade
from pipeline.environment.record import NO_INDEX, TriedAttempt
from pipeline.languages.language import Language
from pipeline.languages.registry import is_manifest, languages_of, main_language
from pipeline.machine import Machine
from pipeline.models.base import Model
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.state import ReplyKind, State
from prompts.templates import render
from prompts.text import shorten

MOST_COMMANDS: Final = 40
LONGEST_COMMAND: Final = 2000
MOST_PATHS: Final = 250
MOST_FILES: Final = 14
_RECIPES: Final = re.compile(
    r"\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.travis\.yml|azure-pipelines\.yml"
    r"|appveyor\.yml|\.appveyor\.yml|\.circleci/config\.yml|\.readthedocs\.ya?ml|Makefile"
    r"|\.devcontainer/devcontainer\.json|environment\.ya?ml|Dockerfile|CONTRIBUTING\.\w+"
)
"""Files that show how others install and test the repository."""
_LOCKS: Final = re.compile(r"(.*/)?((uv|poetry|pdm)\.lock|[^/]*lock[^/]*\.(json|yaml))|PKG-INFO")
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
        self, model: Model, *, attempts: int, question: str, build: Build, language: Language
    ) -> None:
        """`question` comes from `render_question`."""
        super().__init__(
            model, call="environment", attempts=min(attempts, 4)
        )  # each costs a build of minutes
        self._question = question
        self._build = build
        self._language = language

    @property
    def system(self) -> str:
        return render("environment/system", language=self._language.facts.to_prompt(""))

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
        if python and (refusal := self._language.refuse_version(python)):
            return Malformed(
                f"{refusal} Send all blocks again with another <python>, or only a <give_up> block."
            )
        state.setups.append(commands)
        state.pythons.append(python)
        return ReplyKind.REVISED

    async def execute(self, state: EnvironmentState) -> str | None:
        attempt = await self._build(state.setups[-1], state.pythons[-1])
        if attempt.met_no_index:  # other commands would not mend that
            attempt = await self._build(state.setups[-1], state.pythons[-1])
        state.tried.append(attempt)
        if attempt.met_no_index:
            state.given_up = NO_INDEX
            return None
        if attempt.grade > Grade.BROKEN:
            return None
        return render("environment/review", attempt=attempt)


def parse_commands(body: str) -> tuple[str, ...] | Malformed:
    """Parse the commands of a `<setup>` block, one per line; a backslash at the end joins the next
    line."""
    lines = re.sub(r"\\\n[ \t]*", "", body.replace("\r\n", "\n")).split("\n")
    commands = [line.strip() for line in lines]
    commands = [line for line in commands if line and not line.startswith("#")]
    if not commands:
        return Malformed("The <setup> block contains no command. Send all commands, or <give_up>.")
    if len(commands) > MOST_COMMANDS or any(len(line) > LONGEST_COMMAND for line in commands):
        return Malformed(
            f"Send at most {MOST_COMMANDS} commands of at most {LONGEST_COMMAND} characters."
        )
    if any(not char.isprintable() and char != "\t" for line in commands for char in line):
        return Malformed("A command contains an unprintable character. Send all blocks again.")
    return tuple(commands)


async def render_question(
    repository: str, codebase: Codebase, tried: Sequence[TriedAttempt]
) -> str:
    """The machine's first task: the tree, the files that show how to install it, the attempts so
    far."""
    files: list[SourceFile] = []
    for path in choose_files(codebase)[:MOST_FILES]:
        if text := await codebase.read_text(path):
            files.append(SourceFile(path=path, text=shorten(text, 6000), tokens=0))
    paths = sorted(codebase.files, key=lambda path: (path.count("/"), path))
    return render(
        "environment/write",
        repository=repository,
        paths=paths[:MOST_PATHS],
        more=len(paths[MOST_PATHS:]),
        files=files,
        tried=tried,
        pythons=next((attempt.pythons for attempt in tried if attempt.pythons), ()),
        too_old=main_language(codebase).facts.too_old,
    )


def choose_files(codebase: Codebase) -> list[str]:
    """Choose files: first declarations, then how others install and test; the shortest paths
    first."""
    there = sorted(codebase.files, key=lambda path: (path.count("/"), len(path), path))
    languages = languages_of(codebase)
    declared = [
        path
        for path in there
        if is_manifest(path, codebase.root, languages) and not _LOCKS.fullmatch(path)
    ]
    return [*declared[: MOST_FILES // 2], *(path for path in there if _RECIPES.fullmatch(path))]
