"""What people tell the bot in comments, and what they see it do."""

from __future__ import annotations

import re

import pytest

from bot.bootstrap import build_worker
from bot.data.run import Mode, RunStatus
from bot.settings import SettingsError
from capuchin_demo.hub.hub import LocalHub
from capuchin_demo.hub.pull_actions import NewPull, add_review, open_pull
from capuchin_demo.hub.state import Review, ReviewComment
from tests.e2e.harness import BotHarness, StartBot, reactions_of
from tests.support.hub import ref_of, settings_for


async def test_fix_in_a_comment_is_seen_and_becomes_a_pull_request(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    comment = await bot.comment(issue, "/capuchin fix\nThe cause is in shop.py.")
    await bot.settle()
    run = await bot.run_of(issue)
    assert (run.status, run.asked_by) == (RunStatus.OPENED_PULL_REQUEST, "alice")
    assert (len(repo.pulls), len(bot.comments_of(issue))) == (1, 1)
    assert reactions_of(comment) == ["+1"]
    assert bot.runner.jobs[0].issue.discussion[0].startswith("alice: /capuchin fix")


async def test_help_lists_what_can_be_said_and_nothing_else(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.comment(issue, "/capuchin")
    await bot.settle()
    (said,) = bot.comments_of(issue)
    verbs = ("fix", "retry", "plan", "judge #12 #34", "use B", "stop", "status", "explain")
    for verb in (*verbs, "stats", "config", "help"):
        assert f"`/capuchin {verb}" in said


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("/capuchin stauts", "Did you mean `/capuchin status`?"),
        ("@capuchin stauts", "Did you mean `/capuchin status`?"),
        ("/capuchin make `coffee`", "I do not know `make`. `/capuchin help`"),
        ("/capuchin jugde #1 #2", "Did you mean `/capuchin judge`?"),
    ],
)
async def test_an_unknown_verb_is_answered_with_the_nearest(
    bot: BotHarness, told: str, words: str
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.comment(issue, told)
    await bot.settle()
    (said,) = bot.comments_of(issue)
    assert words in said
    assert reactions_of(comment) == ["confused"]


@pytest.mark.parametrize(
    "told",
    ["@capuchin", "@capuchin thanks a lot!", "I like /capuchin fix", "> /capuchin fix", "hello"],
)
async def test_talk_is_left_alone(bot: BotHarness, told: str) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.comment(issue, told)
    await bot.settle()
    assert (bot.comments_of(issue), reactions_of(comment)) == ([], [])


async def test_a_bots_comment_is_no_command_and_neither_is_our_own(bot: BotHarness) -> None:
    repo = bot.add_repo(config="trust: ['renovate-bot', write]\n")
    issue = await bot.report_issue(repo)
    other = bot.hub.add_user("renovate-bot")
    other.type = "Bot"
    repo.grant(other.login, "write")
    for author in (bot.hub.bot, other):
        comment = await bot.comment(issue, "/capuchin fix", by=author.login)
        assert reactions_of(comment) == []
    await bot.settle()
    assert await bot.runs.get_latest_readable(ref_of(issue.repo), issue.number) is None


async def test_a_comment_that_is_edited_into_a_command_or_deleted_does_nothing(
    bot: BotHarness,
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.comment(issue, "hello")
    await bot.hub.edit_comment(comment, "/capuchin help", "alice")
    await bot.hub.delete_comment(comment, "alice")
    await bot.settle()
    assert bot.comments_of(issue) == []


async def test_a_command_delivered_again_is_carried_out_once(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.comment(issue, "/capuchin status")
    delivery = bot.hub.deliveries[-1]
    await bot.hub.redeliver(delivery)
    await bot.settle()
    await bot.hub.redeliver(delivery)
    await bot.settle()
    assert len(bot.comments_of(issue)) == 1


async def test_a_command_that_github_broke_off_is_carried_out_once(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    path = "/repos/acme/shop/issues/1/comments"
    bot.hub.faults.fail_next("POST", path, status=502, after_effect=True)
    await bot.comment(issue, "/capuchin help")
    await bot.settle()
    assert len(bot.comments_of(issue)) == 1


async def test_a_comment_that_was_deleted_meanwhile_is_obeyed_all_the_same(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.comment(issue, "/capuchin help")
    await bot.hub.delete_comment(comment, "alice")
    await bot.settle()
    assert len(bot.comments_of(issue)) == 1


async def test_status_and_explain_tell_of_a_run_before_during_and_after(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    await bot.comment(issue, "/capuchin status")
    await bot.settle()
    assert "$" not in bot.comments_of(issue)[0]
    bot.runner.go_on.clear()
    async with bot.working():
        await bot.comment(issue, "/capuchin fix")
        await bot.until(lambda: bot.runner.waiting)
        await bot.comment(issue, "/capuchin status")
        await bot.until(lambda: len(bot.comments_of(issue)) == 3)
        assert re.search(r"@alice.+\$0\.25", bot.comments_of(issue)[2], re.DOTALL)
        bot.runner.go_on.set()
    await bot.comment(issue, "/capuchin explain")
    await bot.settle()
    assert f": opened pull request #{repo.pulls[0].number}" in bot.comments_of(issue)[3]


async def test_config_tells_what_is_in_force(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo(config="samples: 3\n"))
    await bot.comment(issue, "/capuchin config")
    await bot.settle()
    assert "samples" in bot.comments_of(issue)[0]


async def test_config_tells_of_a_file_that_is_not_valid(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo(config="sample: 3\n"))
    await bot.comment(issue, "/capuchin config")
    await bot.settle()
    assert "`.github/capuchin.yml`, line 1" in bot.comments_of(issue)[0]


async def test_where_it_is_switched_off_nothing_is_said(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo(config="enabled: false\n"))
    comment = await bot.comment(issue, "/capuchin help")
    await bot.settle()
    assert (bot.comments_of(issue), reactions_of(comment)) == ([], [])


async def test_a_second_command_waits_for_the_run_and_does_not_disturb_it(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    bot.runner.go_on.clear()
    async with bot.working():
        await bot.comment(issue, "/capuchin plan")
        await bot.until(lambda: bot.runner.waiting)
        comment = await bot.comment(issue, "/capuchin fix")
        await bot.until(lambda: len(bot.comments_of(issue)) == 2)
        assert (reactions_of(comment), repo.pulls) == (["eyes"], [])
        bot.runner.go_on.set()
    run = await bot.run_of(issue)
    assert (run.mode, run.status) == (Mode.FIX, RunStatus.OPENED_PULL_REQUEST)
    assert (bot.runner.cut, reactions_of(comment)) == (0, ["+1"])


async def test_a_label_for_more_than_the_run_under_way_waits_too(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    bot.runner.go_on.clear()
    async with bot.working():
        await bot.label(issue, suffix=":dry-run")
        await bot.until(lambda: bot.runner.waiting)
        await bot.label(issue)
        bot.runner.go_on.set()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), issue.labels) == (1, [])


async def test_a_plan_tells_where_how_and_for_how_much_and_opens_nothing(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    await bot.label(issue, suffix=":dry-run")
    await bot.settle()
    (said,) = bot.comments_of(issue)
    for words in ("- `shop.py`", "raise SystemExit(2)", "total(1, 2) is -1", "about $1.50"):
        assert words in said
    assert (repo.list_branches(), repo.pulls, issue.labels) == (["main"], [], [])
    assert (await bot.run_of(issue)).status is RunStatus.PLANNED


async def test_the_name_and_the_label_are_the_operators(start_bot: StartBot) -> None:
    async with start_bot(app_name="mender", label="mend") as bot:
        issue = await bot.report_issue(bot.add_repo())
        await bot.comment(issue, "/capuchin help")
        await bot.settle()
        assert bot.comments_of(issue) == []
        await bot.comment(issue, "@mender help")
        await bot.settle()
        assert "`/mender fix [anyway]`" in bot.comments_of(issue)[0]
        await bot.label(issue)
        await bot.settle()
        assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_auto_opens_a_pull_request_that_is_ready_for_review(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    await bot.hub.assign(issue, "bob", "alice")
    await bot.label(issue, suffix=":auto")
    await bot.settle()
    assert [pull.draft for pull in repo.pulls] == [False]


async def test_an_issue_assigned_to_the_operators_account_is_worked_on(start_bot: StartBot) -> None:
    async with start_bot(assignee="capuchin-worker") as bot:
        repo = bot.add_repo()
        issue = await bot.report_issue(repo)
        await bot.hub.assign(issue, "bob", "alice")
        await bot.settle()
        assert repo.pulls == []
        issue.assignees.clear()
        await bot.hub.assign(issue, "Capuchin-Worker", "alice")
        await bot.settle()
        assert len(repo.pulls) == 1


async def test_a_command_on_a_line_of_a_diff_is_answered_in_the_conversation(
    bot: BotHarness,
) -> None:
    repo = bot.add_repo()
    await bot.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", "alice")
    asked = NewPull("Work", "", "work", "main")
    pull = await open_pull(bot.hub, repo, asked, bot.hub.add_user("alice"))
    review = Review(bot.hub.next_id(), bot.hub.add_user("alice"), "", "COMMENTED", pull.head_sha)
    for text in ("/capuchin help", "/capuchin fix"):
        made = ReviewComment(bot.hub.next_id(), review, "x.py", 1, "RIGHT", text, "@@ -0,0 +1 @@")
        review.comments.append(made)
    add_review(bot.hub, pull, review)
    await bot.hub.wait_until_delivered()
    await bot.settle()
    said = sorted(bot.comments_of(pull))
    assert ["`/capuchin help`" in text for text in said] in ([False, True], [True, False])
    assert [[one.content for one in made.reactions] for made in review.comments] == [["+1"]] * 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"solver_model": "nonsense"}, "CAPUCHIN_SOLVER_MODEL: "),
        ({"scout_model": "nonsense"}, "CAPUCHIN_SCOUT_MODEL: "),
        ({"anthropic_api_key": ""}, "ANTHROPIC_API_KEY is not set"),
    ],
)
async def test_a_worker_that_could_ask_no_model_does_not_start(
    hub: LocalHub, fields: dict[str, str], words: str
) -> None:
    settings = settings_for(hub, **{"anthropic_api_key": "x", **fields})
    with pytest.raises(SettingsError, match=words):
        async with build_worker(settings):
            raise AssertionError("it started")
