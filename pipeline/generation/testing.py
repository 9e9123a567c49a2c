"""Writes a script that reports the issue on the unedited code (CodeMonkeys, section 2.2)."""

from pipeline.data.progress import Written
from pipeline.data.types import NOT_FIXED, Issue
from pipeline.generation.scripts import TestingState, reports_by_itself
from pipeline.machine import Machine
from pipeline.models.base import Message
from pipeline.replies import Malformed, Tag, only_tag_or_approval, read_no_issue
from pipeline.resources import Resources, drive_on_budget
from pipeline.state import ReplyKind
from prompts.templates import render


class TestingMachine(Machine[TestingState]):
    """Replies: `<script>` with a whole script, then `<script>` again or `<approve/>`; `<no_issue>`
    instead of the first script, or `<fixed/>` for one that passes, if there is nothing to fix.

    An `<approve/>` beside a script counts if the script reports the issue: it saves one call.
    """

    __test__ = False

    def __init__(self, resources: Resources, issue: Issue, *, sample: int) -> None:
        options = resources.options
        super().__init__(
            resources.model,
            call=f"testing/{sample}",
            attempts=options.attempts,
            temperature=options.temperature,
        )
        self._resources = resources
        self._issue = issue

    @property
    def system(self) -> str:
        return self._render(
            "testing/system", seconds=f"{self._resources.options.execution_seconds:g}"
        )

    def _render(self, name: str, **values: object) -> str:
        options, language = self._resources.options, self._resources.describe_language()
        shared = {"language": language, "ahead": options.approve_ahead, "triage": options.triage}
        return render(name, **shared, **values)

    def start(self) -> TestingState:
        shared = Message(role="user", text=render("shared/issue", issue=self._issue))
        return TestingState(messages=[shared], pending=self._render("testing/write"))

    async def read(self, state: TestingState, reply: str) -> ReplyKind | Malformed:
        options = self._resources.options
        first = ("script", "no_issue") if options.triage else ("script",)
        later = ("script", "approve", "fixed") if options.triage else ("script", "approve")
        allowed = later if state.runs else first
        tag, approves = only_tag_or_approval(reply, *allowed)
        state.approved_ahead = approves and options.approve_ahead
        match tag:
            case Malformed() as malformed:
                return malformed
            case Tag("approve" | "fixed" as said):
                if state.runs[-1].exit_code != {"approve": NOT_FIXED, "fixed": 0}[said]:
                    return Malformed(self._render("testing/not_failing", run=state.runs[-1]))
                return ReplyKind.APPROVED
            case Tag("no_issue", body):
                found = read_no_issue(body)
                if isinstance(found, Malformed):
                    return found
                state.nothing, state.why = found
                return ReplyKind.APPROVED
            case Tag(_, body):
                if not body.strip():
                    return Malformed("The <script> block is empty. Send the whole script.")
                state.scripts.append(body + "\n")
                return ReplyKind.REVISED

    async def execute(self, state: TestingState) -> str | None:
        run = await self._resources.run_script(state.scripts[-1])
        state.runs.append(run)
        if state.approved_ahead and reports_by_itself(run):
            return None
        return self._render("testing/review", run=run)


async def write_script(issue: Issue, resources: Resources, *, sample: int) -> TestingState:
    """Have the model of `resources` write the script of one sample, or load it.

    Raises:
        ModelError, SandboxError: call again to resume.
    """
    machine = TestingMachine(resources, issue, sample=sample)
    state = await drive_on_budget(machine, TestingState, resources.store, f"testing/{sample}")
    resources.report(Written("script", sample, "written" if state.scripts else "dropped"))
    return state
