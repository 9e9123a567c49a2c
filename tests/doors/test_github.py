"""What people meet on GitHub: labels, commands and their other names, branches, checks, marks.

One scene is played before all tests, with a server and a worker that were really started.
"""

import asyncio
import os
import re
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.doors import shop
from tests.doors.internal import Comment, LocalHub, Pull, Repo, github, model, settings
from tests.doors.outside import assert_expected, recorded, redis, serve, worker

SECRET: Final = "a secret of a webhook"
MAINTAINER, STRANGER = "alice", "bob"
PATIENCE: Final = 300
"""Seconds for all of it: twenty runs, of which one installs a project, beside other tests."""
pytestmark = pytest.mark.spine  # all in the same run: the scene is played once for all of them
FILE: Final = ".github/capuchin.yml"
SLOW: Final = ("capuchin:auto", "/capuchin dry-run", "capuchin:dry-run")
"""Asked for in a repository with a bug; all else where there is nothing to fix."""
QUICK: Final = (
    "capuchin", "/capuchin fix", "/capuchin approve", "/capuchin retry", "@capuchin fix",
    "/capuchin stop", "/capuchin cancel", "/capuchin abort", "/capuchin help",
    "/capuchin status", "/capuchin explain", "/capuchin stats", "/capuchin use 2",
    "/capuchin judge #1", "/capuchin config", "/capuchin config propose", "/capuchin make tea",
)  # fmt: skip
CHECKS: Final = {"Capuchin's settings", "Capuchin: reproduction test"}


ENDS: Final = {"opened pull request": 1, "planned": 2, "no fix": 5, "judged": 1, "refused": 1}


class Scene:
    """A GitHub with a repository that has a bug, and one that has nothing to fix."""

    def __init__(self, hub: LocalHub) -> None:
        self.hub = hub
        for login in (MAINTAINER, STRANGER):
            hub.add_user(login)
        self.shop = hub.add_repo("acme/shop", shop.FILES)
        self.pages = hub.add_repo("acme/pages", shop.WITHOUT_PYTHON)
        for repo in (self.shop, self.pages):
            repo.grant(MAINTAINER, "write")
        self.commands: dict[str, Comment] = {}
        self.ends: dict[str, int] = {}
        self.niceness = 0
        self.session_niceness = ""
        """Of the worker."""

    async def play(self, server: str) -> None:
        """All of it is asked for at the same time; returns when all is answered."""
        for words in SLOW:
            await self._ask(self.shop, words, shop.TITLE, shop.BODY)
        for words in QUICK:
            await self._ask(self.pages, words, "An issue", "")
        issue = await self.hub.open_issue(self.pages, "An issue", "", STRANGER)
        self.commands["of a stranger"] = await self.hub.comment(issue, "/capuchin fix", STRANGER)
        issue = await self.hub.open_issue(self.pages, "An issue", "", STRANGER)
        await self.hub.add_label(issue, "capuchin:disabled", MAINTAINER)
        self.commands["disabled"] = await self.hub.comment(issue, "/capuchin fix", MAINTAINER)
        await self.hub.commit(self.shop, "settings", {FILE: "sampels: 1\n"}, "Set", STRANGER)
        await self.hub.open_pull(self.shop, "settings", "Set", STRANGER)
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._answered():
                    await asyncio.sleep(0.05)
                    self.ends = await asyncio.to_thread(ended, server)
        except TimeoutError:
            reactions = {words: faces(each) for words, each in self.commands.items()}
            checks = [run.name for run in self.shop.check_runs]
            seen = (self.ends, reactions, self.labels, checks, len(self.pulls))
            raise AssertionError((next(self.bodies, ""), *seen)) from None

    async def _ask(self, repo: Repo, words: str, title: str, body: str) -> None:
        """With a comment or a label, on an issue of its own."""
        issue = await self.hub.open_issue(repo, title, body, STRANGER)
        if words.startswith("capuchin"):
            await self.hub.add_label(issue, words, MAINTAINER)
        else:
            self.commands[words] = await self.hub.comment(issue, words, MAINTAINER)

    def _answered(self) -> bool:
        return (
            self.ends == ENDS
            and all(faces(each) in (["+1"], ["confused"]) for each in self.commands.values())
            and self.labels == {"capuchin:disabled"}
            and {run.name for run in self.shop.check_runs} >= CHECKS
            and len(self.pulls) == 2
        )

    def said(self, words: str) -> str:
        """Our last comment where a command was given, without what differs each time."""
        issue = self.commands[words].issue
        text = [each.body for each in issue.comments if each.author is self.hub.bot][-1]
        return re.sub(r"\b[0-9a-f]{32}\b|(?<=comment-)\d+|#\d+", "…", text)

    @property
    def pulls(self) -> list[Pull]:
        """Ours."""
        both = [*self.shop.pulls, *self.pages.pulls]
        return [pull for pull in both if pull.author is self.hub.bot]

    @property
    def labels(self) -> set[str]:
        """Those on issues: one that asked for something is taken off at the end."""
        issues = (*self.shop.issues.values(), *self.pages.issues.values())
        return {label for issue in issues for label in issue.labels}

    @property
    def bodies(self) -> Iterator[str]:
        """All that we wrote."""
        for issue in (*self.shop.issues.values(), *self.pages.issues.values()):
            yield from (each.body for each in issue.comments if each.author is self.hub.bot)
            yield (issue.body or "") if issue.author is self.hub.bot else ""


