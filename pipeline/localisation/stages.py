"""The stages: which files, then which definitions have to change."""

import asyncio
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final, Literal

from pipeline.codebase.commit import Codebase
from pipeline.context.outline import Definition, Outline, outline_of
from pipeline.context.tokens import estimate_tokens
from pipeline.data.code_places import Context, Located, Place, SourceFile, SuspectFile
from pipeline.data.types import Issue
from pipeline.generation.exploring import (
    CONTEXT_TOKENS,
    MOST_CHARACTERS,
    OUTPUT_BYTES,
    cut_context,
    elide,
)
from pipeline.machine import Machine
from pipeline.models.base import Message, Model
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.resources import Resources
from pipeline.state import ReplyKind, State
from prompts.templates import render
from prompts.text import shorten
from sandbox.frozen import replace
from sandbox.program import shell_command

Stage = Literal["understanding", "localisation"]
TURNS = 12
"""Replies of one machine. The answer may come in the first."""
SHARE = 0.25
"""The share of a run's money that all machines of the search together may use."""
_LONGEST_COMMAND = 50_000
_LONGEST_WHY = 400
_OPENING = 2
"""Messages before the first reply: the context, which all share, and the task."""
_LAST_TURNS = 4
"""With this many turns left or fewer, each report states their number."""


class ReadingState(State):
    command: str = ""
    """The newest command that is to be run; empty once there is an answer."""
    files: tuple[SuspectFile, ...] = ()
    places: tuple[Place, ...] = ()


