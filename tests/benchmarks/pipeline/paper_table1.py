"""What a run of the paper's size costs, in the form of its Table 1, and what is saved of it."""

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import as_file
from importlib.resources import files as files_of
from pathlib import Path
from typing import NamedTuple

from bot.settings import Settings
from capuchin_demo.package import fetch_release, unpack
from capuchin_demo.recorded.recording import RecordedAnswer, Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.options import Options
from pipeline.data.types import Issue, Selection, Usage
from pipeline.lab.render import table
from pipeline.lab.solving import CostLine, cost_cells
from pipeline.models.metering import Meter
from pipeline.models.providers.anthropic import AnthropicModel
from pipeline.models.providers.provider_http import Endpoint
from pipeline.models.spec import ModelSpec, look_up
from pipeline.models.wrappers import MeteredModel
from pipeline.resources import Workspace
from pipeline.solve import Solver
from pipeline.store import DirStore
from pipeline.workflows.outcome import Models
from sandbox.frozen import replace
from sandbox.program import Execution, Program
from tests.benchmarks.pipeline.paper_run import replay
from tests.benchmarks.table import Row
from tests.support.data.repositories import make_codebase
from tests.support.sandboxes import WithoutCommands

PAPER_DOLLARS = 2300 / 500
"""CodeMonkeys, section 1: about 2300 USD for the 500 issues of SWE-bench Verified."""


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        run = await replay(Path(folder))
    sys.stdout.write(f"{_render_costs(run.lines)}\n{_tokens(run.lines)}\n\n")
    separate, riding = await compare()
    read = 100 * run.cached / run.cacheable
    return [
        Row("input read from the cache, of what could be", read, "%", "theoretical maximum", 100),
        Row("price of a full 10 x 8 run", run.dollars, "$", "the paper's average", PAPER_DOLLARS),
        Row(
            "calls of the demo's recorded run, the same edit chosen",
            riding.calls,
            "calls",
            "each approval in a turn of its own",
            separate.calls,
        ),
    ]


def _render_costs(lines: Sequence[CostLine]) -> str:
    whole = lines[-1].dollars if lines else 0.0
    head = ("Stage", "Calls", "Input", "Output", "Cache read", "Cache write", "Total", "%", "Read")
    rows = [(*cost_cells(line, whole), f"{_read_share(line.usage):.1f} %") for line in lines]
    return "\n".join(table(head, rows))


def _read_share(usage: Usage) -> float:
    """The per cent of the input tokens that the cache served."""
    whole = usage.input + usage.cache_write + usage.cache_read
    return 100 * usage.cache_read / whole if whole else 0.0


def _tokens(lines: Sequence[CostLine]) -> str:
    """The same table in tokens."""
    head = ("Stage", "Input", "Output", "Cache read", "Cache write")
    rows = [
        (line.stage, *(f"{n:,}" for n in (u.input, u.output, u.cache_read, u.cache_write)))
        for line in lines
        for u in [line.usage]
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (head, *rows)
    )


_MACHINES = re.compile(r"(testing|editing)/\d+")
_APPROVAL = "<approve/>"
_ISSUE = Issue(
    repository="acme/marshmallow",
    title="DateTime fields fail inside List and Tuple fields",
    body="AttributeError: 'List' object has no attribute 'opts' in fields.py.",
)


class Outcome(NamedTuple):
    calls: int
    """To the solver, of the whole run."""
    diff: str
    """The edit that was chosen."""


class ToldExecutions(WithoutCommands):
    """A sandbox in which scripts end as they ended when the demo's recording was written."""

    async def run(self, program: Program) -> Execution:
        if program.script is not None:
            broken = "fields.Sting" in program.script
            is_control = "importlib.import_module(name)" in program.script  # it must end with 2
            code = 1 if broken else 0 if program.diffs and not is_control else 2
            return Execution(exit_code=code, output="as told\n", seconds=1)
        passed = len(program.diffs) > 1
        output = "Ran 1 test in 0.1s\n\nOK\n" if passed else "Ran 1 test in 0.1s\n\nFAILED\n"
        return Execution(exit_code=0 if passed else 1, output=output, seconds=1)


async def compare() -> tuple[Outcome, Outcome]:
    """The demo's recorded run: with a turn of its own for each approval, and as it is.

    Raises:
        AssertionError: they choose different edits.
    """
    with as_file(files_of("capuchin_demo") / "recording.yml") as path:
        recording = Recording.load(path)
    package = unpack(fetch_release(Settings().data_dir / "cache"))
    files = {path: data.decode() for path, data in package.items() if path.startswith("src/")}
    split = replace(recording, answers=tuple(split_approvals(recording.answers)))
    before, after = await _replay(split, files), await _replay(recording, files)
    assert before.diff == after.diff
    return before, after


def split_approvals(answers: tuple[RecordedAnswer, ...]) -> Iterator[RecordedAnswer]:
    """`answers`, each approval that rides on a block in a turn of its own after it."""
    for answer in answers:
        block = answer.reply.rstrip().removesuffix(_APPROVAL)
        if not _MACHINES.fullmatch(answer.call) or block == answer.reply.rstrip():
            yield answer
            continue
        yield replace(answer, reply=block)
        turn = (answer.turn or 0) + 1
        yield replace(answer, reply=_APPROVAL, turn=turn)


async def _replay(recording: Recording, files: dict[str, str]) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        codebase = await make_codebase(Path(folder) / "r.git", files)
        store = DirStore(Path(folder) / "store")
        meter = await Meter.open(store, 1000)
        profile = look_up(ModelSpec(provider="anthropic", name="claude-sonnet-4-6")).profile
        server = RecordedServer(recording)
        async with server.serve() as url:
            client = AnthropicModel(profile, Endpoint(url, "recorded"))
            options = Options(samples=3, informed=0, nearby_seconds=0, dollars=1000)
            solver = Solver(
                Models(solver=MeteredModel(client, meter), scout=None),
                Workspace(ToldExecutions(), codebase, store, options),
            )
            result = await solver.solve(_ISSUE)
            await client.aclose()
        assert isinstance(result, Selection), result
        return Outcome(len(server.requests), result.candidate.patch.diff)
