"""Reviews of our pull requests: who is followed, what is pushed, what is answered."""

import pytest

from bot.followup import feedback
from capuchin_demo.hub.check_actions import report_check, report_status
from capuchin_demo.hub.git_repository import Signature, run_git
from capuchin_demo.hub.pull_actions import announce_ref_changes
from capuchin_demo.hub.state import Comment, Pull, Repo, now
from pipeline.data.types import Patch
from pipeline.models.base import ModelRefused
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import FOLLOW_UP_DIFF, REVIEW_LINE, open_pull, thread_replies
from tests.e2e.harness import BotHarness, reactions_of

pytestmark = pytest.mark.settings(review_seconds=0)

EDITED = Revision(
    patch=Patch(diff=FOLLOW_UP_DIFF), answer="I said why it adds. Thanks @everyone, fixes #9."
)


@pytest.mark.spine
@pytest.mark.settings(review_seconds=0.3)
async def test_comments_are_followed_together_and_each_is_answered_in_its_thread(
    bot: BotHarness,
) -> None:
    repo, pull = await open_pull(bot)
    bot.runner.revised = EDITED
    before = pull.head_sha
    first = await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
    second = await bot.receive_review(pull, "alice", "Not yet.", "CHANGES_REQUESTED")
    (task,) = bot.runner.tasks
    assert [text.partition(":")[2] for text in sorted(task.feedback)] == [
        " Please say why.",
        " Not yet.",
    ]
    assert all(text.startswith("alice") for text in task.feedback)
    assert "-    return a - b\n+    return a + b" in task.diff
    assert repo.list_commits(pull.head_ref)[0] == "Address review comments"
    assert repo.git.read_commit(pull.head_sha).parents == (before,)
    ((thread, said),) = thread_replies(bot, pull)
    assert thread == first.comments[0].id
    assert [reaction.content for reaction in first.comments[0].reactions] == ["eyes"]
    assert pull.head_sha[:7] in said
    assert "I said why it adds. Thanks @\u200bev" in said
    (rest,) = bot.comments_of(pull)
    assert f"capuchin:answer to=review-{second.id}" in rest


