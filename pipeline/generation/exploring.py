"""Explores a codebase by commands and edits it.

As mini-swe-agent, it has no session: each command is a program of its own, in a fresh sealed
checkout with the edit so far, and what it changes there is the edit from then on.
"""

import contextlib
import dataclasses
import math
import textwrap
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from pipeline.codebase.commit import SYMLINK
from pipeline.codebase.unified_diff import list_paths
from pipeline.concurrency import gather_all
from pipeline.data.code_places import Context, SourceFile
from pipeline.data.types import NOT_FIXED, Patch
from pipeline.edits.captured import read_captured
from pipeline.edits.patches import check_form, read_patched
from pipeline.edits.read import read_edit
from pipeline.generation.diversity import EditTask
from pipeline.generation.editing import (
    MOST_NAMED,
    EditingState,
    describe_exit,
    describe_near_tests,
    read_end,
    take_made_up,
    take_summary,
    tell_broken,
)
from pipeline.languages.test_names import is_named
from pipeline.machine import Machine
from pipeline.models.base import Message
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.replies import Malformed, only_tag_or_approval, some_tags
from pipeline.resources import Resources, Workspace
from pipeline.state import ReplyKind
from prompts.templates import render
from prompts.text import pluralize
from sandbox.errors import PatchRejected
from sandbox.frozen import replace
from sandbox.layout import CHECKOUT
from sandbox.program import Change, CommandRun, Execution, shell_command


class ExploringState(EditingState):
    """Saved under the key of an editing machine, whose result it has as well."""

    machine: str = "explore"
    diff: str = ""
    """The edit so far, from the unedited code; every command runs in a fresh checkout with it."""
    action: str = ""
    """The tag of the newest well-formed reply."""
    text: str = ""
    """The body of that tag."""
    refused: str = ""
    """Why the newest command's changes were not taken over, as a sentence; empty if they were."""
    scratch: dict[str, str] = Field(default_factory=dict[str, str])
    """The files of the scratch folder, by path: they outlive a command and are in no edit."""
    commands: list[str] = Field(default_factory=list[str])
    """The commands that ran, each shortened to a line, with its exit code. Untrusted."""
    submitted: str = ""
    """The diff that was submitted last."""
    compared: str = ""
    """The diff with which the tests near it ran last: submitting it again ends the machine."""

    def describe_work(self) -> str:
        count = len(self.commands)
        text = f"It ran {pluralize(count, 'command')} in {pluralize(len(self.attempts), 'turn')}"
        named = "; ".join(self.commands[-MOST_NAMED:])
        last = f"{', at last' if count > MOST_NAMED else ':'} {named}" if count else ""
        wrote = f"It wrote {pluralize(len(self.patches), 'edit')}. " if self.patches else ""
        return f"{wrote}{text}{last}. {self.describe_runs()}"

    def take(self, diff: str) -> None:
        """Continue with `diff`. The candidate stays the last edit that changes anything."""
        self.diff = diff
        if diff and (not self.patches or self.patches[-1].diff != diff):
            self.patches.append(Patch(diff=diff))
            # They were found with another edit.
            self.edited, self.broken, self.tested = [], [], 0


MOST_CHARACTERS = 100_000
"""Of the results shown together; less with a small window."""
SHORT = 400
"""A result of no more characters always stays."""
LEFT_OUT = "[The result of this turn was left out to save room. Run the command again to see it.]\n"


def elide(messages: Sequence[Message], *, opening: int, most: int) -> list[Message]:
    """`messages` as they are sent.

    The rule: once the results together exceed `most` characters, the oldest are left out until half
    of that remains; the newest always stays. So the beginning of the conversation changes rarely,
    and in between every request repeats the one before as its prefix. `opening` messages come
    before the first result. What is left out depends only on the messages so far: a conversation
    that is resumed or replayed is sent as it was.
    """
    shown: deque[int] = deque()
    total = 0
    left_out: set[int] = set()
    for i, message in enumerate(messages):
        if i < opening or message.role != "user" or len(message.text) <= SHORT:
            continue
        shown.append(i)
        total += len(message.text)
        if total <= most:
            continue
        while total > most // 2 and len(shown) > 1:
            oldest = shown.popleft()
            left_out.add(oldest)
            total -= len(messages[oldest].text)
    return [
        replace(message, text=LEFT_OUT) if i in left_out else message
        for i, message in enumerate(messages)
    ]


