"""The edits of a pull request: as `explain` lists them `use` counts them, whatever came after."""

from __future__ import annotations

from bot.data.run import RunStatus
from pipeline.data.types import NoFix
from tests.e2e.harness import BotHarness
from tests.support.data.publishing import selection_of_three


async def explained(bot: BotHarness) -> str:
    (issue,) = (i for i in bot.hub.repos["acme/shop"].issues.values() if i.number == 1)
    await bot.comment(issue, "/capuchin explain")
    await bot.settle()
    return bot.comments_of(issue)[-1]


async def test_what_explain_lists_is_what_use_counts(bot: BotHarness) -> None:
    bot.runner.answer = selection_of_three()
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    await bot.label(issue)
    await bot.settle()
    (pull,) = repo.pulls
    bot.runner.answer = NoFix(reason="not sure enough")
    await bot.comment(issue, "/capuchin retry anyway")
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.NO_FIX
    here = " (in the pull request)"
    listed = [
        "- **A** passes 2 of 2 scripts",
        "- **B** passes 1 of 2 scripts",
        "- **C** passes 0 of 2 scripts",
    ]
    said = await explained(bot)
    assert "There was no fix: my best edit is too likely to be wrong." in said
    assert f"for #{pull.number}, best first" in said
    assert "\n".join([listed[0] + here, *listed[1:]]) in said
    await bot.comment(issue, "/capuchin use B")
    await bot.settle()
    assert "return sum((a, b))" in (repo.read_file(pull.head_sha, "shop.py") or "")
    assert "\n".join([listed[0], listed[1] + here, listed[2]]) in await explained(bot)
    await bot.comment(issue, "/capuchin use c")
    await bot.settle()
    assert "return b + a" in (repo.read_file(pull.head_sha, "shop.py") or "")
