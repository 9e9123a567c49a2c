"""A scripted model and a sandbox of plain subprocesses: both hold state and keep the contracts."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from pipeline.codebase.git import GitFailed, git
from pipeline.models.base import Message, Model, ModelProfile, ModelRequest, Price, Reply
from pipeline.store import DirStore
from pipeline.types import Usage
from sandbox.base import Ending, Execution
from sandbox.errors import PatchRejected
from sandbox.program import Program
from sandbox.tree import Tree

Answer = str | Exception | Callable[[Sequence[Message]], str]


@dataclass
class ScriptedModel(Model):
    """Answers by the call's name and the turn of its conversation; the last answer repeats.

    An unexpected call fails the test.
    """

    answers: Mapping[str, Sequence[Answer]]
    window: int = 200_000
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    conversations: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    systems: dict[str, str] = field(default_factory=dict[str, str])
    running: Counter[str] = field(default_factory=Counter[str])
    most_running: Counter[str] = field(default_factory=Counter[str])
    """By stage: how many calls were in flight at once, at most."""

    @property
    def profile(self) -> ModelProfile:
        return ModelProfile(
            provider="openai",
            name="scripted",
            window=self.window,
            max_output=4000,
            sampling=True,
            price=Price(),
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
        return Reply(text=text, usage=Usage(input=10, output=5), model="scripted")


def asked_for(what: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The test command that a run of the repository's own tests was for, and the files it was to
    collect; None for any other run.
    """
    if tuple(what[:3]) != ("python", "-I", "-c"):
        return None
    request = json.loads(zlib.decompress(base64.b64decode("".join(what[4:]))))
    return tuple(request["argv"]), tuple(request["wanted"]["files"] or ())


@dataclass
class SubprocessSandbox:
    """Runs things for real in a fresh checkout, not isolated; equal runs are remembered."""

    tree: Tree
    results: dict[tuple[object, ...], Execution] = field(
        default_factory=dict[tuple[object, ...], Execution]
    )
    runs: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(
        default_factory=list[tuple[tuple[str, ...], tuple[str, ...]]]
    )
    """Every run that was asked for: what, with which diffs."""

    async def run(self, program: Program) -> Execution:
        script = program.script
        what = ("script", script) if script is not None else tuple(program.argv)
        self.runs.append((what, tuple(program.diffs)))
        key = (what, tuple(program.diffs), tuple(program.env.items()))
        if key not in self.results:
            self.results[key] = await self._run_in_checkout(program)
        return self.results[key]

    async def _run_in_checkout(self, program: Program) -> Execution:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            with self.tree.tar.open() as data, tarfile.open(fileobj=data) as tar:
                # Set here and not passed: Python 3.11.2 (Debian 12) does not know the argument yet.
                tar.extraction_filter = lambda member, _path: member
                tar.extractall(root)
            await git(None, "init", "-q", folder)
            for diff in program.diffs:
                try:
                    await git(None, "apply", "-", input=diff.encode(), cwd=root)
                except GitFailed as failed:
                    raise PatchRejected(failed.words) from failed
            return await _execute(_argv(program), root, program.seconds or 100, program.env)


def _argv(program: Program) -> Sequence[str]:
    if program.script is not None:
        return (sys.executable, "-c", program.script)
    name = program.argv[0]
    return (sys.executable if name == "python" else name, *program.argv[1:])


async def _execute(
    argv: Sequence[str], root: Path, seconds: float, env: Mapping[str, str]
) -> Execution:
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=root,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(root),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # ours take a second to load
            "PYTHONHASHSEED": "0",
            **env,
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
        return Execution(exit_code=None, output="", seconds=seconds, ending=Ending.TIMEOUT)
    text = output.decode("utf-8", "replace")
    return Execution(exit_code=process.returncode, output=text, seconds=0.1)


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
