"""How an environment that cannot be made is told, and what becomes of JavaScript alone."""

from __future__ import annotations

import json

import pytest

from bot.cli import local_run
from bot.data.run import Failure
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix
from tests.e2e.harness import StartBot
from tests.support.data import lock_files

DOCKERFILE = {
    **shop.FILES,
    "ci/Dockerfile": "FROM capuchin/base\nRUN echo what went wrong && exit 7\nRUN true\n",
    ".github/capuchin.yml": "dockerfile: ci/Dockerfile\n",
}
SCRIPTS = {
    "package.json": lock_files.PACKAGE_JSON,
    "package-lock.json": lock_files.NPM_LOCK,
    "pad.js": 'module.exports = text => require("left-pad")(text, 3, "-");\n',
    "test.js": 'require("./pad")("7");\n',
}


async def test_a_dockerfile_that_fails_is_reported_with_its_line_and_the_logs_end(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit(DOCKERFILE)
    assert await local_fix.fix() == local_run.FAILED
    said = capsys.readouterr().err
    assert "RUN echo what went wrong && exit 7\n" in said
    assert "\nwhat went wrong\n" in said
    assert local_fix.llm.requests == []


async def test_on_github_it_is_reported_on_the_issue(start_recorded_bot: StartBot) -> None:
    async with start_recorded_bot() as bot:
        issue = await bot.open_issue(bot.add_repo(files=DOCKERFILE))
        run = await bot.solve(issue)
        assert run.failure is Failure.ENVIRONMENT
        (comment,) = issue.comments
        assert "RUN echo what went wrong && exit 7" in comment.body
        assert "\nwhat went wrong\n" in comment.body
        assert bot.llm.requests == []


async def test_a_repository_of_javascript_alone_is_an_honest_no(
    local_fix: LocalFix, capsys: pytest.CaptureFixture[str]
) -> None:
    local_fix.commit(SCRIPTS)
    assert await local_fix.fix("--json") == local_run.NO_FIX
    assert json.loads(capsys.readouterr().out)["reason"] == "no source files"
    assert "Python" in (local_fix.out / "report.md").read_text()
    assert local_fix.llm.requests == []
