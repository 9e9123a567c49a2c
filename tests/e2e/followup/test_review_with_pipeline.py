"""A review of a real run's pull request is followed by the model, in the sandbox."""

from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.harness import StartBot

BREAKING = shop.edit("    return b - a", before="    return a + b")
ASKED = shop.edit("    return sum((a, b))", before="    return a + b")
SPOILING = shop.edit("    assert True", path="tests/test_total_subtracts.py",
                     before="    assert total(1, 2) == 3")  # fmt: skip
WORDS = "<answer>It sums a tuple now.</answer>"


async def test_a_review_becomes_a_commit_with_which_the_test_still_passes(
    start_recorded_bot: StartBot,
) -> None:
    follows = (
        RecordedAnswer(call="revising", turn=0, reply=SPOILING),
        RecordedAnswer(call="revising", turn=1, reply=BREAKING),
        RecordedAnswer(call="revising", turn=2, reply=WORDS),
        RecordedAnswer(call="revising", turn=3, reply=ASKED),
        RecordedAnswer(call="revising", turn=4, reply=WORDS),
    )
    recording = shop.answers(*follows, shop.RIGHT_AT_ONCE)
    async with start_recorded_bot(recording, review_seconds=0) as bot:
        config = "version: 1\nsamples: 1\n"
        repo = bot.add_repo(files={**shop.FILES, ".github/capuchin.yml": config})
        await bot.solve(await bot.open_issue(repo))
        (pull,) = repo.pulls
        await bot.receive_review(pull, "alice", lines=[("shop/till.py", 2, "Use sum().")])
        assert "return sum((a, b))" in (repo.read_file(pull.head_ref, "shop/till.py") or "")
        assert repo.list_commits(pull.head_ref)[0] == "Address review comments"
        checks = [(run.head_sha, run.conclusion) for run in repo.check_runs]
        assert len(checks) == 2
        assert checks[-1] == (pull.head_sha, "success")
        (said,) = [
            comment.body
            for review in pull.reviews
            for comment in review.comments
            if comment.in_reply_to
        ]
        assert (pull.head_sha[:7] in said, "It sums a tuple now." in said) == (True, True)
        # The day's ceiling holds for reviews, too: what it forbids waits.
        spent: dict[str, str | None] = {
            ".github/capuchin.yml": config + "budget: {day: 0.000001}\n"
        }
        await bot.hub.commit(repo, "main", spent, "Save", "alice")
        asked = len(bot.llm.requests)
        for _ in range(2):
            await bot.receive_review(pull, "alice", lines=[("shop/till.py", 2, "And why?")])
        (told,) = [c.body for c in pull.comments if c.author is bot.hub.bot]
        assert "limit" in told
        assert len(bot.llm.requests) == asked