class ReadingMachine(Machine[ReadingState]):
    """Replies: `<bash>`, or the answer of its stage.

    Every command runs in a fresh checkout of the unedited code; what it changes there is gone with
    it.
    """

    stage: Stage
    tag: str

    def __init__(
        self, resources: Resources, model: Model, issue: Issue, context: Context, number: int
    ) -> None:
        super().__init__(
            model,
            call=f"{self.stage}/{number}",
            attempts=TURNS,
            temperature=resources.options.temperature,
        )
        self._resources = resources
        self._issue = issue
        self._context = context
        self._dollars = 0.0

    @property
    def system(self) -> str:
        seconds = f"{self._resources.options.execution_seconds:g}"
        return render("search/system", stage=self.stage, seconds=seconds)

    @property
    @abstractmethod
    def task(self) -> str: ...

    @abstractmethod
    async def take_answer(self, state: ReadingState, body: str) -> Malformed | None:
        """Record the answer, or say what is wrong with it."""

    def allow(self, dollars: float) -> None:
        self._dollars = dollars

    def start(self) -> ReadingState:
        most = min(CONTEXT_TOKENS, self.model.profile.window // 3)
        shown, others = cut_context(self._context, most)
        shared = render("search/context", issue=self._issue, files=shown, others=others)
        return ReadingState(messages=[Message(role="user", text=shared)], pending=self.task)

    def is_spent(self, state: ReadingState) -> bool:
        """Whether it has used its part of the run's money."""
        return bool(self._dollars) and self.model.profile.price.of(state.usage) >= self._dollars

    def select_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Without the oldest results of a long conversation; see `elide`."""
        most = min(MOST_CHARACTERS, self.model.profile.window)
        return elide(messages, opening=_OPENING, most=most)

    async def read(self, state: ReadingState, reply: str) -> ReplyKind | Malformed:
        match only_tag(reply, "bash", self.tag):
            case Malformed() as malformed:
                return malformed
            case Tag("bash", body):
                if not body.strip() or len(body) > _LONGEST_COMMAND:
                    return Malformed(f"A command holds 1 to {_LONGEST_COMMAND:,} characters.")
                state.command = body
                return ReplyKind.REVISED
            case Tag(_, body):
                problem = await self.take_answer(state, body)
                state.command = ""
                return problem or ReplyKind.APPROVED

    async def execute(self, state: ReadingState) -> str | None:
        run = await self._resources.sandbox.run_command(
            shell_command(
                state.command + "\n",
                seconds=self._resources.options.execution_seconds,
                output_bytes=OUTPUT_BYTES,
            )
        )
        left = self.attempts - len(state.attempts)
        return render(
            "search/result", run=run, tag=self.tag, left=left if left <= _LAST_TURNS else 0
        )


MOST_FILES = 10
"""The paper trains on edits of one to five files (section 3.1)."""


class UnderstandingMachine(ReadingMachine):
    """Answers with `<files>`: a path a line, with the reason."""

    stage = "understanding"
    tag = "files"

    @property
    def task(self) -> str:
        return render("search/understand", turns=self.attempts)

    async def take_answer(self, state: ReadingState, body: str) -> Malformed | None:
        found = parse_files(body, self._resources.codebase)
        if isinstance(found, Malformed):
            return found
        state.files = found
        return None


def parse_files(body: str, codebase: Codebase) -> tuple[SuspectFile, ...] | Malformed:
    """Parse lines of `PATH` or `PATH: REASON`; each path must be a file of `codebase`."""
    found: dict[str, SuspectFile] = {}
    for line in filter(None, map(str.strip, body.splitlines())):
        text = clean_line(line)
        path, _, why = (text, "", "") if text in codebase.files else text.partition(":")
        path = path.strip().strip("`").removeprefix("./")
        file = codebase.files.get(path)
        if file is None or not file.regular:
            return Malformed(f"There is no file {path[:200]!r}. Name paths from the root.")
        found.setdefault(path, SuspectFile(path=path, why=why.strip()[:_LONGEST_WHY]))
    if not 0 < len(found) <= MOST_FILES:
        return Malformed(f"Name 1 to {MOST_FILES} files, one a line.")
    return tuple(found.values())


def clean_line(line: str) -> str:
    """`line` without the bullet of a list."""
    return line[2:].strip() if line.startswith(("- ", "* ")) else line


MOST_PLACES = 20
LONGEST_CODE = 4_000
_LARGEST = 1_000_000
"""Characters of a file whose definitions are looked for."""
_LINE: Final = re.compile(r"`?([^:`]+)`?:(\d{1,7})(?:-(\d{1,7}))?`?(?::\s*(.*))?")


class LocalisationMachine(ReadingMachine):
    """Answers with `<places>`: `PATH:FIRST-LAST: REASON` a line."""

    stage = "localisation"
    tag = "places"

    def __init__(
        self,
        resources: Resources,
        model: Model,
        issue: Issue,
        context: Context,
        number: int,
        *,
        files: Sequence[SuspectFile],
    ) -> None:
        """`files`: the answer of the first stage, without the thoughts that led to it."""
        super().__init__(resources, model, issue, context, number)
        self._files = files

    @property
    def task(self) -> str:
        return render("search/locate", files=self._files, turns=self.attempts)

    async def take_answer(self, state: ReadingState, body: str) -> Malformed | None:
        found = await parse_places(body, self._resources.codebase)
        if isinstance(found, Malformed):
            return found
        state.places = found
        return None


async def parse_places(body: str, codebase: Codebase) -> tuple[Place, ...] | Malformed:
    """Parse lines of `PATH:FIRST-LAST` or `PATH:FIRST-LAST: REASON`; the lines must exist."""
    found: list[Place] = []
    for line in filter(None, map(str.strip, body.splitlines())):
        match = _LINE.fullmatch(clean_line(line))
        if match is None:
            return Malformed(f"{line[:200]!r} is no place such as src/till.py:10-14: why.")
        path, first, last, why = match.groups()
        place = await read_place(codebase, path, int(first), int(last or first), why or "")
        if isinstance(place, Malformed):
            return place
        found.append(place)
        if len(found) > MOST_PLACES:
            break
    if not 0 < len(found) <= MOST_PLACES:
        return Malformed(f"Name 1 to {MOST_PLACES} places, one a line.")
    return tuple(found)


async def read_place(
    codebase: Codebase, path: str, first: int, last: int, why: str = ""
) -> Place | Malformed:
    """The place at lines `first` to `last` of a file, with its code and the definitions around."""
    path = path.strip().removeprefix("./")
    text = await codebase.read_text(path) if path in codebase.files else None
    if text is None:
        return Malformed(f"There is no text file {path[:200]!r}.")
    lines = text.splitlines()
    if not 0 < first <= last <= len(lines):
        return Malformed(f"{path} has the lines 1 to {len(lines)}, not {first} to {last}.")
    small = len(text) <= _LARGEST
    outline = await asyncio.to_thread(outline_of, path, text) if small else Outline()
    around = definitions_around(outline, first)
    return Place(
        path=path,
        first=first,
        last=last,
        scope="\n".join(" ".join(one.head.split()) for one in around),
        function=(around[-1].first + 1, around[-1].last + 1) if around else None,
        code=shorten("\n".join(lines[first - 1 : last]), LONGEST_CODE),
        why=why.strip()[:_LONGEST_WHY],
    )


def definitions_around(outline: Outline, line: int) -> list[Definition]:
    """The definitions that hold `line`, counted from 1, or that begin there; outermost first."""
    around = [one for one in outline.definitions if one.first < line <= one.last + 1]
    return sorted(around, key=lambda one: (one.first, -one.last))


async def show_located(
    context: Context, located: Located, codebase: Codebase, tokens: int
) -> Context:
    """`context` with the located files first, cut to `tokens`.

    Located files that it lacks are added whole; one of more than half of `tokens` is not: the
    places show its lines.
    """
    known = {file.path: file for file in context.files}
    wanted = [place.path for place in located.places] + [file.path for file in located.files]
    first: dict[str, SourceFile] = {}
    for path in dict.fromkeys(wanted):
        file = known.get(path) or await _read_file(codebase, path)
        if file is not None and (path in known or file.tokens <= tokens // 2):
            first[path] = file
    rest = [file for file in context.files if file.path not in first]
    whole = replace(context, files=(*first.values(), *rest))
    most = max(tokens, sum(file.tokens for file in context.files))
    shown, others = cut_context(whole, most)
    return replace(context, files=tuple(shown), dropped=others)


async def _read_file(codebase: Codebase, path: str) -> SourceFile | None:
    text = await codebase.read_text(path) if path in codebase.files else None
    return SourceFile(path=path, text=text, tokens=estimate_tokens(text)) if text else None
