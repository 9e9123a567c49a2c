"""`/capuchin judge` over other people's pull requests, `/capuchin use` over our own runners-up."""

from __future__ import annotations

from collections.abc import Mapping

from bot.localhub import Issue, Repo
from bot.localhub.state import Pull
from bot.recorded.recording import RecordedAnswer
from bot.types import Mode, Run, RunStatus
from tests.e2e import shop
from tests.e2e.forks import fork_pull
from tests.e2e.harness import MAINTAINER, REPORTER, BotHarness, StartBot
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
    assert f"#{closed.number} by dan` does not apply: `It is closed.`" in said
    assert "`#999` does not apply: `There is no pull request of this number here.`" in said
    assert f"\\#\u200b{hostile.number} by mallory: what it does to submodules is left out." in said
    assert "1 test (from the edits or the request) on the unedited code and on 3 applicable" in said
    assert repo.git.list_refs("") == before
    assert [len(pull.comments) for pull in numbers] == [0, 0, 0, 0]
    assert [r for r in bot.llm.requests if not r.call.startswith("selecting")] == []


async def test_judge_says_what_it_needs_and_who_may_not(recorded_bot: BotHarness) -> None:
    issue = await recorded_bot.open_issue(recorded_bot.add_repo(), label=False)
    assert "(at most 20), as in `/capuchin judge #12 #34`" in await told(
        recorded_bot, issue, "/capuchin judge please"
    )
    many = " ".join(f"#{number}" for number in range(1, 30))
    assert "at most 20" in await told(recorded_bot, issue, f"/capuchin judge {many}")
    assert "I only work for people who can push" in await told(
        recorded_bot, issue, "/capuchin judge #1", by=REPORTER
    )


async def test_use_puts_a_runner_up_into_the_pull_request_and_back(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo()
    issue = await recorded_bot.open_issue(repo)
    first = await recorded_bot.solve(issue)
    (pull,) = repo.pulls
    chosen_head, asked = pull.head_sha, len(recorded_bot.llm.requests)
    assert "`/capuchin use 2` puts the second" in await told(
        recorded_bot, issue, "/capuchin explain"
    )
    assert "a number from 1 to 2" in await told(recorded_bot, issue, "/capuchin use 7")
    said = await told(recorded_bot, pull, "/capuchin use 2")
    assert f"I will post the result on #{issue.number}" in said
    (said,) = [c.body for c in issue.comments if "now holds edit 1, number 2 of" in c.body]
    assert "The reproduction test does not pass with it, so I removed the test." in said
    assert (repo.pulls, pull.state) == ([pull], "open")
    assert repo.read_file(pull.head_sha, "shop/till.py") == NOT_RIGHT
    assert repo.read_file(pull.head_sha, "tests/test_total_subtracts.py") is None
    subjects = repo.list_commits(pull.head_sha)
    assert subjects[:2] == ["Make total() add", "Undo the edit, as @alice asked"]
    assert repo.git.read_commit(repo.git.read_commit(pull.head_sha).parents[0]).parents == (
        chosen_head,
    )
    assert "in the place of the one I had chosen, as alice asked" in (pull.body or "")
    assert f"capuchin:run={first.id}" in (pull.body or "")
    checks = [c.conclusion for c in repo.check_runs if c.head_sha == pull.head_sha]
    assert checks == ["failure"]
    said = await told(recorded_bot, issue, "/capuchin explain")
    assert [line[:10] for line in said.split("\n") if "(in the pull" in line] == ["2. edit 1,"]
    assert "already holds my edit number 2" in await told(recorded_bot, issue, "/capuchin use 2")
    await told(recorded_bot, issue, "/capuchin use 1")
    assert repo.read_file(pull.head_sha, "shop/till.py") == RIGHT
    assert repo.read_file(pull.head_sha, "tests/test_total_subtracts.py") is not None
    assert "It adds now." in (pull.body or "")
    assert len(recorded_bot.llm.requests) == asked
    # Somebody else's commit on the branch is their work.
    await recorded_bot.hub.commit(repo, pull.head_ref, {"more.py": "x = 1\n"}, "More", MAINTAINER)
    theirs = pull.head_sha
    said = await told(recorded_bot, issue, "/capuchin use 2")
    assert "Somebody else has pushed to the branch" in said
    assert pull.head_sha == theirs
    await recorded_bot.hub.close_issue(pull, MAINTAINER)
    assert "is no longer open" in await told(recorded_bot, issue, "/capuchin use 2")


async def test_use_without_a_pull_request_of_ours_is_answered_in_a_sentence(
    start_recorded_bot: StartBot,
) -> None:
    async with start_recorded_bot(shop.answers(RecordedAnswer(call="testing", reply="no"))) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo, label=False)
        pull = await pull_of(bot, repo, "eve", {"shop/till.py": RIGHT})
        pull.body = f"<!-- capuchin:run={'a' * 32} -->"
        for place in (issue, pull):
            assert "I have not opened a pull request" in await told(bot, place, "/capuchin use 2")