MOST_FILES = 20


class NamedTestRun(NamedTuple):
    """The outcomes of named tests with the edit so far."""

    summary: str
    failed: tuple[str, ...]
    execution: Execution


def parse_test_names(body: str, paths: Container[str]) -> tuple[str, ...] | Malformed:
    """Parse lines of `PATH` or `PATH::TEST`; each path must be one of `paths`."""
    names = list(dict.fromkeys(line.strip() for line in body.splitlines() if line.strip()))
    missing = next((path for name in names if (path := name.partition("::")[0]) not in paths), None)
    if missing is not None:
        return Malformed(
            f"Nothing was run: there is no file {missing[:200]!r}. Name files of tests by their "
            "paths from the root, one a line."
        )
    if not 1 <= len(names) <= MOST_FILES:
        return Malformed(f"Name between 1 and {MOST_FILES} files of tests, one a line.")
    return tuple(names)


class NamedTests:
    """Runs the tests that a reply names, with the repository's own command."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def parse(self, body: str, diff: str) -> tuple[str, ...] | Malformed:
        """The files that a reply names, with the edit so far; each perhaps with `::` and a test."""
        return parse_test_names(body, {*self._workspace.codebase.files, *list_paths(diff)})

    async def run(self, names: tuple[str, ...], diff: str) -> NamedTestRun | None:
        """The outcomes; None if no command can run single files of tests here.

        Raises:
            PatchRejected, SandboxUnavailable: as `Sandbox.run`.
        """
        named, space = _by_file(names), self._workspace
        for command in await find_commands(space.codebase, space.options.test_command):
            if not (covered := command.covers(tuple(named))):
                continue
            runner = TestRunner(
                command, sandbox=space.sandbox, store=space.store,
                seconds=space.options.execution_seconds,
            )  # fmt: skip
            found = await runner.run(diff, RequestedTests(files=covered, named=named))
            suite = found.suite
            passed, failed, skipped, offline = (
                [test for test in tests if _is_asked(test, found, named)]
                for tests in (suite.passed, suite.failed, suite.skipped, suite.offline)
            )
            summary = f"{pluralize(len(passed), 'test')} passed, {len(failed)} failed"
            summary += f", {len(skipped)} skipped or expected to fail" if skipped else ""
            summary += f", {len(offline)} failed for want of a network" if offline else ""
            summary += "."
            if found.problem:
                summary = f"{summary} {found.problem}"
            return NamedTestRun(summary, tuple(failed[:30]), suite.execution)
        return None


def _is_asked(test: str, run: TestRun, named: Mapping[str, tuple[str, ...]]) -> bool:
    """Some runners run whole files; what has no file is a file that cannot be imported."""
    return test not in run.files or is_named(test, run.files[test], named)


def _by_file(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The tests that are asked for by their files; none where the whole file is."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        path, _, test = name.partition("::")
        before = found.get(path)
        found[path] = (*(before or ()), test) if test and before != () else ()
    return found


CONTEXT_TOKENS = 20_000
"""Of the ranked files; the machine reads the rest by itself. Successful runs of exploring agents
mostly stay under that (arXiv 2602.16069)."""
OUTPUT_BYTES = 10_000
"""Of one command's output, half from its end."""
_TAGS = ("bash", "edit", "script", "tests", "submit")
_LONGEST_COMMAND = 50_000
_OPENING = 2
"""Messages before the first reply: the context, which all samples share, and the task."""
_LAST_TURNS = 5
"""With this many turns left or fewer, each report states their number."""
_SCRATCH_BYTES = 1_000_000
_LEAST_CUT = 400
"""Tokens of a file of which only the beginning is shown."""
_MOST_NAMED = 100
"""Paths of further files that the opening names."""


