"""`publish: approval`: nothing that a model wrote reaches CI before a trusted person asks."""

from bot.data.run import RunStatus
from tests.e2e.harness import BotHarness
from tests.e2e.people import MAINTAINER


async def test_an_edit_waits_for_a_trusted_persons_word_and_is_then_published(
    bot: BotHarness,
) -> None:
    repo, issue = await bot.add_repo_with_issue(config="publish: approval\n", label=True)
    waits = await bot.solve(issue)
    assert waits.status is RunStatus.NEEDS_CONFIRMATION
    (said,) = bot.comments_of(issue)
    assert "+    return a + b" in said
    assert "use A" in said
    assert (repo.list_branches(), repo.pulls) == (["main"], [])
    bot.hub.add_user("mallory")
    await bot.comment(issue, "/capuchin use A", "mallory")
    await bot.settle()
    assert (repo.list_branches(), repo.pulls) == (["main"], [])
    await bot.comment(issue, "/capuchin use A")
    run = await bot.solve(issue)
    assert (run.status, run.dollars) == (RunStatus.OPENED_PULL_REQUEST, 0)
    (pull,) = repo.pulls
    assert len(bot.runner.jobs) == 1
    head = pull.head_sha
    await bot.receive_review(pull, MAINTAINER, "Not yet.", "CHANGES_REQUESTED")
    await bot.settle()
    assert pull.head_sha == head
