"""A run whose edits come from two kinds of machines, from the webhook to the pull request."""

from __future__ import annotations

from bot.data.run import RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.harness import StartBot

CONFIG = (
    f"{shop.FILES['.github/capuchin.yml']}"
    "generators: [{machine: explore}, {machine: fixed, model: recorded-claude-haiku-4-5}]\n"
)
REACH = "import socket; socket.create_connection(('169.254.169.254', 80), 3)"
LOOK = f'<bash>\ncat shop/till.py; python -c "{REACH}" || echo no way\n</bash>'
FIX = "<bash>\nsed -i 's/a - b/a + b/' shop/till.py\n</bash>"
EXPLORING = (
    RecordedAnswer(call="exploring/0", turn=0, reply=LOOK),
    RecordedAnswer(call="exploring/0", turn=1, reply="<tests>\ntests/test_till.py\n</tests>"),
    RecordedAnswer(call="exploring/0", turn=2, reply=FIX),
    RecordedAnswer(call="exploring/0", reply="<submit/>"),
)


async def test_an_explorer_and_a_fixed_machine_of_another_model_work_on_one_issue(
    start_recorded_bot: StartBot,
) -> None:
    mixture = [{"machine": "fixed", "model": "anthropic:recorded-claude-haiku-4-5"}]
    async with start_recorded_bot(shop.answers(*EXPLORING), generators=mixture) as bot:
        repo = bot.add_repo(files={**shop.FILES, ".github/capuchin.yml": CONFIG})
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        _, body = bot.only_pull_request(repo)
        asked = {request.call: request for request in bot.llm.requests}
    assert "made by" in body
    assert "`recorded-claude-sonnet-4-6`" in body
    assert "`recorded-claude-haiku-4-5`" in body
    assert asked["exploring/0"].model == "recorded-claude-sonnet-4-6"
    assert asked["editing/1"].model == asked["testing/1"].model == "recorded-claude-haiku-4-5"
    told = "\n".join(message.text for message in asked["exploring/0"].messages)
    assert "no way" in told
    assert "1 test passed, 0 failed." in told
    assert "+    return a + b" in told


async def test_a_repository_cannot_name_a_model_that_the_operator_does_not_offer(
    start_recorded_bot: StartBot,
) -> None:
    elsewhere = "generators: [{machine: fixed, model: 'openai:x@http://127.0.0.1:9/v1'}]\n"
    config = shop.FILES[".github/capuchin.yml"] + elsewhere
    async with start_recorded_bot(shop.answers()) as bot:
        repo = bot.add_repo(files={**shop.FILES, ".github/capuchin.yml": config})
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.status is RunStatus.FAILED
        assert bot.llm.requests == []
