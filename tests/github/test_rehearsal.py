"""What people and the bot do to each other on GitHub, through its API alone."""

from pathlib import Path

from bot.data.run import RunStatus
from pipeline.codebase.git import git
from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import FOLLOW_UP_DIFF
from tests.github.rehearsal import Rehearsal

REVISION = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="I say why now.")


async def test_a_label_leads_to_a_pull_request_of_two_commits(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue)
    pull = await rehearsal.wait_for_pull(issue)
    commits = await rehearsal.call("GET", f"/pulls/{pull['number']}/commits")
    assert (pull["draft"], len(commits)) == (True, 2)
    assert [one["commit"]["verification"]["verified"] for one in commits] == [True, True]
    assert await rehearsal.wait_for_end(issue) is RunStatus.OPENED_PULL_REQUEST
    assert await rehearsal.labels_of(issue) == []
    assert [f"#{pull['number']}" in said for said in await rehearsal.comments_of(issue)] == [True]


async def test_the_evidence_is_a_check_on_the_head(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue)
    pull = await rehearsal.wait_for_pull(issue)

    async def has_passed() -> bool:
        return "success" in (await rehearsal.checks_of(pull["head"]["sha"])).values()

    await rehearsal.until(has_passed)
    listed = await rehearsal.call("GET", f"/commits/{pull['head']['sha']}/check-suites")
    suites = [one for one in listed["check_suites"] if str(one["app"]["id"]) == rehearsal.app]
    assert [one["status"] for one in suites] == [
        "completed"
    ]  # none of GitHub's own, for ever queued


async def test_a_run_is_published_although_workflows_moved_on_meanwhile(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.runner.go_on.clear()
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue)
    await rehearsal.until(lambda: rehearsal.comments_of(issue))
    text = (
        f"# {issue}\non: workflow_dispatch\njobs: {{a: {{runs-on: x, steps: [{{run: 'true'}}]}}}}\n"
    )
    files = {".github/workflows/rehearsal.yml": text}
    await rehearsal.commit(await rehearsal.default_branch(), files, "Move on")
    rehearsal.runner.go_on.set()
    await rehearsal.wait_for_pull(issue)


async def test_a_commit_is_fetched_that_no_branch_holds(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    sha = await rehearsal.commit("rehearsal-left", {"notes.txt": "x\n"}, "Leave")
    await rehearsal.call("DELETE", "/git/refs/heads/rehearsal-left")
    await git(None, "init", "--quiet", "--bare", str(tmp_path))
    await rehearsal.remote.git(tmp_path, "fetch", "--depth=1", rehearsal.remote.url, sha)


async def test_webhooks_arrive_where_the_app_has_an_address(rehearsal: Rehearsal) -> None:
    listed = await rehearsal.bot.github.list_deliveries(100)
    latest = [one for one in listed if one.status][:1]  # the local GitHub sends none
    assert [one for one in latest if not 200 <= one.status_code < 300] == []


async def test_a_closed_issue_closes_its_pull_request(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue)
    pull = await rehearsal.wait_for_pull(issue)
    await rehearsal.close(issue)
    closed = await rehearsal.until(lambda: rehearsal.pull_for(issue, "closed"))
    assert (closed["number"], closed["merged_at"]) == (pull["number"], None)


async def test_a_command_is_acknowledged_and_answered(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    comment = await rehearsal.comment(issue, "/capuchin help")

    async def is_answered() -> bool:
        answered = bool(await rehearsal.comments_of(issue))
        return answered and await rehearsal.reactions_of(comment) == ["+1"]

    await rehearsal.until(is_answered)


async def test_an_unknown_command_is_refused(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    comment = await rehearsal.comment(issue, "/capuchin make tea")

    async def is_refused() -> bool:
        return await rehearsal.reactions_of(comment) == ["confused"]

    await rehearsal.until(is_refused)


async def test_a_command_starts_a_run(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    await rehearsal.comment(issue, "/capuchin fix")
    await rehearsal.wait_for_pull(issue)


async def test_a_dry_run_opens_nothing(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue, ":dry-run")
    assert await rehearsal.wait_for_end(issue) is RunStatus.PLANNED
    assert await rehearsal.pull_for(issue) is None


async def test_a_label_that_is_taken_off_stops_the_run(rehearsal: Rehearsal) -> None:
    rehearsal.runner.go_on.clear()
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue)
    await rehearsal.until(lambda: rehearsal.comments_of(issue))
    await rehearsal.call("DELETE", f"/issues/{issue}/labels/{rehearsal.settings.label}")
    assert await rehearsal.wait_for_end(issue) is RunStatus.STOPPED


async def test_somebody_else_at_work_is_asked_about(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    await rehearsal.commit(f"{issue}-total", {"notes.txt": f"{issue}\n"}, "Begin")
    await rehearsal.label(issue)
    assert await rehearsal.wait_for_end(issue) is RunStatus.NEEDS_CONFIRMATION


async def test_a_review_leads_to_a_commit_and_an_answer(rehearsal: Rehearsal) -> None:
    rehearsal.runner.revised = REVISION
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue)
    pull = await rehearsal.wait_for_pull(issue)
    place = {"path": "shop.py", "line": 2, "side": "RIGHT", "body": "Please say why."}
    await rehearsal.call(
        "POST", f"/pulls/{pull['number']}/reviews", event="REQUEST_CHANGES", comments=[place],
        body="Almost.",
    )  # fmt: skip

    async def has_grown() -> bool:
        return len(await rehearsal.call("GET", f"/pulls/{pull['number']}/commits")) == 3

    await rehearsal.until(has_grown)


async def test_a_branch_with_a_persons_commit_is_theirs(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue)
    pull = await rehearsal.wait_for_pull(issue)
    await rehearsal.commit(pull["head"]["ref"], {"mine.txt": "mine\n"}, "Mine")
    await rehearsal.comment(pull["number"], "/capuchin status")
    await rehearsal.until(lambda: rehearsal.comments_of(pull["number"]))
    await rehearsal.call("PATCH", f"/pulls/{pull['number']}", state="closed")


async def test_nobody_is_served_where_the_label_says_so(rehearsal: Rehearsal) -> None:
    issue = await rehearsal.open_issue()
    await rehearsal.label(issue, ":disabled")
    await rehearsal.label(issue)
    # The first label may be heard of after the second: then it stops the run that waits.
    assert await rehearsal.wait_for_end(issue) in {RunStatus.REFUSED, RunStatus.STOPPED}
    assert await rehearsal.pull_for(issue) is None
