"""How far a run has come, as typed events.

The pipeline emits them through `Workspace.report`; `bot.data.progress` folds them into what people
see. What a resumed run finds in its store is reported again.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

Stage = Literal["environment", "context", "edits", "choice", "reproduction"]


class Count(NamedTuple):
    done: int
    total: int
    what: Literal["files", "tests"]


class Doing(NamedTuple):
    text: str
    counted: Count | None = None
    """The numbers in the sentence; None if nothing is counted."""


class StageBegan(NamedTuple):
    stage: Stage
    doing: str


class FilesRead(NamedTuple):
    done: int
    total: int


class Written(NamedTuple):
    what: Literal["script", "edit"]
    sample: int
    state: Literal["begun", "written", "dropped"]
    """`dropped`: its sample ended without one."""


class SuiteRan(NamedTuple):
    key: str
    """Identifies the run, which may be reported several times."""
    tests: int
    is_unedited: bool


class EnvironmentFound(NamedTuple):
    line: str
    """How well the environment works. Untrusted."""


class CommentsHeard(NamedTuple):
    comments: int
    """Written since the run began, and known to what begins from now on."""


class Spent(NamedTuple):
    dollars: float
    """The cost of the whole run so far, at list prices."""
    ceiling: float
    """What the run may cost, as far as is known."""


Event = (
    StageBegan | Doing | FilesRead | Written | SuiteRan | EnvironmentFound | CommentsHeard | Spent
)
OnProgress = Callable[[Event], None]
