"""How an edit is chosen, or kept back, as a maintainer sees it."""

from __future__ import annotations

import re

from bot.data.run import RunStatus
from tests.e2e import shop
from tests.e2e.harness import BotHarness, StartBot

CONFIG = shop.FILES[".github/capuchin.yml"]


async def test_below_the_threshold_no_pull_request_is_opened_but_what_was_learnt_is_reported(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo(
        files={**shop.FILES, ".github/capuchin.yml": f"{CONFIG}confidence: 1\n"}
    )
    issue = await recorded_bot.open_issue(repo)
    run = await recorded_bot.solve(issue)
    assert (run.status, run.detail) == (RunStatus.NO_FIX, "not sure enough")
    (comment,) = issue.comments
    assert re.search(r"probability of \d+%", comment.body)
    assert "\n- `shop/till.py`" in comment.body
    assert "sys.exit(0 if total(1, 2) == 3 else 2)" in comment.body
    assert "1 of 1 script" in comment.body
    assert (repo.list_branches(), repo.pulls) == (["main"], [])


async def test_a_reward_model_that_is_dead_costs_no_pull_request(
    start_recorded_bot: StartBot,
) -> None:
    same = shop.edit("    return b + a")
    recording = shop.answers(
        shop.RecordedAnswer(call="editing/0", turn=0, reply=same),
        shop.RecordedAnswer(call="selecting", turn=0, reply=shop.SCRIPT),
        shop.RecordedAnswer(call="selecting", reply="<choice>1</choice>"),
    )
    nowhere = "openai:orm@http://127.0.0.1:9/v1"
    async with start_recorded_bot(recording, orm_model=nowhere) as bot:
        repo = bot.add_repo()
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST
        _, body = bot.only_pull_request(repo)
    assert "openai:orm at 127.0.0.1" in body
    assert "| breaks |\n" in body