class ExploringMachine(Machine[ExploringState]):
    """Replies: `<bash>`, `<edit>`, `<script>`, `<tests>` or `<submit/>`; `<same>` and `<fault>` as
    to an editing machine.

    A `<submit/>` beside an edit submits it at once: it saves one call.
    """

    def __init__(self, resources: Resources, task: EditTask) -> None:
        options = resources.options
        super().__init__(
            resources.model,
            call=f"exploring/{task.sample}",
            attempts=options.turns,
            temperature=options.temperature,
        )
        self._resources = resources
        self._codebase = resources.codebase
        self._options = options
        self._task = task
        self._named_tests = NamedTests(resources)
        self._scratch = _name_scratch(resources.codebase.files)

    @property
    def system(self) -> str:
        return render(
            "exploring/system",
            seconds=f"{self._options.execution_seconds:g}",
            language=self._resources.describe_language(),
            scratch=self._scratch,
            summaries=self._options.summaries,
        )

    def start(self) -> ExploringState:
        most = min(CONTEXT_TOKENS, self.model.profile.window // 3)
        task = self._task
        # The likeliest file to need an edit is shown even if it leaves no room for others.
        first = min(40_000, self.model.profile.window // 3)
        shown, others = cut_context(task.context, most, first=first)
        shared = render(
            "exploring/context", issue=task.issue, files=shown, habits=task.habits, others=others
        )
        script, run = task.seed or (None, None)
        question = render(
            "exploring/write",
            script=script.text if script else "",
            run=run,
            turns=self.attempts,
            scratch=self._scratch,
            **task.to_template_values(),
        )
        return ExploringState(
            messages=[Message(role="user", text=shared)],
            pending=question,
            scripts=[script.text] if script else [],
            base=[run] if run else [],
            approach=task.approach,
            informed_by=task.informed_by,
        )

    def is_spent(self, state: ExploringState) -> bool:
        """Whether it has used the sample's share of the run's money."""
        return self._count_money(state) <= 0

    async def finish(self, state: ExploringState) -> None:
        """Check an edit that nobody checked, as it was to be submitted later."""
        if state.diff and state.compared != state.diff:
            state.submitted = state.diff
            await self._check_edit(state)

    def _count_money(self, state: ExploringState) -> float:
        """What is left of the sample's share, in US dollars."""
        share = self._options.dollars / self._options.samples
        return share - self.model.profile.price.of(state.usage)

    def _count_turns(self, state: ExploringState) -> int:
        """The replies that are left, if each costs as much as the newest."""
        left = self.attempts - len(state.attempts)
        newest = self.model.profile.price.of(state.usages[-1])
        return min(left, math.ceil(self._count_money(state) / newest)) if newest else left

    def select_messages(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Without the oldest results of a long conversation; see `elide`."""
        most = min(MOST_CHARACTERS, self.model.profile.window)
        return elide(messages, opening=_OPENING, most=most)

    async def read(self, state: ExploringState, reply: str) -> ReplyKind | Malformed:
        if self._options.summaries:
            take_summary(state, reply, *_TAGS)
        if (said := read_end(self._task, state, reply)) is not None:
            return said
        pair = some_tags(reply, *_TAGS)
        if not isinstance(pair, Malformed) and set(pair) == {"script", "edit"}:
            return await self._take_pair(state, pair["script"], pair["edit"])
        tag, submits = only_tag_or_approval(reply, *_TAGS, approval="submit")
        if isinstance(tag, Malformed):
            return tag
        name, body = tag.name, tag.body
        if submits and name != "edit":
            return Malformed(f"<submit/> cannot stand beside <{name}>: nothing was done.")
        problem = await self._take_reply(state, name, body)
        if problem is not None:
            return problem
        if submits and self._check_submission(state) is None:
            name = "submit"
        state.action, state.text, state.refused = name, body, ""
        return ReplyKind.REVISED

    async def _take_pair(
        self, state: ExploringState, script: str, edit: str
    ) -> ReplyKind | Malformed:
        """A script and the edit that it is to test."""
        problem = await self._take_reply(state, "edit", edit)
        problem = problem or await self._take_reply(state, "script", script)
        state.action, state.text, state.refused = "edit", edit, ""
        return problem or ReplyKind.REVISED

    async def _take_reply(self, state: ExploringState, name: str, body: str) -> Malformed | None:
        if name in ("bash", "script", "tests") and not body.strip():
            return Malformed(f"The <{name}> block is empty.")
        if name == "bash" and len(body) > _LONGEST_COMMAND:
            return Malformed(f"A command may hold {_LONGEST_COMMAND:,} characters.")
        if name == "script":
            state.scripts.append(body + "\n")
        if name == "tests":
            named = self._named_tests.parse(body, state.diff)
            return named if isinstance(named, Malformed) else None
        if name == "submit":
            return self._check_submission(state)
        return await self._take_edit(state, body) if name == "edit" else None

    def _check_submission(self, state: ExploringState) -> Malformed | None:
        if not state.diff:
            return Malformed("There is nothing to submit: the code is unedited.")
        repeated = self._task.direction.find_repetition(state.diff)
        if repeated and repeated not in state.warnings:
            state.warnings.append(repeated)
            return Malformed(repeated.replace("Send one", "Make it one"))
        return None

    async def _take_edit(self, state: ExploringState, body: str) -> Malformed | None:
        edited = await read_edit(
            body,
            self._codebase,
            known=[file.path for file in self._task.context.files],
            never_touch=self._options.never_touch,
            current=await read_patched(self._codebase, state.diff),
        )
        if isinstance(edited, Malformed):
            return edited
        state.take(edited.patch.diff)
        return None

    async def execute(self, state: ExploringState) -> str | None:
        match state.action:
            case "bash":
                return await self._run_command(state)
            case "tests":
                return await self._run_tests(state)
            case "submit":
                return await self._check_edit(state)
            case _:
                return await self._run_script(state)

    async def _run_command(self, state: ExploringState) -> str:
        before = state.diff
        command = shell_command(
            state.text + "\n",
            diffs=_as_diffs(state.diff),
            seconds=self._options.execution_seconds,
            output_bytes=OUTPUT_BYTES,
        )
        tools = {f"{CHECKOUT}/{path}": text for path, text in state.scratch.items()}
        run = await self._resources.sandbox.run_command(
            dataclasses.replace(command, files={**command.files, **tools})
        )
        lines = " ⏎ ".join(filter(str.strip, state.text.splitlines()))
        line = textwrap.shorten(lines, 120, placeholder=" …")
        state.commands.append(f"`{line}` ({describe_exit(run)})")
        lost = ""
        if run.changes is not None:
            mine = f"{self._scratch}/"
            own = tuple(one for one in run.changes if f"{one.path}/".startswith(mine))
            run = replace(run, changes=tuple(one for one in run.changes if one not in own))
            lost = _take_scratch(state, own)
        state.refused = await self._take_changes(state, run)
        return self._report(state, run=run, changed=state.diff != before, lost=lost)

    async def _take_changes(self, state: ExploringState, run: CommandRun) -> str:
        """Continue with what the command left, or say why not."""
        if run.changes is None:
            return run.lost
        found = await read_captured(
            run.changes, self._codebase, never_touch=self._options.never_touch
        )
        if isinstance(found, Malformed):
            return found.hint
        if found.patch.diff != state.diff:
            try:
                # The next command needs it; a tree whose installation changed files may refuse it.
                diffs = _as_diffs(found.patch.diff)
                await self._resources.sandbox.run(shell_command(":\n", diffs=diffs, seconds=30))
            except PatchRejected as rejected:
                return f"The changes do not apply to a fresh checkout: {rejected}"
            state.take(found.patch.diff)
        return ""

    async def _run_script(self, state: ExploringState) -> str:
        """After a new script or edit: the script without and with the edit."""
        if not state.scripts:
            return self._report(state, changed=True)
        known = len(state.base)
        after = await self._run_newest_script(state)
        return self._report(
            state,
            run=after,
            before=state.base[-1],
            repeated=len(state.base) == known,
            changed=state.action == "edit",
        )

    async def _run_newest_script(self, state: ExploringState) -> Execution | None:
        """Its run with the edit; None without an edit. A new script also runs without it."""
        batch = [] if len(state.base) == len(state.scripts) else [""]
        if state.diff:
            batch.append(state.diff)
        runs = await gather_all(
            self._resources.run_script(state.scripts[-1], diff) for diff in batch
        )
        if len(state.base) < len(state.scripts):
            state.base.append(runs[0])
        return runs[-1] if state.diff else None

    async def _run_tests(self, state: ExploringState) -> str:
        named = self._named_tests.parse(state.text, state.diff)
        found = (
            None if isinstance(named, Malformed) else await self._named_tests.run(named, state.diff)
        )
        if found is None:
            state.refused = "No command is known that runs single files of tests here: use <bash>."
            return self._report(state)
        return self._report(state, run=found.execution, tests=found)

    async def _check_edit(self, state: ExploringState) -> str | None:
        """None if the submitted edit is accepted: it fixes its script and breaks no test, or is
        submitted again.

        The tests near it wait for its script: where that fails, there is something to tell already.
        They run all the same once it is submitted again.
        """
        if state.compared == state.diff:
            return None
        again, state.submitted = state.submitted == state.diff, state.diff
        script = await self._run_newest_script(state) if state.scripts else None
        if script is not None:
            state.edited.append(script)
        fixed = script is None or (state.base[-1].exit_code == NOT_FIXED and script.passed)
        passes = again or fixed
        report = await self._task.compare(state.diff) if passes else None
        state.compared = state.diff if passes else ""
        state.broken.append(report.broken if report else ())
        state.tested = len(report.before.passed) if report else 0
        near = describe_near_tests(report, state.diff)
        made_up = await take_made_up(state, self._task, self._codebase)
        clean = not (state.broken[-1] or near.to_mend or made_up)
        if clean and passes:
            return None
        return render(
            "exploring/check",
            language=self._resources.describe_language(),
            before=state.base[-1] if state.base else None,
            after=script,
            **tell_broken(report),
            near=near,
            made_up=made_up,
        )

    def _report(self, state: ExploringState, *, changed: bool = False, **values: object) -> str:
        left = self._count_turns(state)
        empty: dict[str, object] = {"run": None, "before": None, "repeated": False, "tests": None}
        empty["lost"] = ""
        return render(
            "exploring/result",
            language=self._resources.describe_language(),
            action=state.action,
            refused=state.refused,
            changed=changed,
            diff=state.diff,
            left=left if left <= _LAST_TURNS else 0,
            **{**empty, **values},
        )


def cut_context(
    context: Context, tokens: int, *, first: int = 0
) -> tuple[list[SourceFile], tuple[str, ...]]:
    """The first files, most useful first, that fit into `tokens`, and the paths of the others.

    The first file may take `first` tokens. Of the first one that does not fit, the beginning is
    shown, if there is room for some of it.
    """
    left = tokens
    shown: list[SourceFile] = []
    for place, file in enumerate(context.files):
        if file.tokens <= (left if place else max(first, left)):
            shown.append(file)
            left -= file.tokens
        elif left >= _LEAST_CUT:
            shown.append(_cut_file(file, left))
            break
    taken = {file.path for file in shown}
    others = [file.path for file in context.files if file.path not in taken]
    return shown, tuple(dict.fromkeys([*others, *context.dropped]))[:_MOST_NAMED]


def _cut_file(file: SourceFile, tokens: int) -> SourceFile:
    text = file.text[: len(file.text) * tokens // file.tokens].rpartition("\n")[0]
    line = text.count("\n") + 2
    text += f"\n[... from line {line} on it is left out ...]\n"
    return replace(file, text=text, tokens=tokens, partial=True)


def _name_scratch(files: Iterable[str]) -> str:
    """A folder at the root for the machine's own tools and notes, of which there are no `files`."""
    taken = {path.partition("/")[0] for path in files}
    name = ".scratch"
    while name in taken:
        name += "_"
    return name


def _take_scratch(state: ExploringState, scratch: Sequence[Change]) -> str:
    """Keep these files for the next command; a sentence about what cannot be kept."""
    kept: dict[str, str] = {}
    for one in scratch:
        if one.content is not None and one.mode != SYMLINK and check_form(one.path) is None:
            with contextlib.suppress(UnicodeDecodeError):
                kept[one.path] = one.content.decode()
    if sum(len(text.encode()) for text in kept.values()) > _SCRATCH_BYTES:
        return (
            f"The scratch folder held more than {_SCRATCH_BYTES:,} bytes: it is as it was before."
        )
    state.scratch = kept
    left = len(scratch) - len(kept)
    return f"The scratch folder keeps only text files: {left:,} dropped." if left else ""


def _as_diffs(diff: str) -> tuple[str, ...]:
    return (diff,) if diff else ()
