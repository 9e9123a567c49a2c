"""One sample's scripts that are to report the issue, and how they ended on the unedited code."""

import re

from pydantic import Field

from pipeline.data.types import NOT_FIXED, TestScript
from pipeline.replies import NothingToFix
from pipeline.state import State
from sandbox.program import Execution

_OWN_FAULT = re.compile(r"^(?:Name|Syntax|ModuleNotFound|Import)Error: ", re.MULTILINE)


def reports_by_itself(run: Execution) -> bool:
    """Whether a script reports the issue by its own verdict: it printed something, and it did not
    end in an exception of its own. Only then can an approval in advance count."""
    output = run.output.strip()
    return run.exit_code == NOT_FIXED and bool(output) and not _OWN_FAULT.search(output)


class TestingState(State):
    __test__ = False
    scripts: list[str] = Field(default_factory=list[str])
    runs: list[Execution] = Field(default_factory=list[Execution])
    """`runs[i]` is `scripts[i]` on the unedited code."""
    approved_ahead: bool = False
    """Whether the reply with the newest script approves it, on condition that it reports the
    issue."""
    nothing: NothingToFix | None = None
    """Set if the model says that no script can show the issue."""
    why: str = ""
    """The model's answer to the reporter then. Untrusted."""

    def best(self) -> tuple[TestScript, Execution] | None:
        """The last script that reports the issue; else the last that ran; None if no script ran."""
        ran = list(zip(self.scripts, self.runs, strict=False))
        reporting = [pair for pair in ran if pair[1].exit_code == NOT_FIXED]
        if not ran:
            return None
        script, run = (reporting or ran)[-1]
        return TestScript(text=script), run
