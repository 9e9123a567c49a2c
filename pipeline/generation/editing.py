"""Writes an edit, and may rewrite the script that tests it."""

import textwrap
from dataclasses import dataclass

from pydantic import Field

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import list_paths
from pipeline.concurrency import gather_all, gather_two
from pipeline.data.code_places import Context, Habits
from pipeline.data.suite_reports import FailedOtherwise, SuiteReport
from pipeline.data.types import NOT_FIXED, Candidate, Issue, Patch, TestScript
from pipeline.edits.read import ParsedEdit, read_edit
from pipeline.edits.references import find_made_up_numbers
from pipeline.edits.suspicious import is_changelog
from pipeline.generation.diversity import Direction, EditTask
from pipeline.generation.scripts import reports_by_itself
from pipeline.languages.conventions import is_test
from pipeline.languages.registry import main_language
from pipeline.machine import Machine
from pipeline.models.base import Message, ModelRequest
from pipeline.reasons import count_near, describe_cut
from pipeline.replies import Malformed, Tag, only_tag_or_approval, some_tags
from pipeline.resources import Resources
from pipeline.state import Phase, ReplyKind, State
from prompts.templates import render
from prompts.text import pluralize
from sandbox.program import Execution

MOST_NAMED = 5


def describe_exit(run: Execution) -> str:
    return f"exit code {run.exit_code}" if run.exit_code is not None else run.ending.value


@dataclass(frozen=True)
class NearTests:
    """Read by a template; the names are untrusted."""

    text: str
    """Our own words."""
    passed: tuple[str, ...] = ()
    """Tests that are there only with the edit: those that pass, at most `MOST_NAMED`."""
    failed: tuple[str, ...] = ()
    otherwise: tuple[FailedOtherwise, ...] = ()
    """Tests that fail without the edit, too, but with another exception; at most `MOST_NAMED`."""

    @property
    def to_mend(self) -> bool:
        """Whether the writer of the edit has to see it."""
        return bool(self.failed or self.otherwise)


def describe_near_tests(report: SuiteReport | None, diff: str) -> NearTests:
    """What `report`, if there is one, says of the edit `diff`."""
    if report is None:
        return NearTests("No test of the repository near the edit gave a result.")
    passed, failed = report.passed_only_after, report.failed_only_after
    sentences = [count_near(report), describe_cut(report)]
    if not passed and not failed and any(map(is_test, list_paths(diff))):
        sentences.append("No test was run that is there only with the edit.")
    text = " ".join(filter(None, sentences))
    otherwise = report.failed_otherwise[:MOST_NAMED]
    return NearTests(text, passed[:MOST_NAMED], failed[:MOST_NAMED], otherwise)


def tell_broken(report: SuiteReport | None) -> dict[str, object]:
    """What the template `shared/broken` needs."""
    if report is None:
        return {"broken": ()}
    broken, own = report.broken, report.after.execution
    others = bool({*report.after.failed, *report.passed_again}.difference(broken))
    return {"broken": broken[:20], "more": len(broken[20:]), "own": own, "others": others}


class EditingState(State):
    scripts: list[str]
    """The testing machine's script first."""
    base: list[Execution]
    """`base[i]` is `scripts[i]` on the unedited code."""
    patches: list[Patch] = Field(default_factory=list[Patch])
    edited: list[Execution] = Field(default_factory=list[Execution])
    """Each revision's run: the newest script with the newest edit at that time."""
    broken: list[tuple[str, ...]] = Field(default_factory=list[tuple[str, ...]])
    """Parallel to `edited`: the repository's own tests that the edit broke."""
    tested: int = 0
    """How many tests of the repository ran with the last edit that was compared."""
    warnings: list[str] = Field(default_factory=list[str])
    """Warnings about edits that do not parse or repeat another's."""
    made_up: tuple[str, ...] = ()
    """The numbers of issues that its edits made up, and the changelog's entries that they were not
    to hold, of which its model was told."""
    approved_ahead: bool = False
    """Whether the newest reply approves its block, on condition that the run succeeds."""
    approach: str = ""
    """The suggested approach; empty if there was none."""
    informed_by: tuple[int, ...] = ()
    """The samples whose edits were shown; empty for an independent sample."""
    fault: str = ""
    """What its model found wrong with an edit that it was shown; empty if nothing. Untrusted."""
    fault_of: int = 0
    """The sample that wrote that edit."""
    said: str = ""
    """Its model's newest summary of its work; empty if there is none. Untrusted."""
    machine: str = "fixed"

    def summarise(self) -> str:
        """What it leaves for others: its model's words, then what it did. Untrusted."""
        facts = [self.describe_work()]
        if broken := self.broken[-1:]:
            names = ", ".join(name[:200] for name in broken[0][:MOST_NAMED])
            facts += [f"Tests of the repository that its edit breaks: {names}."] * bool(names)
        if self.phase is not Phase.APPROVED:
            facts.append("It was cut short: its model did not call the edit done.")
        return "\n".join([*filter(None, [self.said]), "Record: " + " ".join(facts)])

    def describe_work(self) -> str:
        """What it did, from its record. Untrusted."""
        turns = pluralize(len(self.attempts), "turn")
        return f"It wrote {pluralize(len(self.patches), 'edit')} in {turns}. {self.describe_runs()}"

    def describe_runs(self) -> str:
        """What ran: its scripts without and with its edits, and tests of the repository."""
        before = ", ".join(describe_exit(run) for run in self.base[-MOST_NAMED:])
        unedited = f"Its scripts on the unedited code: {before}." if before else ""
        ends = [describe_exit(run) for run in self.edited[-MOST_NAMED:]]
        told = f"Its script ran with the edit: {', '.join(ends)}." if ends else ""
        ran = (
            f"{pluralize(self.tested, 'test')} of the repository ran with it."
            if self.tested
            else ""
        )
        with_edit = " ".join(filter(None, (told, ran))) or "Nothing ran with the edit."
        return f"{unedited} {with_edit}".lstrip()

    def candidate(self, sample: int) -> Candidate | None:
        """The last edit, after any ending, with the last script that has a verdict on the base."""
        if not self.patches:
            return None
        ran = list(zip(self.scripts, self.base, strict=False))
        usable = [script for script, run in ran if run.exit_code in (0, NOT_FIXED)]
        reporting = [script for script, run in ran if run.exit_code == NOT_FIXED]
        texts = reporting or usable
        test = TestScript(text=texts[-1]) if texts else None
        return Candidate(
            sample=sample,
            patch=self.patches[-1],
            test=test,
            machine=self.machine,
            model=self.models[-1] if self.models else "",
            informed_by=self.informed_by,
            fault=self.fault,
            fault_of=self.fault_of,
        )


