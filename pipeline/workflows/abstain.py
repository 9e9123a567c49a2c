"""Finds the commit that fixed something, by running a script on earlier commits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git
from pipeline.codebase.history import FETCHED_COMMITS
from pipeline.concurrency import gather_all
from pipeline.edits.external import MOST_CONTENT, diff_commits
from sandbox.base import Sandbox
from sandbox.errors import PatchRejected
from sandbox.program import python_script, repeat_environment

_NEIGHBOURS = 3
"""How many commits at each side stand in for one on which the script does not run."""
_REPEATS = 2
"""How often the script runs on both sides of the commit, so that chance does not name it."""

Finding = Literal["fixed", "not fixed", "unknown"]


@dataclass(frozen=True)
class Ancestor:
    commit: str
    subject: str
    """Untrusted."""


class Lineage:
    """The first parents of a codebase's commit, and how scripts end on them.

    A script runs in the environment of the codebase's own commit, on its checkout with the
    difference to the earlier commit applied.
    """

    def __init__(self, codebase: Codebase, sandbox: Sandbox, seconds: float) -> None:
        self._codebase = codebase
        self._sandbox = sandbox
        self._seconds = seconds
        self._diffs: dict[int, str | None] = {}
        self._lock = asyncio.Lock()
        self._findings: dict[tuple[str, int, int], Finding] = {}
        self.commits: tuple[Ancestor, ...] = ()

    async def read(self) -> None:
        """Read the commits, newest first; the first is the codebase's own."""
        try:
            log = await git(
                self._codebase.git_dir, "log", "--first-parent", f"--max-count={FETCHED_COMMITS}",
                "-z", "--format=%H %s", "--end-of-options", self._codebase.commit, "--",
            )  # fmt: skip
        except GitFailed:
            return
        lines = log.decode("utf-8", "replace").split("\0")
        pairs = (line.partition(" ") for line in lines if line)
        self.commits = tuple(Ancestor(commit, subject[:200]) for commit, _, subject in pairs)

    async def find_fix(self, script: str) -> int | None:
        """The index of the commit since which `script` says that the issue is fixed.

        Its parent fails the script. None if no commit that is there fails it, or if the script does
        not run on the commits in between.
        """
        last = len(self.commits) - 1
        steps = sorted({min(2**n, last) for n in range(last.bit_length() + 1)}) if last > 0 else []
        found = dict(zip(steps, await self._run_all(script, steps), strict=True))
        failing = next((at for at in steps if found[at] == "not fixed"), None)
        if failing is None:
            return None
        fixed = max((at for at in steps if at < failing and found[at] == "fixed"), default=0)
        while failing - fixed > 1:
            at = await self._find_telling(script, fixed, failing)
            if at is None:
                return None
            if await self._run(script, at) == "fixed":
                fixed = at
            else:
                failing = at
        return fixed

    async def confirms(self, script: str, fix: int) -> bool:
        """Whether `script` fails on the parent of the commit `fix` and passes on it, every time."""
        runs = [(fix, "fixed"), (fix + 1, "not fixed")]
        ends = await gather_all(
            self._run(script, at, number) for at, _ in runs for number in range(_REPEATS)
        )
        wanted = [end for _, end in runs for _ in range(_REPEATS)]
        return ends == wanted

    async def _find_telling(self, script: str, fixed: int, failing: int) -> int | None:
        """An index between both, near the middle, on which the script has a verdict."""
        middle = (fixed + failing) // 2
        near = sorted(range(fixed + 1, failing), key=lambda at: abs(at - middle))
        for at in near[: 2 * _NEIGHBOURS + 1]:
            if await self._run(script, at) != "unknown":
                return at
        return None

    async def _run_all(self, script: str, at: Sequence[int]) -> list[Finding]:
        return await gather_all(self._run(script, index) for index in at)

    async def _run(self, script: str, at: int, number: int = 0) -> Finding:
        key = (script, at, number)
        if key not in self._findings:
            self._findings[key] = await self._execute(script, at, number)
        return self._findings[key]

    async def _execute(self, script: str, at: int, number: int) -> Finding:
        diff = await self._diff_to(at)
        if diff is None:
            return "unknown"
        program = python_script(
            script,
            diffs=(diff,) if diff else (),
            seconds=self._seconds,
            env=repeat_environment(number) if number else {},
        )
        try:
            run = await self._sandbox.run(program)
        except PatchRejected:
            return "unknown"
        verdicts: dict[int | None, Finding] = {0: "fixed", 2: "not fixed"}
        return verdicts.get(run.exit_code, "unknown")

    async def _diff_to(self, at: int) -> str | None:
        """The difference from the codebase's commit to the one at `at`; None if it is too large."""
        async with self._lock:  # one at a time: git holds all that differs in memory
            if at not in self._diffs:
                old = self.commits[at].commit
                # Of large files that many commits touch, the differences are small.
                edit = await diff_commits(
                    self._codebase.git_dir, self._codebase.commit, old, "", content=MOST_CONTENT
                )
                diff = edit.diff.decode("utf-8", "surrogateescape")
                self._diffs[at] = None if edit.problem else diff
            return self._diffs[at]