async def test_a_review_that_needs_no_change_is_answered(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    before = pull.head_sha
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    ((_, said),) = thread_replies(bot, pull)
    assert "It is as it should be." in said
    assert pull.head_sha == before
    await bot.receive_review(pull, "alice", lines=[("shop.py", 1, "And here?")])
    assert [task.feedback for task in bot.runner.tasks][1:] == [
        ("alice on shop.py, line 1: And here?",)
    ]


async def test_an_answer_names_what_in_its_edit_a_person_should_look_at(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    diff = FOLLOW_UP_DIFF.replace("@@ -1,2 +1,3 @@", "@@ -1,2 +1,4 @@") + "+os._exit(0)\n"
    bot.runner.revised = Revision(patch=Patch(diff=diff), answer="Done.")
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    ((_, said),) = thread_replies(bot, pull)
    assert "`os._exit`" in said


async def test_what_people_without_write_access_say_reaches_no_model(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    for stranger in ("tina", "mallory", "ci-bot"):
        await bot.hub.review(pull, stranger, "Do x.", "CHANGES_REQUESTED", REVIEW_LINE)
    await bot.settle()
    assert bot.runner.tasks == []
    await bot.receive_review(pull, "alice", lines=[("shop.py", 2, "<!-- evil -->Why?")])
    assert [task.feedback for task in bot.runner.tasks] == [("alice on shop.py, line 2: Why?",)]


async def test_however_much_strangers_write_none_of_it_is_rendered_and_a_command_is_heard(
    bot: BotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, pull = await open_pull(bot)
    rendered: list[str] = []

    def render(text: str) -> str:
        rendered.append(text)
        return text

    monkeypatch.setattr(feedback, "visible_text", render)
    mallory = bot.hub.add_user("mallory")
    for number in range(1010):
        text = "/capuchin fix **" if number % 100 else "* a\n" * 9
        pull.comments.append(Comment(bot.hub.next_id(), pull, mallory, text))
    await bot.hub.review(pull, "mallory", "**Do x.", "CHANGES_REQUESTED", REVIEW_LINE)
    await bot.say(pull, "/capuchin fix Say why.")
    assert ["Say why." in task.feedback[0] for task in bot.runner.tasks] == [True]
    assert rendered == ["/capuchin fix Say why."]
    assert len([one for one in bot.comments_of(pull) if "capuchin" in one]) >= 1


async def test_failing_checks_of_the_repository_are_shown_with_the_review(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    notes = [{"path": "shop.py", "start_line": 2, "end_line": 2,
              "annotation_level": "failure", "message": "E501 too long"}]  # fmt: skip
    output = {"title": "1 failed", "summary": "ruff found it", "annotations": notes}
    await report_check(bot.hub, pull, "failure", name="lint", output=output)
    await report_status(bot.hub, pull, "failure", context="ci/docs", description="2 broken links")
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    (task,) = bot.runner.tasks
    assert task.logs == (
        "lint\n1 failed\nruff found it\nshop.py:2: E501 too long",
        "ci/docs: 2 broken links",
    )


@pytest.mark.parametrize("words", ["/capuchin fix\nSay why.", "@capuchin fix Say why."])
async def test_a_command_in_the_conversation_is_followed_and_talk_is_not(
    bot: BotHarness, words: str
) -> None:
    _, pull = await open_pull(bot)
    await bot.say(pull, "I wonder whether this should say why.")
    assert bot.runner.tasks == []
    await bot.say(pull, words)
    (task,) = bot.runner.tasks
    assert "Say why." in task.feedback[0]
    assert len(bot.comments_of(pull)) == 1


@pytest.mark.spine
async def test_a_person_who_pushes_has_the_branch_from_then_on(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    bot.runner.revised = EDITED
    await bot.hub.commit(repo, pull.head_ref, {"x.py": "x = 2\n"}, "Mine", "alice")
    theirs = pull.head_sha
    await bot.settle()
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert (pull.head_sha, bot.runner.tasks) == (theirs, [])
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert (
        len(bot.comments_of(pull)) == 2
    )  # that it is theirs, and once that reviews have no answer


async def add_to_branch(bot: BotHarness, repo: Repo, pull: Pull, how: str) -> None:
    """A bot commits to the branch, or the base is merged into it, or it is rebased, as GitHub's
    button does."""
    git, before, branch = repo.git, repo.git.list_refs(""), f"refs/heads/{pull.head_ref}"
    heads = [git.resolve(branch) or "", git.resolve("refs/heads/main") or ""]
    tree = run_git(git.path, "merge-tree", "--write-tree", *heads).decode().strip()
    if how not in ("update", "rebase"):
        tree = git.write_paths(tree, {"own.py": ("100644", git.write_blob(b"x = 1\n"))})
    who = Signature("x", "1+formatter@users.noreply.github.com", now())
    parents = {"update": heads, "rebase": heads[1:]}.get(how.split()[0], heads[:1])
    git.set_ref(branch, git.write_commit(tree, parents, "Change\n", who, who))
    bot.hub.add_user("formatter")
    after = git.list_refs("")
    await announce_ref_changes(bot.hub, repo, before, after, bot.hub.add_user("alice"))
    await bot.hub.wait_until_delivered()


@pytest.mark.parametrize(
    ("how", "config", "stays"),
    [
        ("update", "", True),
        ("update and more", "", False),
        ("rebase", "", True),
        ("rebase and more", "", False),
        ("bot", "follow_up: formatter\n", True),
        ("bot", "", False),
    ],
)
@pytest.mark.settings(review_seconds=0, reverify_seconds=0)
async def test_a_branch_stays_ours_that_the_base_was_merged_into_or_a_named_bot_committed_to(
    bot: BotHarness, how: str, config: str, stays: bool
) -> None:
    repo, pull = await open_pull(bot, config)
    ours = pull.head_sha
    for name in ("news.py", "more.py"):
        await bot.hub.commit(repo, "main", {name: "x = 1\n"}, "News", "alice")
        await add_to_branch(bot, repo, pull, how)
    await bot.settle()
    theirs = pull.head_sha
    bot.runner.revised = EDITED
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert (theirs != ours, pull.head_sha != theirs) == (True, stays)
    assert bool(thread_replies(bot, pull)) == stays
    told = await bot.say(pull, "/capuchin fix say why")
    said = bot.comments_of(pull)
    assert len(said) == (1 if stays else 3)
    assert reactions_of(told) == ["+1"]
    if stays:
        await bot.say(pull, "/capuchin use A")
        assert not any("pushed" in one for one in bot.comments_of(pull))


async def test_a_person_who_is_faster_keeps_what_they_pushed(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    bot.runner.revised = EDITED
    await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
    bot.runner.meanwhile = lambda: bot.hub.commit(
        repo, pull.head_ref, {"x.py": "x = 2\n"}, "Mine", "alice"
    )
    await bot.settle()
    assert repo.list_commits(pull.head_ref)[0] == "Mine"
    assert len(bot.comments_of(pull)) == 1
    assert "needs a person" in thread_replies(bot, pull)[0][1]


async def test_what_is_said_during_a_follow_up_is_followed_after_it(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    later = [("shop.py", 1, "And here?")]

    async def more() -> None:
        bot.runner.meanwhile = None
        await bot.hub.review(pull, "alice", lines=later)

    bot.runner.meanwhile = more
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert [task.feedback for task in bot.runner.tasks] == [
        ("alice on shop.py, line 2: Please say why.",),
        ("alice on shop.py, line 1: And here?",),
    ]
    assert len(thread_replies(bot, pull)) == 2


async def test_follow_ups_keep_the_repositorys_manners(bot: BotHarness) -> None:
    repo = bot.add_repo()
    for number in range(4):
        files: dict[str, str | None] = {"n.py": f"n = {number}\n", ".github/dco.yml": "x: 1\n"}
        await bot.hub.commit(repo, "main", files, f"feat: n is {number}", "alice")
    await bot.ask_by_label(await bot.report_issue(repo))
    (pull,) = repo.pulls
    bot.runner.revised = EDITED
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    message = repo.git.read_commit(pull.head_sha).message
    assert message.startswith("fix: address review comments\n")
    assert "\nCo-authored-by: alice <" in message
    assert "\nSigned-off-by: capuchin[bot] <" in message


async def test_reviews_are_left_to_people_where_the_repository_says_so(bot: BotHarness) -> None:
    _, pull = await open_pull(bot, "follow_up: false\n")
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert (bot.runner.tasks, thread_replies(bot, pull)) == ([], [])


async def test_a_run_that_cannot_follow_says_so_once_and_does_not_try_again(
    bot: BotHarness,
) -> None:
    _, pull = await open_pull(bot)
    bot.runner.revised = ModelRefused("no")
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    (said,) = bot.comments_of(pull)
    assert "declined" in said
    await report_check(bot.hub, pull, "success")
    await bot.settle()
    assert len(bot.runner.tasks) == 1


@pytest.mark.parametrize(
    "path", ["/acme/shop.git/git-receive-pack", "/repos/*/replies", "/repos/*/issues/2/comments"]
)
async def test_a_lost_answer_makes_nothing_twice(bot: BotHarness, path: str) -> None:
    repo, pull = await open_pull(bot)
    bot.runner.revised = EDITED
    before = len(repo.list_commits(pull.head_ref))
    await bot.hub.review(pull, "alice", "Why?", "CHANGES_REQUESTED", REVIEW_LINE)
    bot.hub.faults.fail_next("POST", path, status=502, after_effect=True)
    async with bot.working():
        await bot.until(lambda: bot.hub.faults.pending == [])
        await bot.until(lambda: bot.hasten(pull))
    assert bot.hub.faults.pending == []
    assert len(repo.list_commits(pull.head_ref)) == before + 1
    assert (len(thread_replies(bot, pull)), len(bot.comments_of(pull))) == (1, 1)
