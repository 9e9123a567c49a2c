"""The exploring machine: turns a second, cache reads, and the memory of many side by side."""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from capuchin_demo.recorded.prompt_cache import count_tokens
from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.codebase.commit import Codebase
from pipeline.concurrency import gather_all
from pipeline.data.code_places import Context, SourceFile
from pipeline.data.options import Options
from pipeline.data.types import Issue, Usage
from pipeline.generation.diversity import EditTask
from pipeline.generation.exploring import ExploringMachine, ExploringState
from pipeline.machine import drive
from pipeline.models.providers.anthropic import AnthropicModel
from pipeline.models.providers.provider_http import Endpoint
from pipeline.models.spec import ModelSpec, look_up
from pipeline.models.wrappers import CacheWarmup
from pipeline.resources import Workspace
from pipeline.state import Phase
from pipeline.store import DirStore
from sandbox.base import Sandbox
from sandbox.engine import EnvironmentRequest
from tests.benchmarks.pipeline.paper_run import most_cacheable
from tests.benchmarks.sandbox.warm_engine import engine
from tests.benchmarks.table import Row
from tests.support.data.repositories import make_codebase
from tests.support.docker import PACKAGE, build_environment

EXPLORERS = 20
MEGABYTES = 300
"""The memory that they may take together, beyond the sandboxes."""


async def measure() -> list[Row]:
    alone = await measure_explorers(1, 40)
    many = await measure_explorers(EXPLORERS, 10)
    return [
        Row(
            "turns of one explorer, with a model that answers at once",
            alone.turns / alone.seconds,
            "turns/s",
            f"{EXPLORERS} side by side",
            many.turns / many.seconds,
        ),
        Row(
            "40 turns: input read from the cache, of what could be",
            100 * alone.cached / alone.cacheable,
            "%",
            "required",
            95,
        ),
        Row(
            "the same, of what could be if no old result were left out",
            100 * alone.cached / alone.unabridged,
            "%",
            "theoretical maximum",
            100,
        ),
        Row(
            f"memory of {EXPLORERS} explorers beyond the sandboxes",
            many.megabytes,
            "MB",
            "required",
            MEGABYTES,
        ),
    ]


ISSUE = Issue(repository="acme/shop", title="total subtracts", body="`total(1, 2)` gives -1.")
CONTEXT = "".join(f"def f_{n}(x):\n    return x * {n} + 1\n\n\n" for n in range(1500))
LINES = 700
"""Of each command's output: some 3,300 characters, a page of code."""
WORDS = "I look at what the last command says, and think about it at some length.\n" * 8


class Explored(NamedTuple):
    """The measurements of all explorers together."""

    turns: int
    seconds: float
    cached: int
    """Tokens read from the cache."""
    cacheable: int
    """Tokens that a perfect cache would have served to the requests as they were sent."""
    unabridged: int
    """Tokens that it would have served if no old result were ever left out."""
    megabytes: float
    """The most memory of this process, beyond what it takes before the first explorer."""


def recording(turns: int) -> Recording:
    """Each explorer looks around, edits once, and submits."""
    answers: list[dict[str, object]] = [
        {
            "call": "exploring",
            "turn": turn,
            "reply": f"{WORDS}<bash>\nseq {turn * 1000} {turn * 1000 + LINES}\n</bash>",
        }
        for turn in range(turns - 2)
    ]
    fix = "sed -i 's/a - b/a + b/' src/shop/total.py"
    answers.append({"call": "exploring", "turn": turns - 2, "reply": f"<bash>\n{fix}\n</bash>"})
    answers.append({"call": "exploring", "reply": "<submit/>"})
    return Recording.model_validate({"version": 1, "note": "Made up.", "answers": answers})


async def explore(
    folder: Path, sandbox: Sandbox, codebase: Codebase, *, number: int, turns: int
) -> Explored:
    """Let `number` explorers take `turns` replies each at the same time."""
    server = RecordedServer(recording(turns))
    before = resident_megabytes("VmRSS")
    async with server.serve() as url:
        profile = look_up(ModelSpec(provider="anthropic", name="claude-sonnet-4-6")).profile
        client = AnthropicModel(profile, Endpoint(url, "recorded"))
        options = Options(turns=turns, dollars=10_000)
        workspace = Workspace(sandbox, codebase, DirStore(folder), options)
        resources = workspace.with_model(CacheWarmup(client))
        file = SourceFile(path="src/shop/large.py", text=CONTEXT, tokens=19_000)
        started = time.monotonic()
        states = await gather_all(
            drive(
                ExploringMachine(resources, EditTask(ISSUE, Context(files=(file,)), sample=n)),
                ExploringState,
                resources.store,
                f"editing/{n}",
            )
            for n in range(number)
        )
        seconds = time.monotonic() - started
        await client.aclose()
    assert {state.phase for state in states} == {Phase.APPROVED}
    used = sum((state.usage for state in states), Usage())
    asked = [[r for r in server.requests if r.call == f"exploring/{n}"] for n in range(number)]
    first = [one[0] for one in asked[:1]]
    return Explored(
        turns=sum(len(state.attempts) for state in states),
        seconds=seconds,
        cached=used.cache_read,
        cacheable=sum(
            most_cacheable(request, [*first[: 1 if n else 0], *one[:at]])
            for n, one in enumerate(asked)
            for at, request in enumerate(one)
        ),
        unabridged=sum(count_prefix(state) for state in states),
        megabytes=resident_megabytes("VmHWM") - before,
    )


def count_prefix(state: ExploringState) -> int:
    """The tokens of all but the newest two messages of each request, system text left aside."""
    counts = [count_tokens(message.text) for message in state.messages]
    asked = [at for at, message in enumerate(state.messages) if message.role == "assistant"]
    return sum(sum(counts[: at - 2]) for at in asked[1:])


def resident_megabytes(line: str) -> float:
    """`VmRSS` or `VmHWM` of this process; not of `getrusage`, which counts its parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{line}:")[1].split()[0]) / 1024


async def run_explorers(number: int, turns: int) -> Explored:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        codebase = await make_codebase(folder / "shop.git", PACKAGE)
        held = engine("warm")
        image = await build_environment(held, EnvironmentRequest(await codebase.build_tree()))
        async with held.open(image, run_id="bench") as sandbox:
            found = await explore(folder / "store", sandbox, codebase, number=number, turns=turns)
        await held.close()
    return found


async def measure_explorers(number: int, turns: int) -> Explored:
    """As `run_explorers`, in a process started for it."""
    argv = [sys.executable, "-m", "tests.benchmarks.pipeline.explore", str(number), str(turns)]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return Explored(**json.loads(output))


if __name__ == "__main__":
    measured = asyncio.run(run_explorers(int(sys.argv[1]), int(sys.argv[2])))
    sys.stdout.write(json.dumps(measured._asdict()))
