"""A dry run: the probable place of the cause, a reproduction script, and the cost of a fix."""

from __future__ import annotations

from pydantic import Field

from pipeline.data.code_places import Context
from pipeline.data.options import Options
from pipeline.data.types import NOT_FIXED, Issue, TestScript, Usage
from pipeline.generation.diversity import assign_generators
from pipeline.generation.exploring import CONTEXT_TOKENS
from pipeline.generation.testing import write_script
from pipeline.languages.registry import main_language
from pipeline.localisation.tree_search import find_beam
from pipeline.models.base import ModelProfile
from pipeline.resources import Resources
from prompts.text import describe_dollars
from sandbox.frozen import Frozen, replace
from sandbox.program import Execution

ESTIMATE_KEY = "estimate"
USUAL_TURNS = 8
"""Replies of an exploring machine with setbacks. A rule of thumb."""
_SYSTEM = 1_000
_REPORT = 1_500
"""Tokens of a report on executions."""
_REPLY = 1_500
"""Tokens of a reply, reasoning in words included. A rule of thumb, like the others."""


class Plan(Frozen):
    """The starting point of a fix. Contains no edit."""

    files: tuple[str, ...]
    """Paths, most useful first."""
    script: TestScript | None = None
    script_suffix: str = ""
    run: Execution | None = None
    nothing: str = ""
    """What the model answers in place of a script that it sees no need for. Untrusted."""
    estimate: CostEstimate

    @property
    def reproduced(self) -> bool:
        """Whether the script reports the issue."""
        return self.run is not None and self.run.exit_code == NOT_FIXED


async def plan(issue: Issue, context: Context, resources: Resources) -> Plan:
    """Plan with one testing machine's script, saved under the key of a real run's first sample.

    Raises:
        ModelError, SandboxError: call again to resume.
    """
    written = await write_script(issue, resources, sample=0)
    best = written.best()
    return Plan(
        files=tuple(file.path for file in context.files),
        script=best[0] if best else None,
        script_suffix=main_language(resources.codebase).script_suffix,
        run=best[1] if best else None,
        nothing=written.why,
        estimate=estimate_cost(context, resources.model.profile, resources.options),
    )


class CostEstimate(Frozen):
    """Tokens and US dollars at list prices for testing and editing."""

    usage: Usage = Usage()
    """The usage of all samples, with some setbacks; `dollars` is its price."""
    least: float = Field(default=0, ge=0)
    """If the first wave is enough, and each of its machines ends with its first reply."""
    dollars: float = Field(ge=0)
    """The other end of the range: all samples, with some setbacks."""
    most: float = Field(ge=0)
    """The cost in US dollars if every machine used all its attempts, or the run's ceiling."""
    turns: int = 0
    """The replies that `usage` assumes of each exploring machine; 0 if there is none."""


def estimate_cost(context: Context, profile: ModelProfile, options: Options) -> CostEstimate:
    """Estimate before the first sample."""
    opening = _SYSTEM + sum(file.tokens for file in context.files)
    turns = min(USUAL_TURNS, options.turns)
    first = min(options.first_wave, options.samples) if options.adaptive else options.samples
    # A reply may approve its own block: then one is enough.
    quick = _samples_usage(opening, replace(options, samples=first), 1, 1)
    # The work, one revision, the approval.
    usual = _samples_usage(opening, options, min(3, options.attempts), turns)
    most = _samples_usage(opening, options, options.attempts, options.turns)
    least, dollars, bound = (
        min(profile.price.of(usage), options.dollars) for usage in (quick, usual, most)
    )
    explores = turns if _explores(options) else 0
    return CostEstimate(usage=usual, least=least, dollars=dollars, most=bound, turns=explores)


def _explores(options: Options) -> bool:
    dealt = assign_generators(options.generators, options.samples)
    return any(generator.machine == "explore" for generator in dealt)


def price_range(low: float, high: float) -> str:
    """Such as `$0.20–0.60`, or `$0.20` if both are the same in cents."""
    least, most = f"{low:.2f}", f"{high:.2f}"
    return describe_dollars(high) if least == most else f"${least}–{most}"


def assumption(estimate: CostEstimate) -> str:
    """What the estimate rests on that nobody measured, in words; empty for nothing of the kind."""
    taken = f"each sample that explores takes {estimate.turns} replies"
    return f" (the upper end if {taken})" if estimate.turns else ""


def samples_sentence(estimate: CostEstimate, options: Options) -> str:
    """What is about to be written and its approximate cost, as a sentence."""
    wave, samples = options.first_wave, options.samples
    number = f"{wave} to {samples}" if options.adaptive and samples > wave else f"{samples}"
    one = "a script and an edit"
    what = f"Writing {one}" if number == "1" else f"Drawing {number} samples, {one} each"
    if not estimate.dollars:
        return f"{what}."
    cost = f"about {price_range(estimate.least, estimate.dollars)}{assumption(estimate)}"
    return f"{what}, for {cost}, at most ${estimate.most:.2f}."


def _samples_usage(opening: int, options: Options, replies: int, turns: int) -> Usage:
    """The opening is written to the cache once and read by every other question; `turns` are the
    replies of an exploring machine."""
    total = Usage(cache_write=opening) + Usage(cache_read=-opening)
    if options.searches:
        for _ in range(2 * find_beam(options.samples).width):
            seen = min(opening, _SYSTEM + CONTEXT_TOKENS)
            # A machine that searches replies about five times.
            total = total + _conversation_usage(seen, min(turns, 5))
    for generator in assign_generators(options.generators, options.samples):
        total = total + _conversation_usage(_SYSTEM, replies)
        if generator.machine == "explore":
            total = total + _conversation_usage(min(opening, _SYSTEM + CONTEXT_TOKENS), turns)
        else:
            total = total + _conversation_usage(opening, replies)
    return total


def _conversation_usage(opening: int, replies: int) -> Usage:
    """One machine whose opening is cached; each question reads all but its new end from the
    cache."""
    # 1,500 tokens for the first task: the script and its run.
    grown = [opening + 1_500 + n * (_REPLY + _REPORT) for n in range(replies)]
    return Usage(
        cache_read=opening + sum(grown[:-1]),
        cache_write=grown[-1] - opening,
        output=replies * _REPLY,
    )
