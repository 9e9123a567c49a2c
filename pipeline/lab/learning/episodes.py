"""An attempt at an instance by a policy that is trained elsewhere, step by step, and its reward.

It has no session: each command runs in a fresh sealed checkout with the edit so far, and what it
changes there is the edit from then on. The tests that decide come only with the grade.
"""

import dataclasses
from collections.abc import Container, Sequence
from typing import Final, Literal, TypeVar, cast

from pydantic import BaseModel

from pipeline.codebase.text import decode_text
from pipeline.edits.captured import read_captured
from pipeline.edits.patches import PatchedFile, read_patched
from pipeline.edits.suspicious import find_forgery
from pipeline.lab.grading import GradedInstance, Grader
from pipeline.regression.near_tests import NearbyTests
from pipeline.replies import Malformed
from pipeline.resources import Workspace
from pipeline.store import SHARED, Store
from prompts.text import shorten
from sandbox.errors import PatchRejected
from sandbox.frozen import Frozen
from sandbox.program import Change, shell_command

M = TypeVar("M", bound=BaseModel)
Judges = Literal["issue", "hidden", "near"]
"""The tests that the reference edit mends; all of the instance's; the repository's own near the
edit, of which none may break."""
OUTPUT_BYTES: Final = 30_000
"""Of one command's output, half from its end, and characters of one reading."""


class Refused(Exception):
    """A step changed nothing; the sentence is for the policy."""


class EpisodeReward(Frozen):
    reward: float | None
    """1 or 0; None where the tests cannot tell: the attempt is no sample."""
    fixed: int = 0
    to_fix: int = 0
    kept: int = 0
    to_keep: int = 0
    forged: tuple[str, ...] = ()
    """What in the edit could make tests pass that should not: there is no reward for it. Sentences
    without a subject, untrusted."""


class EpisodeStore:
    """What concerns one attempt, in memory; what is true of all, in `shared`."""

    def __init__(self, shared: Store) -> None:
        self._shared = shared
        self._own: dict[str, BaseModel] = {}

    async def load(self, key: str, kind: type[M]) -> M | None:
        return cast("M | None", self._own.get(key)) or await self._shared.load(key, kind)

    async def save(self, key: str, value: BaseModel) -> None:
        if key.startswith(SHARED):
            await self._shared.save(key, value)
        else:
            self._own[key] = value


class Episode:
    """One attempt at an instance. Its steps are taken one after another, until it is submitted.

    Raises:
        Refused: from every step but the last ones; the edit stays as it was.
        SandboxUnavailable: from every step; take it again.
    """

    def __init__(self, row: GradedInstance, space: Workspace) -> None:
        """`space` is the instance's, which all attempts at it share."""
        self._row = row
        self._space = dataclasses.replace(space, store=EpisodeStore(space.store))
        self._diff = self._sound = ""
        self._is_submitted = False

    async def run(self, command: str, seconds: float) -> dict[str, object]:
        """Run a command with the edit so far: what it printed, how it ended, and why what it
        changed was not taken over (empty if it was)."""
        self._check_open()
        diffs = [self._diff] if self._diff else []
        program = shell_command(command, diffs=diffs, seconds=seconds, output_bytes=OUTPUT_BYTES)
        try:
            ran = await self._space.sandbox.run_command(program)
        except PatchRejected as rejected:
            self._diff = self._sound
            words = f"The newest change was taken back: it does not apply. {rejected}"
            raise Refused(words) from None
        self._sound, refused = self._diff, ran.lost
        if ran.changes is not None:
            try:
                await self._take(ran.changes)
            except Refused as error:
                refused = str(error)
        told = ran.model_dump(mode="json", include={"output", "exit_code", "ending", "seconds"})
        return {**told, "refused": refused}

    async def read(self, path: str, first: int) -> str:
        """A file with the edit so far, from a line on; a long text lacks its middle."""
        self._check_open()
        codebase = self._space.codebase
        files = await read_patched(codebase, self._diff)
        text: str | None = None
        if file := files.get(path):
            decoded = decode_text(path, file.content)
            text = decoded.text if decoded else None
        elif path in codebase.files and path not in files:
            text = await codebase.read_text(path)
        if text is None:
            raise Refused(f"There is no file of text {path[:200]!r}.")
        return shorten("".join(text.splitlines(keepends=True)[first - 1 :]), OUTPUT_BYTES)

    async def write(self, path: str, text: str | None) -> None:
        """Write a whole file, or delete it (None)."""
        self._check_open()
        codebase = self._space.codebase
        files = await read_patched(codebase, self._diff)
        there = files.get(path) or codebase.files.get(path)
        if there is None and text is None:
            raise Refused(f"There is no file {path[:200]!r}.")
        mode = there.mode if there else "100644"
        files[path] = None if text is None else PatchedFile(text.encode(), mode)
        changes = [
            Change(path=name, **(file._asdict() if file else {})) for name, file in files.items()
        ]
        if path not in await self._take(changes) and text is not None:
            raise Refused(f"Nothing was written: git ignores {path[:200]!r}.")

    async def _take(self, changes: Sequence[Change]) -> Container[str]:
        """Continue with the edit that `changes` make; the files it names."""
        found = await read_captured(changes, self._space.codebase)
        if isinstance(found, Malformed):
            raise Refused(found.hint)
        self._diff = found.patch.diff
        return found.contents

    def _check_open(self) -> None:
        if self._is_submitted:
            raise Refused("The edit is submitted.")

    def submit(self) -> str:
        """End the attempt; its edit."""
        self._is_submitted = True
        return self._diff

    async def grade(self, by: Judges) -> EpisodeReward:
        """The reward of the edit, which is submitted. It tells numbers of tests, never a name."""
        diff, space = self.submit(), self._space
        if forged := find_forgery(diff) - find_forgery(self._row.patch):
            return EpisodeReward(reward=0.0, forged=tuple(sorted(forged)))
        if by != "near":
            found = await Grader(self._row, space.codebase, space.sandbox, space.store).grade(diff)
            good = found.resolved if by == "hidden" else 0 < found.to_fix == found.fixed
            counts = found.model_dump(include={"fixed", "to_fix", "kept", "to_keep"})
            return EpisodeReward(reward=None if found.cannot_tell else float(good), **counts)
        try:
            report = await NearbyTests(space).compare(diff) if diff else None
        except PatchRejected:
            diff, report = "", None
        if not diff:
            return EpisodeReward(reward=0.0)  # it breaks nothing, and mends nothing
        return EpisodeReward(reward=float(not report.broken) if report else None)
