"""The settings file: checked at every push, and proposed by `/capuchin config propose`."""

import re

import pytest

from bot.data.run import CHECK_NAME, RunId
from bot.repo_config.model import RepoConfig, parse_config
from capuchin_demo.hub.check_actions import rerun, rerun_all
from capuchin_demo.hub.state import CheckRun, Pull, Repo
from pipeline.environment.prepare import SETUP_KEY, WorkingAttempt
from tests.e2e.forks import fork_pull
from tests.e2e.harness import BotHarness
from tests.support.github.hub_state import Rules
from tests.support.hub import ref_of
from tests.support.snapshots import assert_snapshot

FILE = ".github/capuchin.yml"


async def proposed(bot: BotHarness, files: dict[str, str | None]) -> tuple[Repo, Pull]:
    repo = bot.add_repo()
    await bot.hub.commit(repo, "settings", files, "Change settings", "bob")
    return repo, await bot.hub.open_pull(repo, "settings", "Change settings", "bob")


def checks(repo: Repo) -> list[CheckRun]:
    return [run for run in repo.check_runs if run.name == CHECK_NAME]


async def test_mistakes_are_noted_at_their_lines(recorded_bot: BotHarness) -> None:
    text = "version: 1\nsampels: 3\nminutes: -1\nbudget:\n  rum: '@all <b>'\n"
    repo, pull = await proposed(recorded_bot, {FILE: text})
    await recorded_bot.settle()
    (run,) = checks(repo)
    assert (run.head_sha, run.conclusion, run.title) == (pull.head_sha, "failure", "3 errors")
    assert [(n["path"], n["start_line"], n["start_column"]) for n in run.annotations] == [
        (FILE, 2, 1),
        (FILE, 3, 10),
        (FILE, 5, 3),
    ]
    assert '"samples"' in run.annotations[0]["message"]
    assert_snapshot("config_check", run.summary or "")


async def test_a_mended_file_is_checked_anew(recorded_bot: BotHarness) -> None:
    repo, pull = await proposed(
        recorded_bot, {FILE: "samples: 0\n", ".capuchin.yml": "samples: 3\n"}
    )
    await recorded_bot.settle()
    await recorded_bot.hub.commit(repo, "settings", {FILE: "samples: 4\n"}, "Mend", "bob")
    await recorded_bot.settle()
    assert [(run.head_sha == pull.head_sha, run.conclusion) for run in checks(repo)] == [
        (False, "failure"),
        (True, "success"),
    ]


async def test_the_same_head_is_checked_once(recorded_bot: BotHarness) -> None:
    repo, _ = await proposed(recorded_bot, {FILE: "samples: 0\n"})
    (told,) = [d for d in recorded_bot.hub.deliveries if d.event == "pull_request"]
    await recorded_bot.hub.redeliver(told)
    await recorded_bot.settle()
    await recorded_bot.hub.redeliver(told)
    await recorded_bot.settle()
    assert len(checks(repo)) == 1


@pytest.mark.parametrize("files", [{"shop/till.py": "x = 1\n"}, {FILE: None}])
async def test_a_pull_request_that_leaves_no_such_file_gets_no_check(
    recorded_bot: BotHarness, files: dict[str, str | None]
) -> None:
    repo, _ = await proposed(recorded_bot, files)
    await recorded_bot.settle()
    assert checks(repo) == []


async def test_a_github_that_is_away_for_a_moment_is_asked_again(recorded_bot: BotHarness) -> None:
    recorded_bot.hub.faults.fail_next("POST", "/repos/*/check-runs", status=502, after_effect=True)
    repo, _ = await proposed(recorded_bot, {FILE: "samples: 0\n"})
    await recorded_bot.settle()
    assert len(checks(repo)) == 1


async def test_without_the_permission_for_checks_nothing_breaks(recorded_bot: BotHarness) -> None:
    recorded_bot.hub.faults.fail_next("POST", "/repos/*/check-runs", status=403, message="no")
    repo, _ = await proposed(recorded_bot, {FILE: "samples: 0\n"})
    await recorded_bot.settle()
    assert checks(repo) == []


async def test_a_pull_request_that_is_gone_is_left_alone(recorded_bot: BotHarness) -> None:
    repo, _ = await proposed(recorded_bot, {FILE: "samples: 0\n"})
    await recorded_bot.hub.delete_repo(repo)
    await recorded_bot.settle()


