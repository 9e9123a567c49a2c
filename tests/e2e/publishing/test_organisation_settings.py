"""The organisation's settings on GitHub: where they are read from, and that they act."""

from __future__ import annotations

from bot.data.run import Failure, RunStatus
from capuchin_demo.hub.hub import LocalHub
from tests.e2e.harness import BotHarness


async def test_the_organisations_settings_stand_for_what_the_repository_leaves_out(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    hub.add_repo("acme/.github", {".github/capuchin.yml": "samples: 7\nattempts: 2\n"})
    repo, issue = await manual_bot.prepare_issue(**{".capuchin.yml": b"attempts: 5\n"})
    await manual_bot.work_on(await manual_bot.lease(repo, issue))
    options = manual_bot.runner.jobs[0].options
    assert (options.samples, options.attempts) == (7, 5)


async def test_an_organisation_can_switch_us_off(manual_bot: BotHarness, hub: LocalHub) -> None:
    hub.add_repo("acme/.github", {".capuchin.yml": "enabled: false\n"})
    repo, issue = await manual_bot.prepare_issue()
    assert (
        await manual_bot.work_on(await manual_bot.lease(repo, issue))
    ).status is RunStatus.REFUSED


async def test_a_mistake_of_the_organisation_is_reported_with_its_file(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    hub.add_repo("acme/.github", {".github/capuchin.yml": "version: 1\nsampels: 7\n"})
    repo, issue = await manual_bot.prepare_issue()
    run = await manual_bot.work_on(await manual_bot.lease(repo, issue))
    assert run.failure is Failure.CONFIG_INVALID
    assert "acme/.github: .github/capuchin.yml`, line 2" in issue.comments[0].body


async def test_a_defaults_repository_that_we_are_not_installed_on_is_passed_over(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    hub.add_repo("acme/.github", {".capuchin.yml": "enabled: false\n"}, installed=False)
    repo, issue = await manual_bot.prepare_issue()
    run = await manual_bot.work_on(await manual_bot.lease(repo, issue))
    assert run.status is RunStatus.OPENED_PULL_REQUEST


async def test_reading_the_defaults_needs_no_right_to_write(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    defaults = hub.add_repo("acme/.github", {"README.md": "x"})
    repo, issue = await manual_bot.prepare_issue()
    await manual_bot.work_on(await manual_bot.lease(repo, issue))
    tokens = hub.tokens._tokens.values()  # pyright: ignore[reportPrivateUsage] - what was given out
    rights = [token.permissions for token in tokens if token.repos == (defaults,)]
    assert rights == [{"metadata": "read", "contents": "read"}]


async def test_the_run_of_a_defaults_repository_reads_its_files_once(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    repo = hub.add_repo("acme/.github", {".capuchin.yml": "samples: 3\n", "a.py": "x = 1\n"})
    hub.add_user("alice")
    repo.grant("alice", "write")
    issue = await hub.open_issue(repo, "x", author="bob", labels=["capuchin"])
    await manual_bot.work_on(await manual_bot.lease(repo, issue))
    read = [e.path for e in hub.requests if "/contents/" in e.path]
    assert [path.rpartition("/")[2] for path in read] == ["capuchin.yml", ".capuchin.yml"]