def faces(comment: Comment) -> list[str]:
    return [each.content for each in comment.reactions]


def ended(server: str) -> dict[str, int]:
    """How many runs that were asked for ended in which way."""
    with urllib.request.urlopen(f"{server}/metrics", timeout=120) as page:
        text = page.read().decode()
    counts = re.findall(r'(?m)^capuchin_runs_ended_total\{end="([^"]+)"\} (\d+)$', text)
    return {end: int(count) for end, count in counts if count != "0" and end != "followed up"}


async def played(folder: Path) -> Scene:
    with redis(folder) as queue, model() as url:
        async with github(folder, SECRET) as hub:
            env = {
                **settings(hub),
                **recorded(url),
                "CAPUCHIN_REDIS_URL": queue,
                "CAPUCHIN_WEBHOOK_SECRET": SECRET,
                "CAPUCHIN_WORKER_RUNS": "3",
            }
            with serve(folder, env) as server, worker(folder, env) as process:
                hub.webhook_url = f"{server}/webhook"
                scene = Scene(hub)
                await scene.play(server)
                scene.niceness = os.getpriority(os.PRIO_PROCESS, process)
                scene.session_niceness = Path(f"/proc/{process}/autogroup").read_text().split()[-1]
    return scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    with ThreadPoolExecutor(1) as beside:  # an event loop of its own
        return beside.submit(asyncio.run, played(tmp_path_factory.mktemp("github"))).result()


def test_labels_and_commands_begin_runs_of_their_kind(scene: Scene) -> None:
    """`:auto` opens what is ready for review, `:dry-run` plans, `:disabled` keeps us away."""
    assert scene.ends == ENDS
    assert (scene.pulls[0].draft, len(scene.shop.pulls)) == (False, 2)
    assert scene.labels == {"capuchin:disabled"}


def test_a_worker_yields_to_the_server(scene: Scene) -> None:
    assert scene.niceness == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
    # Between sessions Linux may look at the niceness of the session alone.
    assert scene.session_niceness == "5"


def test_the_help_names_every_command_and_label(scene: Scene) -> None:
    said = scene.said("/capuchin help")
    found = {
        "commands": sorted(re.findall(r"`/capuchin ([^`]+)`", said)),
        "labels": sorted(re.findall(r"`(capuchin[^`]*)`", said)),
    }
    assert_expected("help", found)


def test_commands_have_other_names(scene: Scene) -> None:
    for other, word in {"approve": "fix", "cancel": "stop", "abort": "stop"}.items():
        assert scene.said(f"/capuchin {other}") == scene.said(f"/capuchin {word}")
    assert scene.said("@capuchin fix") == scene.said("/capuchin fix")
    assert scene.said("/capuchin stop") != scene.said("/capuchin fix")


def test_a_command_is_acknowledged_with_a_reaction(scene: Scene) -> None:
    assert_expected("reactions", {words: faces(each) for words, each in scene.commands.items()})


def test_pull_requests_and_their_branches_have_this_shape(scene: Scene) -> None:
    fix, proposal = scene.pulls
    assert (fix.head_ref, fix.base_ref) == ("capuchin/issue-1-total-subtracts", "main")
    assert "\n\nFixes #1\n\n" in (fix.body or "")
    asked = scene.commands["/capuchin config propose"].id
    assert proposal.head_ref == f"capuchin/settings-comment-{asked}"
    assert scene.pages.read_file(proposal.head_ref, FILE)


def test_checks_have_these_names(scene: Scene) -> None:
    ours = {run.name: run for run in scene.shop.check_runs}
    assert ours.keys() == CHECKS
    wrong = ours["Capuchin's settings"]
    assert wrong.conclusion == "failure"
    assert [(each["path"], each["start_line"]) for each in wrong.annotations] == [(FILE, 1)]


def test_what_we_write_has_these_marks(scene: Scene) -> None:
    """By which older and newer versions find what they wrote."""
    text = "\n".join(scene.bodies)
    found = re.findall(r"<!-- capuchin:[^>]* -->", text)
    differs = r"\b[0-9a-f]{32}\b|(?<=comment-)\d+"
    assert_expected("marks", sorted({re.sub(differs, "…", mark) for mark in found}))
