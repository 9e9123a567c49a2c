"""A run of 10 samples with 8 replies a machine: what the prompt cache serves, and the price."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bot.recorded.asked import Asked
from bot.recorded.cache import MINIMUM_TOKENS, tokens
from bot.recorded.recording import Recording
from bot.recorded.server import RecordedServer
from pipeline.models.anthropic import AnthropicModel
from pipeline.models.metered import Meter, Metered
from pipeline.models.profiles import look_up
from pipeline.models.spec import ModelSpec
from pipeline.models.spending import rendered, table
from pipeline.models.throttled import Throttled
from pipeline.options import Options
from pipeline.sampling import Sampler
from pipeline.store import DirStore
from pipeline.types import Context, Issue, SourceFile
from sandbox.base import Execution
from tests.unit.pipeline.repositories import make_codebase

LONG = "".join(f"def f_{n}(x):\n    return x * {n} + 1\n\n\n" for n in range(4000))
ISSUE = Issue(repository="acme/large", title="f_1 is wrong", body="It should add 2.")
WORDS = "I look at what the run says and think about it at some length.\n" * 20
SCRIPT = f"{WORDS}<script>\nimport sys\nsys.exit(2)\n</script>"


class Paper:
    """Every script reports the issue: a run here is about tokens, and nothing need be executed."""

    async def run_script(
        self, script: str, *, diffs: Sequence[str] = (), seconds: float | None = None
    ) -> Execution:
        return Execution(exit_code=2, output="still wrong\n" * 200, seconds=1)

    async def run_command(
        self,
        argv: Sequence[str],
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        output_bytes: int | None = None,
    ) -> Execution:
        return Execution(exit_code=0, output="", seconds=1)


def edit(turn: int) -> str:
    return (
        f"{WORDS}<edit>\nlarge.py\n<<<<<<< SEARCH\n    return x * 1 + 1\n=======\n"
        f"    return x * 1 + 2 + {turn}\n>>>>>>> REPLACE\n</edit>"
    )


def best(asked: Asked, before: Sequence[Asked]) -> int:
    """The most tokens that any cache could have served: the longest opening asked before."""
    most = 0
    for other in before:
        shared = 0
        for ours, theirs in zip(asked.parts, other.parts, strict=False):
            if ours.text != theirs.text:
                break
            shared += tokens(ours.text)
        most = max(most, shared)
    return most if most >= MINIMUM_TOKENS else 0


async def test_of_what_a_cache_could_serve_at_least_98_percent_is_read_from_it(
    tmp_path: Path,
) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {"large.py": LONG})
    context = Context(files=(SourceFile(path="large.py", text=LONG, tokens=tokens(LONG)),))
    answers = [{"call": "testing", "turn": 7, "reply": "<approve/>"}]
    answers += [{"call": "testing", "reply": SCRIPT}, {"call": "approaches", "reply": "None."}]
    answers += [{"call": "editing", "turn": n, "reply": edit(n)} for n in range(8)]
    written = {"version": 1, "note": "Made up.", "answers": answers}
    server = RecordedServer(Recording.model_validate(written))
    store = DirStore(tmp_path / "store")
    meter = await Meter.open(store, 1000)
    async with server.serve() as url:
        profile = look_up(ModelSpec(provider="anthropic", name="claude-sonnet-4-6")).profile
        client = AnthropicModel(profile, api_key="recorded", base_url=url)
        model = Throttled(Metered(client, meter), 8)
        options = Options(adaptive=False, informed=0, nearby_seconds=0, dollars=1000)
        await Sampler(model, Paper(), codebase, store, options).sample(ISSUE, context)
        await client.aclose()
    assert sum(asked.call.startswith("editing/") for asked in server.requests) == 80
    assert sum(asked.call.startswith("testing/") for asked in server.requests) == 80
    could = sum(best(asked, server.requests[:n]) for n, asked in enumerate(server.requests))
    names = {account.model: profile.price for account in meter.accounts()}
    lines = table(meter.accounts(), names)
    share = lines[-1].usage.cache_read / could
    assert share >= 0.98, rendered(lines)
    (model_name,) = names
    assert model_name.startswith("recorded-")
    assert round(lines[-1].dollars, 6) == round(meter.ledger.dollars, 6)
