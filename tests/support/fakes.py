"""A scripted model and a sandbox of plain subprocesses: both hold state and keep the contracts."""

import asyncio
import base64
import json
import os
import re
import signal
import sys
import tarfile
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from pipeline.codebase.git import GitFailed, git
from pipeline.data.types import Usage
from pipeline.models.base import Message, Model, ModelProfile, ModelRequest, Price, Reply
from pipeline.store import DirStore
from sandbox.errors import PatchRejected
from sandbox.execution.jobs import to_command_run, with_changes
from sandbox.guest.supervisor.capture import capture_changes
from sandbox.layout import CHECKOUT
from sandbox.program import COMMAND_PATH, CommandRun, Ending, Execution, Program
from sandbox.tree import Tree

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # ours take a second to load
    "PYTHONHASHSEED": "0",
}
Answer = str | Exception | Callable[[Sequence[Message]], str]


@dataclass
class ScriptedModel(Model):
    """Answers by the call's name and the turn of its conversation; the last answer repeats.

    An unexpected call fails the test.
    """

    answers: Mapping[str, Sequence[Answer]]
    window: int = 200_000
    name: str = "scripted"
    vision: bool = False
    price: Price = field(default_factory=Price)
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    conversations: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    systems: dict[str, str] = field(default_factory=dict[str, str])
    temperatures: dict[str, float | None] = field(default_factory=dict[str, float | None])
    running: Counter[str] = field(default_factory=Counter[str])
    most_running: Counter[str] = field(default_factory=Counter[str])
    """By stage: how many calls were in flight at once, at most."""

    @property
    def profile(self) -> ModelProfile:
        return ModelProfile(
            provider="openai",
            name=self.name,
            window=self.window,
            max_output=4000,
            sampling=True,
            price=self.price,
            vision=self.vision,
        )

    async def complete(self, request: ModelRequest) -> Reply:
        call, messages = request.call, request.messages
        assert messages[-1].role == "user"
        assert all(message.text for message in messages)
        stage = call.split("/")[0]
        turn = sum(message.role == "assistant" for message in messages)
        self.asked.append((call, turn))
        self.conversations[call] = list(messages)
        self.systems[call] = request.system
        self.temperatures[call] = request.temperature
        self.running[stage] += 1
        self.most_running[stage] = max(self.most_running[stage], self.running[stage])
        await asyncio.sleep(0)
        self.running[stage] -= 1
        assert call in self.answers, f"unexpected call {call}"
        answers = self.answers[call]
        answer = answers[min(turn, len(answers) - 1)]
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else answer(messages)
        return Reply(text=text, usage=Usage(input=10, output=5), model=self.name)