def opening(resources: Resources, issue: Issue, context: Context, habits: Habits) -> ModelRequest:
    """What every editing machine reads before its own task: the issue and the ranked files."""
    text = render("editing/context", issue=issue, files=context.files, habits=habits)
    system = render(
        "editing/system",
        seconds=f"{resources.options.execution_seconds:g}",
        language=resources.describe_language(),
    )
    return ModelRequest(system, (Message(role="user", text=text),), call="editing")


async def take_made_up(state: EditingState, task: EditTask, codebase: Codebase) -> tuple[str, ...]:
    """The numbers of issues that the newest edit made up, and its entries of the changelog where
    it was to write none; those of which its model was not told."""
    diff = state.patches[-1].diff
    found = await find_made_up_numbers(diff, task.issue, codebase)
    if task.habits.forbids_entry(task.issue.number):
        found += tuple(filter(is_changelog, list_paths(diff)))
    new = tuple(one for one in dict.fromkeys(found) if one not in state.made_up)
    state.made_up += new
    return new


def read_end(task: EditTask, state: EditingState, reply: str) -> ReplyKind | Malformed | None:
    """What a reply says if it ends the work without an edit of its own; None if it does not, or may
    not: one that was shown is right, or nothing is left to fix."""
    if not task.unseen or some_tags(reply, "fixed", "edit", "script") != {"fixed": ""}:
        return read_informed(task.direction, state, reply)
    if any(run.exit_code == NOT_FIXED for run in state.base):
        return Malformed("Your script reports the issue on the code as it is: something is left.")
    state.patches = []
    return ReplyKind.APPROVED


def take_summary(state: EditingState, reply: str, *blocks: str) -> None:
    """Keep the summary that stands in `reply` beside one of its `blocks`, if there is one."""
    found = some_tags(reply, "summary", *blocks)
    if not isinstance(found, Malformed) and (text := found.get("summary", "").strip()):
        state.said = textwrap.shorten(text, 800, placeholder=" …")


def read_informed(
    direction: Direction, state: EditingState, reply: str
) -> ReplyKind | Malformed | None:
    """What a reply says of the edits that were shown; None if it does not end with one."""
    said = some_tags(reply, "fault", "same", "edit") if direction.others else {}
    if isinstance(said, Malformed):
        return None
    number, _, text = said.get("fault", "").strip().partition(":")
    if (other := direction.find_shown(number)) and text.strip():
        state.fault = textwrap.shorten(text, 300, placeholder=" …")
        state.fault_of = other.sample
    if "same" not in said or "edit" in said:
        return None
    other = direction.find_shown(said["same"])
    if other is None:
        most = len(direction.others)
        return Malformed(f"There is no such edit: name one by its number, 1 to {most}.")
    state.patches.append(Patch(diff=other.diff))
    return ReplyKind.APPROVED


