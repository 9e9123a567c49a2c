"""What people tell the bot in comments, and what they see it do: how often, and for how much."""

import dataclasses
import re

import pytest

from bot.bootstrap import build_worker, learn_app
from bot.data.run import Mode, RunId, RunStatus, now
from bot.settings import SettingsError
from bot.storage.history import RunHistoryEntry
from capuchin_demo.hub.pull_actions import NewPull, add_review, open_pull
from capuchin_demo.hub.state import Repo, Review, ReviewComment
from pipeline.store import encode_record
from tests.e2e.harness import BotHarness, StartBot, reactions_of
from tests.e2e.people import MAINTAINER
from tests.support.github.hub import LocalHub
from tests.support.hub import SECRET, ref_of, settings_for


async def test_fix_in_a_comment_is_seen_and_becomes_a_pull_request(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    comment = await bot.say(issue, "/capuchin fix\nThe cause is in shop.py.")
    run = await bot.run_of(issue)
    assert (run.status, run.asked_by) == (RunStatus.OPENED_PULL_REQUEST, "alice")
    assert (len(repo.pulls), len(bot.comments_of(issue))) == (1, 1)
    assert reactions_of(comment) == ["+1"]
    assert bot.runner.jobs[0].issue.discussion[0].startswith("alice: /capuchin fix")


async def test_help_lists_what_can_be_said_and_nothing_else(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.say(issue, "/capuchin")
    (said,) = bot.comments_of(issue)
    verbs = ("fix", "retry", "plan", "judge #12 #34", "use B", "more", "budget", "stop", "status")
    for verb in (*verbs, "explain", "stats", "config", "help"):
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
    comment = await bot.say(issue, told)
    (said,) = bot.comments_of(issue)
    assert words in said
    assert reactions_of(comment) == ["confused"]


async def test_a_bots_comment_is_no_command_and_neither_is_our_own(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue(config="trust: ['renovate-bot', write]\n")
    other = bot.hub.add_user("renovate-bot")
    other.type = "Bot"
    repo.grant(other.login, "write")
    for author in (bot.hub.bot, other):
        comment = await bot.comment(issue, "/capuchin fix", by=author.login)
        assert reactions_of(comment) == []
    await bot.settle()
    assert await bot.runs.get_latest(ref_of(issue.repo), issue.number) is None


@pytest.mark.parametrize(
    ("told", "edited", "by", "answers"),
    [
        ("hello", "/capuchin help", "alice", 1),
        ("/capuchin hlep", "/capuchin help", "alice", 2),
        ("/capuchin help", "Sorry.\n/capuchin help", "alice", 1),
        ("I meant /capuchin help", "/capuchin help", "alice", 2),
        ("hello", "/capuchin help", "mallory", 1),
        ("hello", "goodbye", "alice", 0),
    ],
)
async def test_a_command_that_an_edit_brings_is_its_editors(
    bot: BotHarness, told: str, edited: str, by: str, answers: int
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.say(issue, told)
    await bot.hub.edit_comment(comment, edited, by)
    await bot.settle()
    said = bot.comments_of(issue)
    assert (len(said), any("/capuchin judge" in one for one in said)) == (
        answers, answers > 0 and by == "alice"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "answers"),
    [
        ("We could ask @capuchin about that.", 1),
        ("I like /capuchin fix", 2),
        ("/capuchin help\n/capuchin status", 2),
    ],
)
async def test_what_is_not_carried_out_is_said(bot: BotHarness, told: str, answers: int) -> None:
    issue = await bot.report_issue(bot.add_repo())
    for _ in range(2):
        await bot.say(issue, told)
    said = bot.comments_of(issue)
    assert len(said) == answers
    assert await bot.runs.get_latest(ref_of(issue.repo), issue.number) is None
    if "status" in told:
        assert all("`status`" in one.rpartition("\n\n")[0].split("\n\n")[-1] for one in said)
    await bot.say(issue, told, by="mallory")
    assert len([one for one in bot.comments_of(issue) if "mallory" not in one]) == answers


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
    await bot.say(issue, "/capuchin help")
    assert len(bot.comments_of(issue)) == 1


async def test_a_comment_that_was_deleted_meanwhile_is_obeyed_all_the_same(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.comment(issue, "/capuchin help")
    await bot.hub.delete_comment(comment, "alice")
    await bot.settle()
    assert len(bot.comments_of(issue)) == 1


async def test_status_and_explain_tell_of_a_run_before_during_and_after(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    await bot.say(issue, "/capuchin status")
    assert "$" not in bot.comments_of(issue)[0]
    async with bot.at_work(bot.comment(issue, "/capuchin fix")):
        await bot.comment(issue, "/capuchin status")
        await bot.until(lambda: len(bot.comments_of(issue)) == 3)
        assert re.search(r"@alice.+\$0\.25", bot.comments_of(issue)[2], re.DOTALL)
        bot.runner.go_on.set()
    await bot.say(issue, "/capuchin explain")
    assert f": opened pull request #{repo.pulls[0].number}" in bot.comments_of(issue)[3]


async def test_config_tells_what_is_in_force(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo(config="samples: 3\n"))
    await bot.say(issue, "/capuchin config")
    assert "samples" in bot.comments_of(issue)[0]


async def test_config_tells_of_a_file_that_is_not_valid(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo(config="sample: 3\n"))
    await bot.say(issue, "/capuchin config")
    assert "`.github/capuchin.yml`, line 1" in bot.comments_of(issue)[0]


async def test_where_it_is_switched_off_nothing_is_said(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo(config="enabled: false\n"))
    comment = await bot.say(issue, "/capuchin help")
    assert (bot.comments_of(issue), reactions_of(comment)) == ([], [])


async def test_a_second_command_waits_for_the_run_and_does_not_disturb_it(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    async with bot.at_work(bot.comment(issue, "/capuchin plan")):
        comment = await bot.comment(issue, "/capuchin fix")
        await bot.until(lambda: len(bot.comments_of(issue)) == 2)
        assert (reactions_of(comment), repo.pulls) == (["eyes"], [])
        bot.runner.go_on.set()
    run = await bot.run_of(issue)
    assert (run.mode, run.status) == (Mode.FIX, RunStatus.OPENED_PULL_REQUEST)
    assert (bot.runner.cut, reactions_of(comment)) == (0, ["+1"])


async def test_a_label_for_more_than_the_run_under_way_waits_too(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    async with bot.at_work(bot.label(issue, suffix=":dry-run")):
        await bot.label(issue)
        bot.runner.go_on.set()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), issue.labels) == (1, [])


async def test_a_plan_tells_where_how_and_for_how_much_and_opens_nothing(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    await bot.ask_by_label(issue, suffix=":dry-run")
    (said,) = bot.comments_of(issue)
    for words in ("- `shop.py`", "raise SystemExit(2)", "total(1, 2) is -1", "at most $4.00"):
        assert words in said
    assert (repo.list_branches(), repo.pulls, issue.labels) == (["main"], [], [])
    assert (await bot.run_of(issue)).status is RunStatus.PLANNED


@pytest.mark.settings(app_name="mender", label="mend")
async def test_the_name_and_the_label_are_the_operators(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.say(issue, "@capuchin help")
    assert bot.comments_of(issue) == []
    for words in ("/capuchin help", "@mender help"):
        await bot.say(issue, words)
        assert "`/mender fix [anyway]`" in bot.comments_of(issue)[-1]
    assert len(bot.comments_of(issue)) == 2
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_auto_opens_a_pull_request_that_is_ready_for_review(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    await bot.hub.assign(issue, "bob", "alice")
    await bot.ask_by_label(issue, suffix=":auto")
    assert [pull.draft for pull in repo.pulls] == [False]


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


async def test_a_dry_run_tells_what_it_would_begin_with_and_opens_nothing(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo()
    history = recorded_bot.storage.keys.of_repository("history", ref_of(repo))
    for dollars in (1.0, 2.0, 3.0):  # what earlier fixes cost
        entry = RunHistoryEntry(
            run=RunId(f"run-{dollars}"), status=RunStatus.NO_FIX, mode=Mode.FIX, dollars=dollars
        )
        await recorded_bot.redis.zadd(history, {encode_record(entry): now().timestamp() - 60})
    issue = await recorded_bot.open_issue(repo, label=False)
    await recorded_bot.hub.add_label(issue, "capuchin:dry-run", MAINTAINER)
    run = await recorded_bot.solve(issue)
    assert run.status is RunStatus.PLANNED, run
    said = issue.comments[0].body
    assert "- `shop/till.py`" in said
    assert "total(1, 2) is -1" in said
    assert "**A fix** costs $1.50–2.50 at list prices" in said
    assert (repo.list_branches(), repo.pulls, issue.labels) == (["main"], [], [])
    assert [reaction.content for reaction in issue.reactions] == ["rocket"]


@pytest.mark.settings(hourly_writes=12, hourly_writes_seconds=8)
async def test_beyond_the_budget_one_sentence_and_all_the_rest_later(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comments = [await bot.comment(issue, "/capuchin help") for _ in range(6)]
    await bot.ask_by_label(issue)
    said = bot.comments_of(issue)
    notices = [text for text in said if "12 times" in text]
    assert 1 <= len(notices) <= 4  # an hour each
    assert [reactions_of(comment) for comment in comments] == [["+1"]] * 6
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


@pytest.mark.settings(hourly_writes=16, hourly_writes_seconds=20)
async def test_strangers_leave_half_of_the_budget(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    for number in range(6):
        await bot.comment(issue, "/capuchin fix", by=f"stranger{number}")
    async with bot.working():
        await bot.until(lambda: len(bot.comments_of(issue)) >= 3)
        assert bot.count_writes() <= 8
        asked = await bot.comment(issue, "/capuchin help")
        await bot.until(lambda: reactions_of(asked) == ["+1"], seconds=16)
    await bot.settle()
    assert len([text for text in bot.comments_of(issue) if "@stranger" in text]) == 6


async def test_an_app_of_another_name_hears_that_name_and_capuchin(
    hub: LocalHub, start_bot: StartBot
) -> None:
    """And never `@capuchin`, which notifies whoever has that account."""
    hub.switch_app(dataclasses.replace(hub.app, slug="acme-helper"), SECRET)
    async with start_bot() as bot:
        await learn_app(bot.settings, bot.parts.github)
        issue = await bot.report_issue(bot.add_repo())
        for word in ("/capuchin", "/acme-helper", "@acme-helper", "@acme-helper[bot]"):
            comment = await bot.comment(issue, f"{word} help")
            await bot.settle()
            assert reactions_of(comment) == ["+1"], word
        assert "`/acme-helper`" in bot.comments_of(issue)[0]
        before = len(bot.comments_of(issue))
        for other in ("@capuchin", "/acme", "@acme"):
            await bot.comment(issue, f"{other} help")
        await bot.settle()
        assert len(bot.comments_of(issue)) == before


async def test_a_plan_tells_what_fixes_usually_cost_here_or_in_the_installation(
    bot: BotHarness,
) -> None:
    """Not a bound: the middle half of the latest fixes, at least three."""
    repo, other = bot.add_repo(), bot.add_repo("acme/other")

    async def plan(of: Repo) -> str:
        issue = await bot.report_issue(of)
        await bot.say(issue, "/capuchin plan")
        return bot.comments_of(issue)[-1]

    assert "too few fixes" in await plan(repo)
    for _ in range(3):
        await bot.ask_by_label(await bot.report_issue(repo))
    for one in (repo, other):
        said = await plan(one)
        assert "$0.01 at list prices" in said, said
        assert "$4.00" in said
        assert "$1.50" not in said
