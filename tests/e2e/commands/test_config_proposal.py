"""A pull request with a settings file, for those who ask for one and for nobody else."""

from __future__ import annotations

import re

import pytest

from bot.data.run import RepoRef, RunId
from bot.repo_config.model import RepoConfig, parse_config
from bot.runs.config_check import NAME
from pipeline.environment.prepare import SETUP_KEY, WorkingAttempt
from tests.e2e.harness import BotHarness, StartBot

FILE = ".github/capuchin.yml"


async def test_a_settings_file_is_proposed_once_to_who_asks_and_changes_nothing(
    start_bot: StartBot,
) -> None:
    async with start_bot(public_url="https://bot.acme.test") as bot:
        repo = bot.add_repo()
        for number in range(4):
            dco: dict[str, str | None] = {"n.py": f"n = {number}\n", ".github/dco.yml": "x: 1\n"}
            await bot.hub.commit(repo, "main", dco, f"feat: n is {number}", "alice")
        issue = await bot.report_issue(repo)
        for _ in range(2):
            await bot.comment(issue, "/capuchin config propose")
            await bot.settle()
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
        assert all_set.count("\nsamples: ") == all_set.count("\n  person: ") == 1
        assert parse_config(all_set) == RepoConfig()
        assert [run.conclusion for run in repo.check_runs if run.name == NAME] == ["success"]


async def test_commands_that_made_the_environment_work_are_proposed(bot: BotHarness) -> None:
    repo = bot.add_repo("acme/odd")
    issue = await bot.report_issue(repo)
    run = RepoRef(owner="acme", name="odd", installation=1)
    worked = WorkingAttempt(manifests="m", name="model", setup=("pip install a",), python="3.8")
    await bot.storage.repository(run, RunId("r")).save(SETUP_KEY, worked)
    await bot.comment(issue, "/capuchin config propose")
    await bot.settle()
    (pull,) = repo.pulls
    config = parse_config(repo.read_file(pull.head_sha, FILE) or "")
    assert isinstance(config, RepoConfig)
    assert (config.setup, config.python) == (("pip install a",), "3.8")
    assert "a model wrote them" in (pull.body or "")


async def test_an_existing_or_forbidden_configuration_is_reported(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo(config="samples: 3\n"))
    await bot.comment(issue, "/capuchin config propose")
    await bot.settle()
    assert "`.github/capuchin.yml`" in bot.comments_of(issue)[0]
    repo = bot.add_repo("acme/ruled")
    bot.hub.faults.fail_next("POST", "/repos/acme/ruled/git/refs", status=422, times=2)
    issue = await bot.report_issue(repo)
    await bot.comment(issue, "/capuchin config propose")
    await bot.settle()
    assert "branch" in bot.comments_of(issue)[0]
    assert (repo.pulls, repo.list_branches()) == ([], ["main"])


@pytest.mark.parametrize("path", ["/git/refs", "/pulls", "/issues/1/comments"])
async def test_a_lost_answer_proposes_nothing_twice(bot: BotHarness, path: str) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    where = f"/repos/acme/shop{path}"
    bot.hub.faults.fail_next("POST", where, status=502, after_effect=True)
    await bot.comment(issue, "/capuchin config propose")
    await bot.settle()
    assert bot.hub.faults.pending == []
    assert (len(repo.pulls), len(repo.list_branches()), len(bot.comments_of(issue))) == (1, 2, 1)


async def test_a_stranger_gets_none(bot: BotHarness) -> None:
    repo = bot.add_repo()
    await bot.comment(await bot.report_issue(repo), "/capuchin config propose", by="mallory")
    await bot.settle()
    assert (repo.pulls, repo.list_branches()) == ([], ["main"])