async def test_an_installation_is_greeted_by_nobody(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.hub.add_repo("acme/other", {"a.py": "x = 1\n"}, installed=False)
    await recorded_bot.hub.install(repo)
    await recorded_bot.settle()
    assert {d.event for d in recorded_bot.hub.deliveries} == {"installation"}
    written = {one.path for one in recorded_bot.hub.requests if one.method != "GET"}
    ends = {path.rpartition("/")[2] for path in written}
    assert ends == {"access_tokens", "labels", "preferences"}


async def test_the_button_beside_the_check_makes_it_anew(recorded_bot: BotHarness) -> None:
    repo, pull = await proposed(recorded_bot, {FILE: "samples: 0\n"})
    await recorded_bot.settle()
    await rerun(recorded_bot.hub, repo, checks(repo)[0], "bob")
    pressed = recorded_bot.hub.deliveries[-1]
    await recorded_bot.settle()
    await recorded_bot.hub.redeliver(pressed)
    await rerun_all(recorded_bot.hub, repo, checks(repo)[0], "bob")
    await recorded_bot.settle()
    assert [(run.head_sha, run.conclusion) for run in checks(repo)] == [
        (pull.head_sha, "failure")
    ] * 3
    await rerun(recorded_bot.hub, repo, checks(repo)[2], "bob")  # of one that was made anew itself
    await recorded_bot.settle()
    assert len(checks(repo)) == 4


async def test_a_pull_request_from_a_fork_is_checked_and_checked_anew_and_nothing_is_pushed(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo()
    pull = await fork_pull(recorded_bot.hub, repo, {FILE: ("100644", "samples: 0\n")})
    before = repo.git.list_refs("")
    await recorded_bot.settle()
    (run,) = checks(repo)
    assert (run.head_sha, run.conclusion) == (pull.head_sha, "failure")
    await rerun(recorded_bot.hub, repo, run, "bob")
    await recorded_bot.settle()
    assert len(checks(repo)) == 2
    assert repo.git.list_refs("") == before


async def test_a_strangers_file_of_mistakes_costs_two_writes_and_no_stall(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo()
    mistakes = "".join(f"a{n}: 1\n" for n in range(7_000))
    files = {FILE: ("100644", mistakes), ".capuchin.yml": ("100644", "enabled: !!bool foo\n")}
    await fork_pull(recorded_bot.hub, repo, files)
    writes = len([one for one in recorded_bot.hub.requests if one.method != "GET"])
    await recorded_bot.settle()
    (run,) = checks(repo)
    assert run.title == "More than 21 errors"
    assert len(run.annotations) == 22
    assert run.annotations[-1]["start_line"] == 1
    made = [one for one in recorded_bot.hub.requests if one.method != "GET"][writes:]
    assert len([one for one in made if "check-runs" in one.path and one.status == 201]) == 1


@pytest.mark.settings(public_url="https://bot.acme.test")
async def test_a_settings_file_is_proposed_once_to_who_asks_and_changes_nothing(
    bot: BotHarness,
) -> None:
    repo = bot.add_repo()
    for number in range(4):
        dco: dict[str, str | None] = {"n.py": f"n = {number}\n", ".github/dco.yml": "x: 1\n"}
        await bot.hub.commit(repo, "main", dco, f"feat: n is {number}", "alice")
    issue = await bot.report_issue(repo)
    for _ in range(2):
        await bot.say(issue, "/capuchin config propose")
    (pull,) = repo.pulls
    assert [f"#{pull.number}" in said for said in bot.comments_of(issue)] == [True, True]
    assert (pull.draft, pull.title.partition(":")[0]) == (False, "chore")
    assert [user.login for user in pull.requested_reviewers] == ["alice"]
    commit = repo.git.read_commit(pull.head_sha)
    assert repo.git.resolve("refs/heads/main") in commit.parents
    assert "\nCo-authored-by: alice <" in commit.message
    assert "\nSigned-off-by: capuchin[bot] <" in commit.message
    text = repo.read_file(pull.head_sha, FILE) or ""
    assert text.startswith("# yaml-language-server: $schema=https://bot.acme.test/schema/")
    assert parse_config(text) == RepoConfig()
    all_set = re.sub(r"^#(?! )|^#(?=  \w)", "", text, flags=re.M)
    assert all_set.count("\nsamples: ") == all_set.count("\n  run: ") == 1
    assert parse_config(all_set) == RepoConfig()
    assert [run.conclusion for run in repo.check_runs if run.name == CHECK_NAME] == ["success"]


async def test_commands_that_made_the_environment_work_are_proposed(bot: BotHarness) -> None:
    repo = bot.add_repo("acme/odd")
    issue = await bot.report_issue(repo)
    worked = WorkingAttempt(manifests="m", name="model", setup=("pip install a",), python="3.8")
    await bot.storage.repository(ref_of(repo), RunId("r")).save(SETUP_KEY, worked)
    await bot.say(issue, "/capuchin config propose")
    (pull,) = repo.pulls
    config = parse_config(repo.read_file(pull.head_sha, FILE) or "")
    assert isinstance(config, RepoConfig)
    assert (config.setup, config.python) == (("pip install a",), "3.8")
    assert "a model wrote them" in (pull.body or "")


async def test_an_existing_or_forbidden_configuration_is_reported(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo(config="samples: 3\n"))
    await bot.say(issue, "/capuchin config propose")
    assert "`.github/capuchin.yml`" in bot.comments_of(issue)[0]
    repo = bot.add_repo("acme/ruled")
    bot.hub.faults.fail_next("POST", "/repos/acme/ruled/git/refs", status=422, times=2)
    issue = await bot.report_issue(repo)
    await bot.say(issue, "/capuchin config propose")
    assert "branch" in bot.comments_of(issue)[0]
    assert (repo.pulls, repo.list_branches()) == ([], ["main"])


@pytest.mark.parametrize("path", ["/git/refs", "/pulls", "/issues/1/comments"])
async def test_a_lost_answer_proposes_nothing_twice(bot: BotHarness, path: str) -> None:
    repo, issue = await bot.add_repo_with_issue()
    where = f"/repos/acme/shop{path}"
    bot.hub.faults.fail_next("POST", where, status=502, after_effect=True)
    await bot.say(issue, "/capuchin config propose")
    assert bot.hub.faults.pending == []
    assert (len(repo.pulls), len(repo.list_branches()), len(bot.comments_of(issue))) == (1, 2, 1)


async def test_a_stranger_gets_none(bot: BotHarness) -> None:
    repo = bot.add_repo()
    await bot.say(await bot.report_issue(repo), "/capuchin config propose", by="mallory")
    assert (repo.pulls, repo.list_branches()) == ([], ["main"])


REFUSALS: dict[str, tuple[Rules, str, str]] = {
    "branch name": (Rules(branch_names="bots/.*"), "must match a given regex", "`branch_prefix`"),
    "secrets": (Rules(secrets=("version: 1",)), "Push cannot contain secrets", "false alarm"),
    "commit message": (Rules(messages="JIRA-.*"), "must match a given regex", "bypass list"),
    "author": (Rules(author_emails=".*@acme.example"), "email must match", "bypass list"),
    "pull request": (Rules(pull_requests="No bots, please."), "No bots, please.", "bypass list"),
}


@pytest.mark.parametrize("rule", REFUSALS)
async def test_a_refused_proposal_is_told_in_githubs_words_and_holds_the_file(
    bot: BotHarness, rule: str
) -> None:
    repo = bot.add_repo()
    bot.hub.rules[repo.id], words, advice = REFUSALS[rule]
    issue = await bot.report_issue(repo)
    await bot.say(issue, "/capuchin config propose")
    (said,) = bot.comments_of(issue)
    assert words in said
    assert advice in said
    assert "<details>" in said
    assert "version: 1" in said
    assert repo.list_branches() == ["main"]
    bot.hub.rules[repo.id] = Rules()
    await bot.say(issue, "/capuchin config propose")
    assert f"#{repo.pulls[0].number}" in bot.comments_of(issue)[-1]


async def test_a_proposal_takes_the_branch_prefix_of_the_organisation(bot: BotHarness) -> None:
    defaults = bot.hub.add_repo("acme/.github", {FILE: "branch_prefix: bots/\n"})
    assert defaults.installation is not None
    repo = bot.add_repo()
    bot.hub.rules[repo.id] = Rules(branch_names="bots/.*")
    issue = await bot.report_issue(repo)
    for _ in range(2):
        await bot.say(issue, "/capuchin config propose")
    (pull,) = repo.pulls
    assert pull.head_ref.startswith("bots/settings-")
