"""Why a run may not begin or continue."""

from typing import Literal, NamedTuple

from bot.data.github_facts import ExistingWork
from bot.data.run import QuotaLimit, RunStatus


class Stranger(NamedTuple):
    trust: tuple[str, ...]
    """The repository's setting that says who may."""


class OptOut(NamedTuple):
    label: str


Refusal = (
    Stranger
    | QuotaLimit
    | OptOut
    | ExistingWork
    | Literal["edited", "only pictures", "switched off", "label removed"]
)
"""`only pictures`: the issue has no text but its title, and its attachments could not be read.
`edited`: the issue was edited after the request, and nobody knows what the requester saw.
`switched off`: by the repository's settings. `label removed`: its webhook is late or lost."""


def end_status(refusal: Refusal) -> RunStatus:
    if refusal == "label removed":
        return RunStatus.STOPPED
    if refusal in ("edited", "only pictures") or isinstance(refusal, ExistingWork):
        return RunStatus.NEEDS_CONFIRMATION
    return RunStatus.REFUSED
