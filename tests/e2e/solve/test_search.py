"""A run that searches for the lines to change first, from the webhook to the pull request."""

from __future__ import annotations

from bot.data.run import RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer, Recording
from capuchin_demo.recorded.server import RecordedServer
from tests.e2e import shop
from tests.e2e.harness import StartBot

VERDICTS = (
    RecordedAnswer(call="prm", when=("len(items)",), reply="-", logprobs={"-": -0.1, "+": -2.4}),
    RecordedAnswer(call="prm", reply="+", logprobs={"+": -0.1, "-": -2.4}),
)


async def test_the_operators_search_is_guided_and_shown_in_the_pull_request(
    start_recorded_bot: StartBot,
) -> None:
    judge = RecordedServer(Recording(version=1, note="Written by hand.", answers=VERDICTS))
    async with (
        judge.serve() as url,
        start_recorded_bot(
            shop.answers(*shop.SEARCHING), strategy="search", prm_model=f"openai:prm@{url}/v1"
        ) as bot,
    ):
        repo = bot.add_repo()
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        _, body = bot.only_pull_request(repo)
        told = {request.call: request for request in bot.llm.requests}
    assert "| 1 | `shop/till.py:2` |" in body
    assert "`shop/till.py:5-6`" not in body
    assert "     2\t    return a - b" in told["localisation/0"].last_user_message
    assert all(
        "shop/till.py:2: it subtracts"
        in "\n".join(message.text for message in told[f"editing/{sample}"].messages)
        for sample in (0, 1)
    )
