"""A dry run: where the cause seems to be, a reproduction script, and what a fix would cost."""

from __future__ import annotations

from pydantic import Field

from pipeline.generation.testing import NOT_FIXED, TestingMachine, TestingState
from pipeline.models.base import ModelProfile
from pipeline.on_budget import drive_on_budget
from pipeline.options import Options
from pipeline.resources import Resources
from pipeline.types import Context, Frozen, Issue, TestScript, Usage
from sandbox.base import Execution

ESTIMATE_KEY = "estimate"
TYPICAL_REPLIES = 3
"""Replies that a machine takes when all goes well: its work, one revision, its approval."""
_SYSTEM = 1_000
_TASK = 1_500
"""Tokens of a first task: the script and its run."""
_REPORT = 1_500
"""Tokens of a report on executions."""
_REPLY = 1_500
"""Tokens of a reply, reasoning in words included. A rule of thumb, as the others are."""


class Plan(Frozen):
    """What a fix would begin with. Nothing of it is an edit."""

    files: tuple[str, ...]
    """Paths, most useful first."""
    script: TestScript | None = None
    run: Execution | None = None
    """The script on the code as it is."""
    estimate: CostEstimate

    @property
    def reproduced(self) -> bool:
        """The script says that the issue is there."""
        return self.run is not None and self.run.exit_code == NOT_FIXED


async def plan(issue: Issue, context: Context, resources: Resources) -> Plan:
    """One testing machine's script, saved where the first sample of a real run keeps its own.

    Raises:
        ModelError, SandboxError: see there; call again to go on.
    """
    model, options = resources.model, resources.options
    machine = TestingMachine(model, resources.sandbox, issue, options, sample=0)
    state = await drive_on_budget(machine, TestingState, resources.store, "testing/0")
    best = state.best()
    return Plan(
        files=tuple(file.path for file in context.files),
        script=best[0] if best else None,
        run=best[1] if best else None,
        estimate=estimate_cost(context, model.profile, options),
    )


class CostEstimate(Frozen):
    """Tokens and US dollars at list prices of testing and editing."""

    usage: Usage = Usage()
    """Of all samples, with as many replies as is typical."""
    dollars: float = Field(ge=0)
    most: float = Field(ge=0)
    """If every machine used up its attempts."""


def estimate_cost(context: Context, profile: ModelProfile, options: Options) -> CostEstimate:
    """Before the first sample is started; every sample counts, even if fewer may be enough."""
    opening = _SYSTEM + sum(file.tokens for file in context.files)
    typical = _samples_usage(opening, options.samples, min(TYPICAL_REPLIES, options.attempts))
    most = _samples_usage(opening, options.samples, options.attempts)
    return CostEstimate(
        usage=typical, dollars=profile.price.of(typical), most=profile.price.of(most)
    )


def samples_sentence(estimate: CostEstimate, options: Options) -> str:
    """What is about to be written, and about what it will cost, in words."""
    wave, samples = options.first_wave, options.samples
    number = f"{wave} to {samples}" if options.adaptive and samples > wave else f"{samples}"
    price = f"; all of them cost about ${estimate.dollars:.2f}" if estimate.dollars else ""
    return f"writing {number} tests and edits{price}"


def _samples_usage(opening: int, samples: int, replies: int) -> Usage:
    """The opening is written to the cache once and read by every other question."""
    total = Usage(cache_write=opening) + Usage(cache_read=-opening)
    for _ in range(samples):
        total = (
            total + _conversation_usage(_SYSTEM, replies) + _conversation_usage(opening, replies)
        )
    return total


def _conversation_usage(opening: int, replies: int) -> Usage:
    """One machine whose opening is in the cache; each question but its new end is read from it."""
    grown = [opening + _TASK + n * (_REPLY + _REPORT) for n in range(replies)]
    return Usage(
        cache_read=opening + sum(grown[:-1]),
        cache_write=grown[-1] - opening,
        output=replies * _REPLY,
    )
