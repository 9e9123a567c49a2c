"""`/capuchin judge` over other people's pull requests, `/capuchin use` over our own runners-up."""

from __future__ import annotations

import re

from bot.data.run import Mode, RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.commands.judging import NOT_RIGHT, RIGHT, TEST, pull_of, run_of, told
from tests.e2e.forks import fork_pull
from tests.e2e.harness import BotHarness, StartBot
from tests.e2e.people import MAINTAINER, REPORTER


async def test_pull_requests_of_others_are_judged_by_the_tests_they_bring_and_nothing_is_pushed(
    start_recorded_bot: StartBot,
) -> None:
    script = RecordedAnswer(call="selecting", turn=0, reply=shop.SCRIPT)
    choice = RecordedAnswer(call="selecting", reply="<choice>1</choice>")
    async with start_recorded_bot(shop.answers(script, choice)) as bot:
        await judged(bot)


async def judged(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.open_issue(repo, label=False)
    wrong = await pull_of(bot, repo, "devbot", {"shop/till.py": NOT_RIGHT})
    tested = {"shop/till.py": RIGHT, "tests/test_total.py": TEST}
    right = await pull_of(bot, repo, "carol", tested)
    hostile = await fork_pull(
        bot.hub,
        repo,
        {
            "shop/till.py": ("100644", RIGHT + "\n" * 50_000),
            ".github/workflows/ci.yml": ("100644", "on: push\n"),
            "passwords": ("120000", "/etc/shadow"),
            "vendor": ("160000", "1" * 40),
        },
    )
    closed = await pull_of(bot, repo, "dan", {"README.md": "x\n"})
    await bot.hub.close_issue(closed, "dan")
    before = repo.git.list_refs("")
    numbers = (wrong, right, hostile, closed)
    words = " ".join(f"#{pull.number}" for pull in numbers)
    said = await told(bot, issue, f"/capuchin judge {words} #999")
    run = await run_of(bot, issue)
    assert (run.mode, run.status) == (Mode.JUDGE, RunStatus.JUDGED), said
    assert f"**I would choose `#{right.number} by carol`.**" in said
    assert f"#{closed.number} by dan`" in said
    assert "`#999`" in said
    assert f"\\#\u200b{hostile.number} by mallory" in said
    assert "submodules" in said
    assert repo.git.list_refs("") == before
    assert [len(pull.comments) for pull in numbers] == [0, 0, 0, 0]
    # What the edits bring may not decide alone, so tests of our own are written as well.
    assert {r.call.split("/")[0] for r in bot.llm.requests} <= {"testing", "selecting"}


async def test_judge_says_what_it_needs_and_who_may_not(recorded_bot: BotHarness) -> None:
    issue = await recorded_bot.open_issue(recorded_bot.add_repo(), label=False)
    assert "`/capuchin judge #12 #34`" in await told(recorded_bot, issue, "/capuchin judge please")
    many = " ".join(f"#{number}" for number in range(1, 30))
    assert "20" in await told(recorded_bot, issue, f"/capuchin judge {many}")
    refusal = await told(recorded_bot, issue, "/capuchin judge #1", by=REPORTER)
    assert f"@{REPORTER}" in refusal


async def test_use_puts_a_runner_up_into_the_pull_request_and_back(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo()
    issue = await recorded_bot.open_issue(repo)
    first = await recorded_bot.solve(issue)
    (pull,) = repo.pulls
    chosen_head, asked = pull.head_sha, len(recorded_bot.llm.requests)
    said = await told(recorded_bot, issue, "/capuchin explain")
    assert "`/capuchin use B`" in said
    assert "reproduction test" in said.partition("- **B** passes ")[2]
    assert "letter" in await told(recorded_bot, issue, "/capuchin use")
    assert "letter" in await told(recorded_bot, issue, "/capuchin use 2")
    said = await told(recorded_bot, issue, "/capuchin use B")
    assert "`tests/test_total_subtracts.py`" in said
    assert "`/capuchin use B anyway`" in said
    assert pull.head_sha == chosen_head
    said = await told(recorded_bot, pull, "/capuchin use B anyway")
    assert f"#{issue.number}" in said
    assert any("edit B" in comment.body for comment in issue.comments)
    assert (repo.pulls, pull.state) == ([pull], "open")
    assert repo.read_file(pull.head_sha, "shop/till.py") == NOT_RIGHT
    assert repo.read_file(pull.head_sha, "tests/test_total_subtracts.py") is None
    subjects = repo.list_commits(pull.head_sha)
    assert (subjects[0], "@alice" in subjects[1]) == ("Make total() add", True)
    assert repo.git.read_commit(repo.git.read_commit(pull.head_sha).parents[0]).parents == (
        chosen_head,
    )
    assert "alice" in (pull.body or "")
    assert "is new" not in (pull.body or "")
    assert re.search(r"\*\*After:\*\* .*fails", pull.body or "")
    assert f"capuchin:run={first.id}" in (pull.body or "")
    checks = [c.conclusion for c in repo.check_runs if c.head_sha == pull.head_sha]
    assert checks == ["failure"]
    said = await told(recorded_bot, issue, "/capuchin explain")
    assert [line[:10] for line in said.split("\n") if "(in the pull" in line] == ["- **B** pa"]
    assert "edit B" in await told(recorded_bot, issue, "/capuchin use B")
    await told(recorded_bot, issue, "/capuchin use A")
    assert repo.read_file(pull.head_sha, "shop/till.py") == RIGHT
    assert repo.read_file(pull.head_sha, "tests/test_total_subtracts.py") is not None
    assert "It adds now." in (pull.body or "")
    assert len(recorded_bot.llm.requests) == asked
    # Somebody else's commit on the branch is their work.
    await recorded_bot.hub.commit(repo, pull.head_ref, {"more.py": "x = 1\n"}, "More", MAINTAINER)
    theirs = pull.head_sha
    said = await told(recorded_bot, issue, "/capuchin use B")
    assert pull.head_sha == theirs
    await recorded_bot.hub.close_issue(pull, MAINTAINER)
    assert pull.head_ref not in await told(recorded_bot, issue, "/capuchin use B")


async def test_use_without_a_pull_request_of_ours_is_answered_in_a_sentence(
    start_recorded_bot: StartBot,
) -> None:
    async with start_recorded_bot(shop.answers(RecordedAnswer(call="testing", reply="no"))) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo, label=False)
        pull = await pull_of(bot, repo, "eve", {"shop/till.py": RIGHT})
        pull.body = f"<!-- capuchin:run={'a' * 32} -->"
        for place in (issue, pull):
            assert "edits" in await told(bot, place, "/capuchin use B")
