"""Bugs made on purpose, for teams with one repository (after SWE-smith, arXiv 2504.21798)."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.context.outline import outline_of
from pipeline.edits.patches import create_patch, stream_commit
from pipeline.languages.conventions import is_test
from pipeline.languages.mutants import spoil
from pipeline.languages.registry import scan_codebase
from pipeline.models.base import Message, Model, ModelRequest
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.replies import Malformed, tags
from pipeline.resources import Workspace
from pipeline.store import digest
from prompts.templates import render

SECONDS = 900.0
"""Of processor time, for each run of tests."""


@dataclass(frozen=True)
class Bug:
    """A function with one thing wrong, which some tests notice."""

    path: str
    text: str
    """The whole file with the bug."""
    diff: str
    failing: tuple[str, ...]
    files: tuple[str, ...]
    """The files of the failing tests."""
    output: str
    """What the tests print with the bug. Untrusted."""

    @property
    def name(self) -> str:
        return digest(self.diff)[:12]


class BugMaker:
    """Makes bugs in one codebase. Every run of tests is saved."""

    def __init__(self, workspace: Workspace) -> None:
        self._space = workspace

    async def make(self, count: int) -> list[Bug]:
        """At most `count` bugs, each in another function that a passing test runs; the same each
        time. Fewer where tests notice no more. Raises as `Sandbox.run`."""
        runner, base = await self._run_base()
        scan = await scan_codebase(self._space.codebase)
        places = [
            (path, span, f"{path}:{span[0]}")
            for path, spans in scan.functions.items()
            for span in spans
            if f"{path}:{span[0]}" in base.ran and not is_test(path)
        ]
        found: list[Bug] = []
        for path, span, key in sorted(places, key=lambda place: digest(place[2])):
            if runner is None or len(found) >= count:
                break
            covering = {base.names[at] for at in base.ran[key]} & set(base.suite.passed)
            files = tuple(sorted({base.files[name] for name in covering if name in base.files}))
            bug = await self._spoil(path, span, runner, base, files) if files else None
            found += [bug] if bug else []
        return found

    async def _run_base(self) -> tuple[TestRunner | None, TestRun]:
        """The first command that tells which functions its passing tests run."""
        space = self._space
        base: TestRun | None = None
        for command in await find_commands(space.codebase, space.options.test_command):
            runner = TestRunner(command, sandbox=space.sandbox, store=space.store, seconds=SECONDS)
            base = await runner.run("", RequestedTests(functions=True))
            if base.suite.passed and base.ran:
                return runner, base
        return None, base or TestRun.model_construct(ran={})

    async def _spoil(
        self,
        path: str,
        span: tuple[int, int],
        runner: TestRunner,
        base: TestRun,
        files: Sequence[str],
    ) -> Bug | None:
        """The first fault of the function that tests notice each time, and not all of them."""
        text = await self._space.codebase.read_text(path)
        async for spoilt in list_faults(path, text or "", span):
            patch = await create_patch(self._space.codebase, {path: spoilt.encode()})
            wanted = RequestedTests(files=runner.command.covers(files))
            runs = [await runner.run(patch.diff, wanted, attempt) for attempt in range(2)]
            before = {name for name in base.suite.passed if base.files.get(name) in files}
            failing = before - set(runs[0].suite.passed) - set(runs[1].suite.passed)
            if failing and all(run.suite.passed and run.ended for run in runs):
                return Bug(
                    path,
                    spoilt,
                    patch.diff,
                    tuple(sorted(failing)),
                    tuple(sorted({base.files[name] for name in failing})),
                    runs[0].suite.execution.output,
                )
        return None


async def list_faults(path: str, text: str, span: tuple[int, int]) -> AsyncIterator[str]:
    """Versions of a file, each with one thing wrong in the lines of `span`, first and last."""
    lines = text.split("\n")
    first, last = span
    own = lines[first - 1 : last]
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1,{len(own)} @@\n"
    for version in await spoil(head + "\n".join(f"+{line}" for line in own)):
        spoilt = [line[1:] for line in version.removeprefix(head).split("\n")]
        if version.startswith(head) and len(spoilt) == len(own):
            yield "\n".join([*lines[: first - 1], *spoilt, *lines[last:]])


def remove_tests(path: str, text: str, names: Iterable[str]) -> str:
    """A file of tests without the functions of these tests; empty if none is left."""
    words = {re.split(r"::|\.", name.partition("[")[0])[-1] for name in names}
    lines = text.split("\n")
    gone = {
        row
        for one in outline_of(path, text).definitions
        if words & set(re.findall(r"\bdef (\w+)", one.head))
        for row in range(one.first, one.last + 1)
    }
    left = "\n".join(line for row, line in enumerate(lines) if row not in gone)
    return left if re.search(r"\bdef test", left) else ""


async def keep_bug(codebase: Codebase, bug: Bug) -> tuple[str, Mapping[str, bytes]]:
    """Commit `bug`, without the tests that notice it, into the codebase's repository.

    Returns the commit, under `refs/capuchin/made`, and what the files of those tests were.

    Raises:
        GitFailed: the repository cannot be written.
    """
    tests = await codebase.read_all(bug.files)
    changes: dict[str, bytes | None] = {bug.path: bug.text.encode()}
    for path, data in tests.items():
        left = remove_tests(path, data.decode("utf-8", "replace"), bug.failing)
        changes[path] = left.encode() if left else None
    ref = f"refs/capuchin/made/{bug.name}"
    # Environments are of the commit's date.
    date = await git(codebase.git_dir, "show", "-s", "--format=%ct", codebase.commit)
    await git(
        codebase.git_dir, "fast-import", "--quiet", "--force",
        input=stream_commit(codebase, changes, ref, seconds=int(date)),
    )  # fmt: skip
    commit = await git(codebase.git_dir, "rev-parse", ref)
    return commit.decode().strip(), tests


async def write_issue(model: Model, bug: Bug) -> tuple[str, str]:
    """Title and body of an issue about `bug`, as a user would write it. Untrusted.

    Raises:
        ModelError: the model cannot be asked.
    """
    request = ModelRequest(
        system=render("making/system"),
        messages=(
            Message(role="user", text=render("making/write", diff=bug.diff, output=bug.output)),
        ),
        call=f"making/{bug.name}",
        max_tokens=2000,
    )
    answer = tags((await model.complete(request)).text, "title", "answer")
    if isinstance(answer, Malformed):
        return "", ""
    return " ".join(answer["title"].split()), answer["answer"].strip()
