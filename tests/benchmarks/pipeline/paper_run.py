"""A run of the paper's size, replayed over real sockets: 10 samples, 8 replies a machine.

Replies are recorded and executions are told, so that a replay is about tokens alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from capuchin_demo.recorded.prompt_cache import MINIMUM_TOKENS, count_tokens
from capuchin_demo.recorded.recording import ReceivedRequest, Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.presets import apply_preset
from pipeline.data.types import Issue, NoFix, Selection
from pipeline.lab.solving import CostLine, cost_table
from pipeline.models.metering import Meter
from pipeline.models.providers.anthropic import AnthropicModel
from pipeline.models.providers.provider_http import Endpoint
from pipeline.models.spec import ModelSpec, look_up
from pipeline.models.wrappers import ConcurrencyWindow, MeteredModel, ThrottledModel
from pipeline.resources import Workspace
from pipeline.solve import Solver
from pipeline.store import DirStore
from pipeline.workflows.outcome import Models
from sandbox.program import Execution, Program
from tests.support.data.repositories import make_codebase
from tests.support.sandboxes import WithoutCommands

SAMPLES, REPLIES = 10, 8
LONG = "".join(f"def f_{n}(x):\n    return x * {n} + 1\n\n\n" for n in range(2200))
ISSUE = Issue(
    repository="acme/large", title="f_1 is wrong", body="f_1 in large.py adds too little."
)
WORDS = "I look at what the run says and think about it at some length.\n" * 20
SUMMARY = f"<summary>\n{WORDS[:400]}\n</summary>\n\n"
SCRIPT = f"{WORDS}<script>\nimport sys\nsys.exit(2)\n</script>"
TEST_FILE = (
    f"{WORDS}<test_file>\ndef test_f_1():\n    assert f_1(1) == 3\n</test_file>\n"
    "<title>Mend f_1</title>\n<cause>It added too little.</cause>\n<change>More.</change>"
)


class PassesWithEdit(WithoutCommands):
    """A sandbox in which whatever has an edit passes, and nothing else does."""

    async def run(self, program: Program) -> Execution:
        if program.script is not None:
            is_control = "importlib.import_module" in program.script  # it must fail
            code = 0 if program.diffs and not is_control else 2
            return Execution(exit_code=code, output="it was looked at\n" * 200, seconds=1)
        # The reproduction test, alone and with an edit: the repository has no other.
        passed = len(program.diffs) > 1
        output = "Ran 1 test in 0.1s\n\nOK\n" if passed else "Ran 1 test in 0.1s\n\nFAILED\n"
        return Execution(exit_code=0 if passed else 1, output=output, seconds=1)


class PaperRun(NamedTuple):
    result: Selection | NoFix
    lines: list[CostLine]
    """The run's accounts in the form of the paper's Table 1."""
    dollars: float
    """What the meter counted."""
    cacheable: int
    """Tokens that a perfect cache would have served to the solver."""
    cached: int
    """Tokens that it was served from the cache."""
    requests: list[ReceivedRequest]


PAPER = apply_preset(Options(strategy="codemonkeys", dollars=1000))


async def replay(folder: Path, options: Options = PAPER) -> PaperRun:
    """The whole run with its accounting, kept in `folder`; the scout is a model of one's own."""
    codebase = await make_codebase(folder / "r.git", {"large.py": LONG, "small.py": "x = 1\n"})
    written = {"version": 1, "note": "Made up.", "answers": _answers(options)}
    solving, scouting = (RecordedServer(Recording.model_validate(written)) for _ in range(2))
    store = DirStore(folder / "store")
    meter = await Meter.open(store, 1000)
    async with solving.serve() as url, scouting.serve() as other:
        clients = [_client("claude-sonnet-4-6", url), _client("claude-haiku-4-5", other)]
        result = await _solve(
            codebase,
            store,
            [ThrottledModel(MeteredModel(c, meter), ConcurrencyWindow(8)) for c in clients],
            options,
        )
        for client in clients:
            await client.aclose()
    prices = {f"recorded-{client.profile.name}": client.profile.price for client in clients}
    asked = solving.requests
    return PaperRun(
        result=result,
        lines=cost_table(meter.accounts(), prices),
        dollars=meter.ledger.dollars,
        cacheable=sum(most_cacheable(one, asked[:n]) for n, one in enumerate(asked)),
        cached=sum(a.usage.cache_read for a in meter.accounts() if "sonnet" in a.model),
        requests=[*scouting.requests, *asked],
    )


async def _solve(
    codebase: Codebase, store: DirStore, models: Sequence[ThrottledModel], options: Options
) -> Selection | NoFix:
    solver, scout = models
    workspace = Workspace(PassesWithEdit(), codebase, store, options)
    return await Solver(Models(solver=solver, scout=scout), workspace).solve(ISSUE)


def _client(name: str, url: str) -> AnthropicModel:
    profile = look_up(ModelSpec(provider="anthropic", name=name)).profile
    return AnthropicModel(profile, Endpoint(url, "recorded"))


def _answers(options: Options) -> list[dict[str, object]]:
    relevant = "RELEVANCE: Relevant\nSUMMARY: It holds f_1."
    answers: list[dict[str, object]] = [
        {"call": "relevance", "reply": relevant},
        {"call": "ranking", "reply": f"{WORDS}<ranking>\nlarge.py\nsmall.py\n</ranking>"},
        {"call": "approaches", "reply": "None."},
        {"call": "testing", "turn": REPLIES - 1, "reply": "<approve/>"},
        {"call": "testing", "reply": SCRIPT},
        {"call": "selecting", "turn": REPLIES - 1, "reply": "<choice>1</choice>"},
        *(
            {"call": "selecting", "turn": n, "reply": SCRIPT.replace("(2)", f"(2 + 0 * {n})")}
            for n in range(REPLIES)
        ),
        {"call": "reproduction", "reply": TEST_FILE},
    ]
    for sample in range(SAMPLES):
        for turn in range(REPLIES):
            edit = _edit(sample, turn)
            if options.summaries:
                edit = SUMMARY + edit
            answers.append({"call": f"editing/{sample}", "turn": turn, "reply": edit})
    return answers


def _edit(sample: int, turn: int) -> str:
    return (
        f"{WORDS}<edit>\nlarge.py\n<<<<<<< SEARCH\n    return x * 1 + 1\n=======\n"
        f"    return x * 1 + 2 + {turn} + {sample}\n>>>>>>> REPLACE\n</edit>"
    )


def most_cacheable(asked: ReceivedRequest, before: Sequence[ReceivedRequest]) -> int:
    """The most tokens that any cache could have served: the longest opening asked before."""
    most = 0
    for other in before:
        shared = 0
        for ours, theirs in zip(asked.parts, other.parts, strict=False):
            if ours.text != theirs.text:
                break
            shared += count_tokens(ours.text)
        most = max(most, shared)
    return most if most >= MINIMUM_TOKENS else 0
