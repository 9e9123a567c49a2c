"""What people tell the bot in comments, and what they see it do."""

from __future__ import annotations

import pytest

from bot.bootstrap import build_worker
from bot.localhub import LocalHub
from bot.localhub.actions.pulls import NewPull, add_review, open_pull
from bot.localhub.state import Review, ReviewComment
from bot.settings import SettingsError
from bot.types import Mode, RunStatus
from tests.e2e.commands.conftest import CrewUp
from tests.e2e.held_harness import Crew, faces
from tests.support.hub import ref_of, settings_for


async def test_fix_in_a_comment_is_seen_and_becomes_a_pull_request(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    comment = await crew.say(issue, "/capuchin fix\nThe cause is in shop.py.")
    await crew.settle()
    run = await crew.run_of(issue)
    assert (run.status, run.asked_by) == (RunStatus.OPENED_PULL_REQUEST, "alice")
    assert (len(repo.pulls), len(crew.said(issue))) == (1, 1)
    assert faces(comment) == ["+1"]
    assert crew.runner.jobs[0].issue.discussion[0].startswith("alice: /capuchin fix")


async def test_help_lists_what_can_be_said_and_nothing_else(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.say(issue, "/capuchin")
    await crew.settle()
    (said,) = crew.said(issue)
    verbs = ("fix", "retry", "plan", "judge #12 #34", "use 2", "stop", "status", "explain")
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
    crew: Crew, told: str, words: str
) -> None:
    issue = await crew.issue(crew.shop())
    comment = await crew.say(issue, told)
    await crew.settle()
    (said,) = crew.said(issue)
    assert words in said
    assert faces(comment) == ["confused"]


@pytest.mark.parametrize(
    "told",
    ["@capuchin", "@capuchin thanks a lot!", "I like /capuchin fix", "> /capuchin fix", "hello"],
)
async def test_talk_is_left_alone(crew: Crew, told: str) -> None:
    issue = await crew.issue(crew.shop())
    comment = await crew.say(issue, told)
    await crew.settle()
    assert (crew.said(issue), faces(comment)) == ([], [])


async def test_a_bots_comment_is_no_command_and_neither_is_our_own(crew: Crew) -> None:
    repo = crew.shop(config="trust: ['renovate-bot', write]\n")
    issue = await crew.issue(repo)
    other = crew.hub.add_user("renovate-bot")
    other.type = "Bot"
    repo.grant(other.login, "write")
    for bot in (crew.hub.bot, other):
        comment = await crew.say(issue, "/capuchin fix", by=bot.login)
        assert faces(comment) == []
    await crew.settle()
    assert await crew.runs.get_latest_readable(ref_of(issue.repo), issue.number) is None


async def test_a_comment_that_is_edited_into_a_command_or_deleted_does_nothing(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    comment = await crew.say(issue, "hello")
    await crew.hub.edit_comment(comment, "/capuchin help", "alice")
    await crew.hub.delete_comment(comment, "alice")
    await crew.settle()
    assert crew.said(issue) == []


async def test_a_command_delivered_again_is_carried_out_once(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.say(issue, "/capuchin status")
    delivery = crew.hub.deliveries[-1]
    await crew.hub.redeliver(delivery)
    await crew.settle()
    await crew.hub.redeliver(delivery)
    await crew.settle()
    assert len(crew.said(issue)) == 1


async def test_a_command_that_github_broke_off_is_carried_out_once(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    path = "/repos/acme/shop/issues/1/comments"
    crew.hub.faults.fail_next("POST", path, status=502, after_effect=True)
    await crew.say(issue, "/capuchin help")
    await crew.settle()
    assert len(crew.said(issue)) == 1


async def test_a_comment_that_was_deleted_meanwhile_is_obeyed_all_the_same(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    comment = await crew.say(issue, "/capuchin help")
    await crew.hub.delete_comment(comment, "alice")
    await crew.settle()
    assert len(crew.said(issue)) == 1


async def test_status_and_explain_tell_of_a_run_before_during_and_after(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    await crew.say(issue, "/capuchin status")
    await crew.settle()
    assert "I have not worked on this issue" in crew.said(issue)[0]
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.say(issue, "/capuchin fix")
        await crew.until(lambda: crew.runner.waiting)
        await crew.say(issue, "/capuchin status")
        await crew.until(lambda: len(crew.said(issue)) == 3)
        assert "I am working on it, as @alice asked. Cost: $0.25" in crew.said(issue)[2]
        crew.runner.go_on.set()
    await crew.say(issue, "/capuchin explain")
    await crew.settle()
    assert f": opened pull request #{repo.pulls[0].number}" in crew.said(issue)[3]


async def test_config_tells_what_is_in_force(crew: Crew) -> None:
    issue = await crew.issue(crew.shop(config="samples: 3\n"))
    await crew.say(issue, "/capuchin config")
    await crew.settle()
    assert "samples" in crew.said(issue)[0]


async def test_config_tells_of_a_file_that_is_not_valid(crew: Crew) -> None:
    issue = await crew.issue(crew.shop(config="sample: 3\n"))
    await crew.say(issue, "/capuchin config")
    await crew.settle()
    assert "`.github/capuchin.yml`, line 1, is not valid" in crew.said(issue)[0]


async def test_where_it_is_switched_off_nothing_is_said(crew: Crew) -> None:
    issue = await crew.issue(crew.shop(config="enabled: false\n"))
    comment = await crew.say(issue, "/capuchin help")
    await crew.settle()
    assert (crew.said(issue), faces(comment)) == ([], [])


async def test_a_second_command_waits_for_the_run_and_does_not_disturb_it(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.say(issue, "/capuchin plan")
        await crew.until(lambda: crew.runner.waiting)
        comment = await crew.say(issue, "/capuchin fix")
        await crew.until(lambda: len(crew.said(issue)) == 2)
        assert "I will start on this when that run has ended" in crew.said(issue)[1]
        assert (faces(comment), repo.pulls) == (["eyes"], [])
        crew.runner.go_on.set()
    run = await crew.run_of(issue)
    assert (run.mode, run.status) == (Mode.FIX, RunStatus.OPENED_PULL_REQUEST)
    assert (crew.runner.cut, faces(comment)) == (0, ["+1"])


async def test_a_label_for_more_than_the_run_under_way_waits_too(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.label(issue, suffix=":dry-run")
        await crew.until(lambda: crew.runner.waiting)
        await crew.label(issue)
        crew.runner.go_on.set()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), issue.labels) == (1, [])


async def test_a_plan_tells_where_how_and_for_how_much_and_opens_nothing(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    await crew.label(issue, suffix=":dry-run")
    await crew.settle()
    (said,) = crew.said(issue)
    for words in ("- `shop.py`", "raise SystemExit(2)", "total(1, 2) is -1", "about $1.50"):
        assert words in said
    assert (repo.list_branches(), repo.pulls, issue.labels) == (["main"], [], [])
    assert (await crew.run_of(issue)).status is RunStatus.PLANNED


async def test_the_name_and_the_label_are_the_operators(crew_up: CrewUp) -> None:
    async with crew_up(app_name="mender", label="mend") as crew:
        issue = await crew.issue(crew.shop())
        await crew.say(issue, "/capuchin help")
        await crew.settle()
        assert crew.said(issue) == []
        await crew.say(issue, "@mender help")
        await crew.settle()
        assert "`/mender fix [anyway]`" in crew.said(issue)[0]
        await crew.label(issue)
        await crew.settle()
        assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_auto_opens_a_pull_request_that_is_ready_for_review(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    await crew.hub.assign(issue, "bob", "alice")
    await crew.label(issue, suffix=":auto")
    await crew.settle()
    assert [pull.draft for pull in repo.pulls] == [False]


async def test_an_issue_assigned_to_the_operators_account_is_worked_on(crew_up: CrewUp) -> None:
    async with crew_up(assignee="capuchin-worker") as crew:
        repo = crew.shop()
        issue = await crew.issue(repo)
        await crew.hub.assign(issue, "bob", "alice")
        await crew.settle()
        assert repo.pulls == []
        issue.assignees.clear()
        await crew.hub.assign(issue, "Capuchin-Worker", "alice")
        await crew.settle()
        assert len(repo.pulls) == 1


async def test_a_command_on_a_line_of_a_diff_is_answered_in_the_conversation(crew: Crew) -> None:
    repo = crew.shop()
    await crew.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", "alice")
    asked = NewPull("Work", "", "work", "main")
    pull = await open_pull(crew.hub, repo, asked, crew.hub.add_user("alice"))
    review = Review(crew.hub.next_id(), crew.hub.add_user("alice"), "", "COMMENTED", pull.head_sha)
    for text in ("/capuchin help", "/capuchin fix"):
        made = ReviewComment(crew.hub.next_id(), review, "x.py", 1, "RIGHT", text, "@@ -0,0 +1 @@")
        review.comments.append(made)
    add_review(crew.hub, pull, review)
    await crew.hub.wait_until_delivered()
    await crew.settle()
    said = sorted(crew.said(pull))
    assert "Start a comment with one of these" in said[1]
    assert said[0].startswith("I did not open this pull request")
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
