"""A dry run: the probable place of the cause, a reproduction script, and the cost of a fix."""

from pipeline.data.code_places import Context
from pipeline.data.options import Options
from pipeline.data.types import NOT_FIXED, Issue, TestScript
from pipeline.generation.testing import write_script
from pipeline.languages.registry import main_language
from pipeline.resources import Resources
from prompts.text import describe_dollars
from sandbox.frozen import Frozen
from sandbox.program import Execution


class Plan(Frozen):
    """The starting point of a fix. Contains no edit."""

    files: tuple[str, ...]
    """Paths, most useful first."""
    script: TestScript | None = None
    script_suffix: str = ""
    run: Execution | None = None
    nothing: str = ""
    """What the model answers in place of a script that it sees no need for. Untrusted."""
    ceiling: float = 0
    """What a fix may cost, in US dollars; 0 where the model is free."""

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
        ceiling=resources.ceiling,
    )


def price_range(low: float, high: float) -> str:
    """Such as `$0.20–0.60`, or `$0.20` if both are the same in cents."""
    least, most = f"{low:.2f}", f"{high:.2f}"
    return describe_dollars(high) if least == most else f"${least}–{most}"


def samples_sentence(options: Options, ceiling: float) -> str:
    """What is about to be written and what the run may cost, as a sentence."""
    wave, samples = options.first_wave, options.samples
    number = f"{wave} to {samples}" if options.adaptive and samples > wave else f"{samples}"
    one = "a script and an edit"
    what = f"Writing {one}" if number == "1" else f"Drawing {number} samples, {one} each"
    return f"{what}, for at most ${ceiling:.2f}." if ceiling else f"{what}."
