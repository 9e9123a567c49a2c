"""What tests of `/capuchin judge` share."""

from __future__ import annotations

from collections.abc import Mapping

from bot.data.run import Run
from capuchin_demo.hub.state import Issue, Pull, Repo
from tests.e2e import shop
from tests.e2e.harness import BotHarness
from tests.e2e.people import MAINTAINER
from tests.support.hub import ref_of

TILL = shop.FILES["shop/till.py"]
RIGHT = TILL.replace("a - b", "a + b")
NOT_RIGHT = TILL.replace("a - b", "abs(a - b)")
TEST = "from shop.till import total\n\n\ndef test_total():\n    assert total(1, 2) == 3\n"


async def pull_of(bot: BotHarness, repo: Repo, name: str, files: Mapping[str, str]) -> Pull:
    await bot.hub.commit(repo, name, dict(files), f"Work of {name}", name)
    return await bot.hub.open_pull(repo, name, f"Mend total() @{name}", name)


async def told(bot: BotHarness, issue: Issue, text: str, by: str = MAINTAINER) -> str:
    """Say it, let the bot do it; the last thing that the bot said on the issue."""
    await bot.hub.comment(issue, text, by)
    await bot.settle()
    return [c.body for c in issue.comments if c.author is bot.hub.bot][-1]


async def run_of(bot: BotHarness, issue: Issue) -> Run:
    run = await bot.runs.get_latest(ref_of(issue.repo), issue.number)
    assert run is not None
    return run