def asked_for(what: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The test command that a run of the repository's own tests was for, and the files it was to
    collect; None for any other run.
    """
    if tuple(what[:3]) != ("python", "-I", "-c"):
        return None
    request = json.loads(zlib.decompress(base64.b64decode("".join(what[4:]))))
    return tuple(request["argv"]), tuple(request["wanted"]["files"] or ())


def format_section(mark: str, kind: str, data: bytes) -> str:
    """A section of the output, as the wrapper of a test command prints it."""
    return f"\n{mark} {kind} {base64.b64encode(zlib.compress(data)).decode()}\n"


@dataclass
class SubprocessSandbox:
    """Runs things for real in a fresh checkout, not isolated; equal runs are remembered, and wait
    for one that is under way."""

    tree: Tree
    results: dict[tuple[object, ...], Execution] = field(
        default_factory=dict[tuple[object, ...], Execution]
    )
    runs: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(
        default_factory=list[tuple[tuple[str, ...], tuple[str, ...]]]
    )
    """Every run that was asked for: what, with which diffs."""
    under_way: defaultdict[object, asyncio.Lock] = field(
        default_factory=lambda: defaultdict[object, asyncio.Lock](asyncio.Lock)
    )

    async def run(self, program: Program) -> Execution:
        script = program.script
        what = ("script", script) if script is not None else tuple(program.argv)
        self.runs.append((what, tuple(program.diffs)))
        key = (_without_chance(what), tuple(program.diffs), tuple(program.env.items()))
        async with self.under_way[key]:
            if key not in self.results:
                self.results[key] = await self._run_in_checkout(program)
        return self.results[key]

    async def run_command(self, program: Program) -> CommandRun:
        what = (*program.argv, *program.files.values())
        self.runs.append((what, tuple(program.diffs)))
        key = ("command", what, tuple(program.diffs), tuple(program.env.items()))
        async with self.under_way[key]:
            if key not in self.results:
                with tempfile.TemporaryDirectory() as folder:
                    self._extract(Path(folder))
                    self.results[key] = await self._run_in_checkout(program, capture=Path(folder))
        return to_command_run(self.results[key])

    def _extract(self, root: Path) -> None:
        with self.tree.tar.open() as data, tarfile.open(fileobj=data) as tar:
            # Set here and not passed: Python 3.11.2 (Debian 12) does not know the argument yet.
            tar.extraction_filter = lambda member, _path: member
            tar.extractall(root)

    async def _run_in_checkout(self, program: Program, capture: Path | None = None) -> Execution:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            self._extract(root)
            for diff in program.diffs:
                try:
                    await git(None, "apply", "-", input=diff.encode(), cwd=root)
                except GitFailed as failed:
                    raise PatchRejected(failed.words) from failed
            for path, text in program.files.items():
                if path.startswith(f"{CHECKOUT}/"):
                    place = root / path.removeprefix(f"{CHECKOUT}/")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(text)
            argv = _argv(program)
            if COMMAND_PATH in program.files:
                # A test may not share /tmp with another: the command lies outside the checkout.
                command = Path(f"{folder}.command")
                command.write_text(program.files[COMMAND_PATH])
                argv = [str(command) if part == COMMAND_PATH else part for part in argv]
            try:
                run = await _execute(argv, root, program.seconds or 100, program.env)
            finally:
                Path(f"{folder}.command").unlink(missing_ok=True)
            if capture is None or run.exit_code is None:
                return run
            return with_changes(run, capture_changes(str(capture), folder))


def _without_chance(what: tuple[str, ...]) -> object:
    """What is run, without the time that is left and the word that makes a control script new."""
    if what[0] == "script":
        return re.sub(r"# [0-9a-f]{16}$", "", what[1], flags=re.M)
    if what[:3] != ("python", "-I", "-c"):
        return what
    try:
        request = json.loads(zlib.decompress(base64.b64decode("".join(what[4:]))))
    except ValueError:  # another guest program than the wrapper
        return what
    return (*what[:4], json.dumps({**request, "wall": None}))


def _argv(program: Program) -> Sequence[str]:
    if program.script is not None:
        return (sys.executable, "-c", program.script)
    name = program.argv[0]
    return (sys.executable if name == "python" else name, *program.argv[1:])


async def _execute(
    argv: Sequence[str], root: Path, seconds: float, env: Mapping[str, str]
) -> Execution:
    env = {**ENVIRONMENT, "PYTHONPATH": str(root), **env}
    try:
        code, output = await run_process(argv, root, seconds, env)
    except TimeoutError:
        return Execution(exit_code=None, output="", seconds=seconds, ending=Ending.TIMEOUT)
    # The same run prints the same: always in one place, and in the same time.
    text = output.decode("utf-8", "replace").replace(str(root), "/testbed")
    text = re.sub(r"\bin \d+\.\d+s\b", "in 0.10s", text)
    return Execution(exit_code=code, output=text, seconds=0.1)


async def run_process(
    argv: Sequence[str], root: Path, seconds: float, env: Mapping[str, str]
) -> tuple[int, bytes]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=root,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), seconds)
    finally:
        if process.returncode is None:  # late, or the caller is cancelled
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
    return process.returncode or 0, output


class Killed(Exception):
    """The process died."""


class DyingStore(DirStore):
    """A store whose worker dies instead of saving for the n-th time, counted from 1."""

    def __init__(self, root: Path, dies_at: int) -> None:
        super().__init__(root)
        self._left = dies_at

    async def save(self, key: str, value: BaseModel) -> None:
        self._left -= 1
        if self._left <= 0:
            raise Killed
        await super().save(key, value)


class CountingStore(DirStore):
    """Remembers what was saved, in order."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.saved: list[str] = []

    async def save(self, key: str, value: BaseModel) -> None:
        self.saved.append(key)
        await super().save(key, value)
