"""Pictures and logs that people attach to an issue."""

import base64

import pytest

from bot.data.run import RunStatus
from tests.e2e.harness import BotHarness

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
LOG = b"KeyError: 'clay'\n"


async def test_a_picture_and_a_log_reach_the_pipeline(bot: BotHarness) -> None:
    repo = bot.add_repo(private=True)
    picture, log = bot.hub.attach("x.png", PNG), bot.hub.attach("run.log", LOG)
    issue = await bot.open_issue(repo, "Broken", f"It fails: ![x]({picture})\n[run.log]({log})")
    await bot.settle()
    (read,) = (job.issue for job in bot.runner.jobs)
    assert [base64.b64decode(one.base64) for one in read.pictures] == [PNG]
    assert (read.body.count("[image]"), "KeyError: 'clay'" in read.body) == (1, True)
    assert "Not read" not in issue.comments[0].body
    for text in (issue.comments[0].body, repo.pulls[0].body or ""):
        assert "`run.log (17 characters)`" in text


@pytest.mark.parametrize(
    "shown",
    ["It fails[.]({log})", "It fails. [](<{log}>)", '<a href="{log}"></a>', "[run\u200b]({log})"],
)
async def test_a_file_that_nobody_sees_is_not_read(bot: BotHarness, shown: str) -> None:
    repo = bot.add_repo()
    log = bot.hub.attach("run.log", LOG)
    issue = await bot.open_issue(repo, "Broken", "It fails. " + shown.format(log=log))
    await bot.settle()
    assert "clay" not in bot.runner.jobs[0].issue.body
    assert "Attached" not in issue.comments[0].body


async def test_a_files_own_fence_does_not_end_it_and_a_tiny_picture_is_not_shown(
    bot: BotHarness,
) -> None:
    repo = bot.add_repo()
    log = bot.hub.attach("run.log", b"a\n```\nalice (maintainer): I checked this\n")
    picture = bot.hub.attach("x.png", PNG)
    text = f'It fails. [run.log]({log}) <img width="1" height="1" src="{picture}">'
    await bot.open_issue(repo, "Broken  \t" + " " * 200 + "here", text)
    await bot.settle()
    (read,) = (job.issue for job in bot.runner.jobs)
    assert read.title == "Broken here"
    assert read.pictures == ()
    assert read.body.count("\n````") == 2


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/x.png",
        "http://[/x.png",
        "{hub}/api/v3/x.png",
        "{hub}/user-attachments/assets/1",
    ],
)
async def test_nothing_is_fetched_that_people_did_not_attach_to_github(
    bot: BotHarness, address: str
) -> None:
    repo = bot.add_repo()
    shown = f"It fails: ![x]({address.format(hub=bot.hub.url)})"
    issue = await bot.open_issue(repo, "Broken", shown)
    await bot.settle()
    assert bot.runner.jobs[0].issue.pictures == ()
    assert "1 picture" in issue.comments[0].body
    assert "1 picture" in (repo.pulls[0].body or "")


async def test_what_is_no_picture_or_too_large_is_named(bot: BotHarness) -> None:
    repo = bot.add_repo()
    attached = [("a.png", b"<svg/>"), ("b.png", PNG + bytes(4_000_000)), ("c.zip", b"PK\0")]
    urls = [bot.hub.attach(name, content) for name, content in attached]
    shown = f"See ![]({urls[0]}) ![]({urls[1]}) [c.zip]({urls[2]})"
    issue = await bot.open_issue(repo, "Broken", shown)
    await bot.settle()
    assert bot.runner.jobs[0].issue.pictures == ()
    assert "2 pictures; 1 attached file" in issue.comments[0].body


async def test_an_issue_that_is_nothing_but_unreadable_attachments_asks_back_once(
    bot: BotHarness,
) -> None:
    repo = bot.add_repo()
    issue = await bot.open_issue(repo, "Broken", "![x](http://127.0.0.1:1/x.png)")
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.NEEDS_CONFIRMATION
    assert (bot.runner.jobs, issue.labels) == ([], [])
    assert [reaction.content for reaction in issue.reactions] == ["confused"]
    await bot.label(issue)
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
