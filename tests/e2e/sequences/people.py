"""What people and their CI do at issues and at pull requests of ours."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeVar

from capuchin_demo.hub.check_actions import report_check, report_status
from capuchin_demo.hub.pull_actions import mark_ready
from capuchin_demo.hub.pull_facts import pull_facts
from capuchin_demo.hub.state import Comment, Issue, Pull, Review, now
from tests.e2e.sequences.plan import Act
from tests.e2e.sequences.simulation import World

T = TypeVar("T")


def picked(some: Sequence[T], act: Act) -> T | None:
    """The one that the act is about, of however many there are."""
    return some[act.pick % len(some)] if some else None


def latest(issue: Issue) -> datetime:
    """When the latest thing happened on the issue, by GitHub's clock: ours has gone on since."""
    return issue.timeline[-1].at


class People:
    """What cannot be done is left out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hub = world.hub
        self.history = History()

    def _gone(self, issue: Issue) -> bool:
        return issue in self.history.gone

    def _open(self, act: Act) -> Pull | None:
        return picked([pull for pull in self.world.pulls if pull.state == "open"], act)

    async def label(self, act: Act) -> None:
        issue, label = self.world.issues[act.issue], "capuchin" + act.word
        if label in issue.labels or act.who == "mallory" or self._gone(issue):
            return  # GitHub lets no stranger
        await self.hub.add_label(issue, label, act.who)
        guid = self.hub.deliveries[-1].guid
        closed = issue.state != "open"
        put = Labelled(issue, guid, label, act.who, latest(issue), on_closed=closed)
        self.history.labelled.append(put)

    async def unlabel(self, act: Act) -> None:
        issue, label = self.world.issues[act.issue], "capuchin" + act.word
        if label in issue.labels and act.who != "mallory" and not self._gone(issue):
            await self.hub.remove_label(issue, label, act.who)
            self.history.unlabelled.append((issue, latest(issue)))

    async def close(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if issue.state == "open" and not self._gone(issue):
            await self.hub.close_issue(issue, "bob")
            self.history.halted.append((issue, latest(issue)))

    async def reopen(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if not self._gone(issue):
            await self.hub.reopen_issue(issue, "bob")

    async def say(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if self._gone(issue):
            return
        comment = await self.hub.comment(issue, f"/capuchin {act.word}", act.who)
        self.history.said.append(Said(issue, comment, act.word, act.who, comment.created_at))
        if act.word == "stop" and act.who == "alice":
            self.history.halted.append((issue, comment.created_at))

    async def edit_comment(self, act: Act) -> None:
        said = picked([s for s in self.history.said if not s.deleted], act)
        if said is not None and not self._gone(said.issue):
            await self.hub.edit_comment(said.comment, "/capuchin fix, please", said.who)
            said.edited = True

    async def edit_issue(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if not self._gone(issue):
            await self.hub.edit_issue(issue, "bob", body=f"Edited {act.pick}.")

    async def assign(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if not self._gone(issue):
            await self.hub.assign(issue, "carol", "alice")

    async def delete_status(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        comment = picked([c for c in issue.comments if c.author is self.hub.bot], act)
        if comment is not None and not self._gone(issue) and "status run=" in comment.body:
            await self.hub.delete_comment(comment, "alice")
            self.history.deleted.add(comment.id)

    async def delete_comment(self, act: Act) -> None:
        said = picked([s for s in self.history.said if not s.edited and not s.deleted], act)
        if said is not None and not self._gone(said.issue):
            await self.hub.delete_comment(said.comment, said.who)
            said.deleted = True

    async def delete_issue(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if not self._gone(issue):
            await self.hub.delete_issue(issue, "acme")
            self.history.gone.append(issue)
            self.world.gone.append(issue)

    async def transfer(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if not self._gone(issue):
            to = next(repo for repo in self.world.repos if repo is not issue.repo)
            await self.hub.transfer_issue(issue, to, "acme")
            self.history.gone.append(issue)
            self.world.gone.append(issue)

    async def uninstall(self, act: Act) -> None:
        repo = self.world.issues[act.issue].repo
        if repo.installation is not None:
            await self.hub.uninstall(repo)
            self.history.cut.add(repo.full_name)

    async def install(self, act: Act) -> None:
        repo = self.world.issues[act.issue].repo
        if repo.installation is None:
            await self.hub.install(repo)

    # People at pull requests of ours

    async def review(self, act: Act) -> None:
        pull = self._open(act)
        if pull is None:
            return
        lines = [("shop.py", 2, "Why is this so?")] if act.pick % 3 else []
        state = "COMMENTED" if act.pick % 2 and lines else "CHANGES_REQUESTED"
        body = "This needs a word." if state == "CHANGES_REQUESTED" else ""
        review = await self.hub.review(pull, act.who, body, state, lines)
        self.history.reviewed.append(Reviewed(pull, review, act.who))

    async def say_on_pull(self, act: Act) -> None:
        pull = picked(self.world.pulls, act)
        if pull is not None:
            comment = await self.hub.comment(pull, f"/capuchin {act.word}", act.who)
            self.history.told.append(Told(pull, comment, act.word, act.who))

    async def push(self, act: Act) -> None:
        pull = self._open(act)
        if pull is not None:
            files: dict[str, str | None] = {f"note-{act.pick}.txt": f"{now()}\n"}
            sha = await self.hub.commit(pull.repo, pull.head_ref, files, "A note", "bob")
            self.history.pushed[pull.id] = sha

    async def close_pull(self, act: Act) -> None:
        pull = self._open(act)
        if pull is not None:
            await self.hub.close_issue(pull, "bob")

    async def merge(self, act: Act) -> None:
        pull = self._open(act)
        if pull is None:
            return
        mark_ready(self.hub, pull, self.hub.add_user("bob"))
        if not pull_facts(pull).mergeable:
            return
        await self.hub.merge(pull, "bob")
        self.world.merged.add(pull.repo.full_name)
        self.world.mirrors.moved()
        for issue in self.world.issues:
            if issue.state == "closed" and issue.repo is pull.repo:
                self.history.halted.append((issue, now()))

    async def label_pull(self, act: Act) -> None:
        pull = picked(self.world.pulls, act)
        if pull is not None:
            await self.hub.add_label(pull, "capuchin" + (":auto" if act.pick % 2 else ""), "alice")

    async def ci(self, act: Act) -> None:
        pull = picked(self.world.pulls, act)
        if pull is not None and act.pick % 2:
            await report_check(self.hub, pull, "failure" if act.pick % 3 == 0 else "success")
        elif pull is not None:
            await report_status(self.hub, pull, "failure" if act.pick % 3 == 0 else "success")


@dataclass
class Said:
    """A command that somebody gave."""

    issue: Issue
    comment: Comment
    word: str
    who: str
    at: datetime
    edited: bool = False
    deleted: bool = False


class Told(NamedTuple):
    """A command in the conversation of a pull request of ours."""

    pull: Pull
    comment: Comment
    word: str
    who: str


class Reviewed(NamedTuple):
    pull: Pull
    review: Review
    who: str


@dataclass
class Labelled:
    """A label of ours that somebody put on."""

    issue: Issue
    guid: str
    label: str
    who: str
    at: datetime
    on_closed: bool = False
    """The issue was closed: nothing is done there, and nobody looks for it."""


@dataclass
class History:
    """What people did in a sequence."""

    said: list[Said] = field(default_factory=list[Said])
    labelled: list[Labelled] = field(default_factory=list[Labelled])
    unlabelled: list[tuple[Issue, datetime]] = field(default_factory=list[tuple[Issue, datetime]])
    halted: list[tuple[Issue, datetime]] = field(default_factory=list[tuple[Issue, datetime]])
    """Each moment at which all work on an issue was to end: a stop, or its closing."""
    deleted: set[int] = field(default_factory=set[int])
    """Comments of ours that somebody deleted."""
    gone: list[Issue] = field(default_factory=list[Issue])
    """Deleted or transferred."""
    cut: set[str] = field(default_factory=set[str])
    """Repositories that the App was taken off, if only for a while."""
    told: list[Told] = field(default_factory=list[Told])
    reviewed: list[Reviewed] = field(default_factory=list[Reviewed])
    pushed: dict[int, str] = field(default_factory=dict[int, str])
    """What somebody pushed last to a pull request of ours, by its id."""