class EditingMachine(Machine[EditingState]):
    """Replies: `<edit>`, then `<edit>`, `<script>` or `<approve/>`; `<same>` in place of an edit
    that was shown, and `<fault>` beside any of these.

    An `<approve/>` beside a block counts if the edit turns the script's exit code from 2 to 0 and
    breaks no test of the repository: it saves one call.
    """

    def __init__(self, resources: Resources, task: EditTask) -> None:
        options = resources.options
        super().__init__(
            resources.model,
            call=f"editing/{task.sample}",
            attempts=options.attempts,
            temperature=options.temperature,
        )
        self._resources = resources
        self._codebase = resources.codebase
        self._options = options
        self._opening = opening(resources, task.issue, task.context, task.habits)
        self._task = task

    @property
    def system(self) -> str:
        return self._opening.system

    def start(self) -> EditingState:
        assert self._task.seed is not None
        script, run = self._task.seed
        values = self._task.to_template_values()
        return EditingState(
            messages=list(self._opening.messages),
            pending=render(
                "editing/write",
                script=script.text,
                run=run,
                ahead=self._options.approve_ahead,
                summaries=self._options.summaries,
                **values,
            ),
            scripts=[script.text],
            base=[run],
            approach=self._task.approach,
            informed_by=self._task.informed_by,
        )

    async def read(self, state: EditingState, reply: str) -> ReplyKind | Malformed:
        if self._options.summaries:
            take_summary(state, reply, "edit", "script")
        if (said := read_end(self._task, state, reply)) is not None:
            return said
        pair = some_tags(reply, "edit", "script", "approve")
        if not isinstance(pair, Malformed) and "edit" in pair and pair.get("script", "").strip():
            state.approved_ahead = "approve" in pair and self._options.approve_ahead
            problem = await self._take_edit(state, pair["edit"])
            if problem is None:
                state.scripts.append(pair["script"] + "\n")
            return problem or ReplyKind.REVISED
        allowed = ("edit", "script", "approve") if state.edited else ("edit",)
        tag, approves = only_tag_or_approval(reply, *allowed)
        state.approved_ahead = approves and self._options.approve_ahead
        match tag:
            case Malformed() as malformed:
                return malformed
            case Tag("approve"):
                return ReplyKind.APPROVED
            case Tag("script", body):
                if not body.strip():
                    return Malformed("The <script> block is empty. Send the whole script.")
                state.scripts.append(body + "\n")
            case Tag(_, body):
                return await self._take_edit(state, body) or ReplyKind.REVISED
        return ReplyKind.REVISED

    async def _take_edit(self, state: EditingState, body: str) -> Malformed | None:
        edited = await read_edit(
            body,
            self._codebase,
            known=[file.path for file in self._task.context.files],
            never_touch=self._options.never_touch,
        )
        if isinstance(edited, Malformed):
            return edited
        checks = "checks" not in self._options.without
        warning = checks and (
            self._task.direction.find_repetition(edited.patch.diff)
            or await self._check_syntax(edited)
        )
        if warning and warning not in state.warnings:
            state.warnings.append(warning)
            return Malformed(warning)
        state.patches.append(edited.patch)
        return None

    async def _check_syntax(self, edited: ParsedEdit) -> str:
        """A sentence if new files, or files that parsed before, do not parse; else empty."""
        new = {path: data for path, data in edited.contents.items() if data is not None}
        language = main_language(self._codebase)
        errors = await language.find_syntax_errors(new)
        there = [path for path in errors if path in self._codebase.files]
        old = await self._codebase.read_all(there)
        before = await language.find_syntax_errors(old)
        found = [f"{path}, {what}" for path, what in errors.items() if path not in before]
        if not found:
            return ""
        return (
            f"With your edit a file is no longer valid {language.facts.name}, so nothing was run.\n"
            + "\n".join(found[:5])
            + "\nSend the whole edit again. (If you are sure of it, send the same once more.)"
        )

    async def execute(self, state: EditingState) -> str | None:
        new_script = len(state.base) < len(state.scripts)
        diff = state.patches[-1].diff
        script, batch = state.scripts[-1], [diff, ""] if new_script else [diff]
        runs, report = await gather_two(
            gather_all(self._resources.run_script(script, one) for one in batch),
            self._task.compare(diff),
        )
        state.edited.append(runs[0])
        state.base.extend(runs[1:])
        state.broken.append(report.broken if report else ())
        state.tested = len(report.before.passed) if report else 0
        near = describe_near_tests(report, diff)
        checks = "checks" not in self._options.without
        made_up = await take_made_up(state, self._task, self._codebase) if checks else ()
        if state.approved_ahead and _is_fixed_cleanly(state) and not (near.to_mend or made_up):
            return None
        return render(
            "editing/review",
            language=self._resources.describe_language(),
            before=state.base[-1],
            after=state.edited[-1],
            diff=diff,
            **tell_broken(report),
            near=near,
            made_up=made_up,
            ahead=self._options.approve_ahead,
            summaries=self._options.summaries,
        )


def _is_fixed_cleanly(state: EditingState) -> bool:
    before, after = state.base[-1], state.edited[-1]
    return reports_by_itself(before) and after.passed and not state.broken[-1]
