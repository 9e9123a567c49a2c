"""Plays a plan on a world, lets all come to rest, and says what is wrong then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from bot.localhub import Issue
from bot.localhub.actions.pulls import mark_ready
from bot.localhub.ci import ci, report
from bot.localhub.state import now
from tests.e2e.sequences.model import History, Labelled, Reviewed, Said, Told, problems
from tests.e2e.sequences.plan import Act, Plan
from tests.e2e.sequences.world import World

T = TypeVar("T")
ROUNDS: Final = 25
"""By which all has come to rest."""


async def play(world: World, plan: Plan) -> list[str]:
    """The problems that are left at the end; none if all is well."""
    await world.fresh(fixes=plan.fixes)
    player = Player(world)
    for act in plan.acts:
        world.passes(act.seconds)
        await DOES[act.what](player, act)
        world.collect()
    await player.rest()
    return await problems(world, player.history)


class Player:
    """Does one act after the other; what cannot be done is left out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hub = world.hub
        self.history = History()

    async def rest(self) -> None:
        """All that is under way arrives, everything is done, and the sweep has looked."""
        quiet, looked = 0, False
        for _ in range(ROUNDS):
            self.world.passes(61)
            await self._everything()
            if await self._active():
                quiet = 0
                continue
            await self.world.sweep()
            if not looked:
                await self.world.look_after()
                looked = True
            self.world.collect()
            quiet = 0 if await self._active() else quiet + 1
            if quiet == 2:
                return

    async def _active(self) -> bool:
        world = self.world
        return bool(world.pending or await world.runs.active() or await world.inbox.waiting())

    async def _everything(self) -> None:
        world = self.world
        world.collect()
        while world.pending:
            await world.deliver(world.pending.pop())
        for run_id in list(world.at_work):
            if run_id in world.at_work:
                await world.finish(run_id)
        for _ in range(await world.inbox.waiting()):
            await world.command()
        for run in await world.idle():
            await world.begin(run)

    def _gone(self, issue: Issue) -> bool:
        return issue in self.history.gone

    # People

    async def label(self, act: Act) -> None:
        issue, label = self.world.issues[act.issue], "capuchin" + act.word
        if label in issue.labels or act.who == "mallory" or self._gone(issue):
            return  # GitHub lets no stranger
        await self.hub.add_label(issue, label, act.who)
        guid = self.hub.deliveries[-1].guid
        put = Labelled(issue, guid, label, act.who, now(), on_closed=issue.state != "open")
        self.history.labelled.append(put)

    async def unlabel(self, act: Act) -> None:
        issue, label = self.world.issues[act.issue], "capuchin" + act.word
        if label in issue.labels and act.who != "mallory" and not self._gone(issue):
            await self.hub.remove_label(issue, label, act.who)
            self.history.unlabelled.append((issue, now()))

    async def close(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if issue.state == "open" and not self._gone(issue):
            await self.hub.close_issue(issue, "bob")
            self.history.halted.append((issue, now()))

    async def reopen(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if not self._gone(issue):
            await self.hub.reopen_issue(issue, "bob")

    async def say(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if self._gone(issue):
            return
        comment = await self.hub.comment(issue, f"/capuchin {act.word}", act.who)
        self.history.said.append(Said(issue, comment, act.word, act.who, now()))
        if act.word == "stop" and act.who == "alice":
            self.history.halted.append((issue, now()))

    async def edit_comment(self, act: Act) -> None:
        said = _picked([s for s in self.history.said if not s.deleted], act)
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
        comment = _picked([c for c in issue.comments if c.author is self.hub.bot], act)
        if comment is not None and not self._gone(issue) and "status run=" in comment.body:
            await self.hub.delete_comment(comment, "alice")
            self.history.deleted.add(comment.id)

    async def delete_comment(self, act: Act) -> None:
        said = _picked([s for s in self.history.said if not s.edited and not s.deleted], act)
        if said is not None and not self._gone(said.issue):
            await self.hub.delete_comment(said.comment, said.who)
            said.deleted = True

    async def delete_issue(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if not self._gone(issue):
            await self.hub.delete_issue(issue, "acme")
            self.history.gone.append(issue)

    async def transfer(self, act: Act) -> None:
        issue = self.world.issues[act.issue]
        if not self._gone(issue):
            to = next(repo for repo in self.world.repos if repo is not issue.repo)
            await self.hub.transfer_issue(issue, to, "acme")
            self.history.gone.append(issue)

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
        pull = _picked([p for p in self.world.pulls if p.state == "open"], act)
        if pull is None:
            return
        lines = [("shop.py", 2, "Why is this so?")] if act.pick % 3 else []
        state = "COMMENTED" if act.pick % 2 and lines else "CHANGES_REQUESTED"
        body = "This needs a word." if state == "CHANGES_REQUESTED" else ""
        review = await self.hub.review(pull, act.who, body, state, lines)
        self.history.reviewed.append(Reviewed(pull, review, act.who))

    async def say_on_pull(self, act: Act) -> None:
        pull = _picked(self.world.pulls, act)
        if pull is not None:
            comment = await self.hub.comment(pull, f"/capuchin {act.word}", act.who)
            self.history.told.append(Told(pull, comment, act.word, act.who))

    async def push(self, act: Act) -> None:
        pull = _picked([p for p in self.world.pulls if p.state == "open"], act)
        if pull is not None:
            files = {f"note-{act.pick}.txt": f"{now()}\n"}
            sha = await self.hub.commit(pull.repo, pull.head_ref, files, "A note", "bob")
            self.history.pushed[pull.id] = sha

    async def close_pull(self, act: Act) -> None:
        pull = _picked([p for p in self.world.pulls if p.state == "open"], act)
        if pull is not None:
            await self.hub.close_issue(pull, "bob")

    async def merge(self, act: Act) -> None:
        pull = _picked([p for p in self.world.pulls if p.state == "open"], act)
        if pull is None:
            return
        mark_ready(self.hub, pull, self.hub.add_user("bob"))
        if not self.hub.facts(pull).mergeable:
            return
        await self.hub.merge(pull, "bob")
        self.world.merged.add(pull.repo.full_name)
        self.world.mirrors.moved()
        for issue in self.world.issues:
            if issue.state == "closed" and issue.repo is pull.repo:
                self.history.halted.append((issue, now()))

    async def label_pull(self, act: Act) -> None:
        pull = _picked(self.world.pulls, act)
        if pull is not None:
            await self.hub.add_label(pull, "capuchin" + (":auto" if act.pick % 2 else ""), "alice")

    async def ci(self, act: Act) -> None:
        pull = _picked(self.world.pulls, act)
        if pull is not None and act.pick % 2:
            await ci(self.hub, pull, "failure" if act.pick % 3 == 0 else "success")
        elif pull is not None:
            await report(self.hub, pull, "failure" if act.pick % 3 == 0 else "success")

    # The network

    async def deliver(self, act: Act) -> None:
        world = self.world
        delivery = _picked(world.pending, act)
        if delivery is not None:
            world.pending.remove(delivery)
            world.delivered.append(delivery)
            await world.deliver(delivery)

    async def redeliver(self, act: Act) -> None:
        delivery = _picked(self.world.delivered, act)
        if delivery is not None:
            await self.world.deliver(delivery)

    async def lose(self, act: Act) -> None:
        delivery = _picked(self.world.pending, act)
        if delivery is not None:
            self.world.pending.remove(delivery)

    async def github_fails(self, act: Act) -> None:
        method, path = (
            ("POST", "/repos/*/issues/*/comments"),
            ("PATCH", "/repos/*/issues/comments/*"),
            ("GET", "/repos/*/issues/*"),
            ("POST", "/repos/*/pulls"),
            ("DELETE", "/repos/*/issues/*/labels/*"),
            ("GET", "/repos/*/collaborators/*"),
            ("POST", "/repos/*/check-runs"),
            ("GET", "/repos/*/pulls/*"),
        )[act.pick % 8]
        times = 1 + act.pick // 3
        self.hub.faults.fail_next(method, path, times=times, after_effect=act.pick % 2 == 0)

    # Workers

    async def begin(self, act: Act) -> None:
        run = _picked(await self.world.idle(), act)
        if run is not None:
            await self.world.begin(run)

    async def finish(self, act: Act) -> None:
        run_id = _picked(list(self.world.at_work), act)
        if run_id is not None:
            await self.world.finish(run_id)

    async def kill(self, act: Act) -> None:
        run_id = _picked(list(self.world.at_work), act)
        if run_id is not None:
            await self.world.kill(run_id)

    async def hand_over(self, act: Act) -> None:
        run_id = _picked(list(self.world.at_work), act)
        if run_id is not None:
            await self.world.hand_over(run_id)

    async def die(self, act: Act) -> None:
        run = _picked(await self.world.idle(), act)
        if run is not None:
            await self.world.begin_and_die(run, 1 + act.pick)

    async def command(self, act: Act) -> None:
        await self.world.command()

    async def command_dies(self, act: Act) -> None:
        await self.world.command(dies_after=1 + act.pick % 4)

    async def sweep(self, act: Act) -> None:
        await self.world.sweep()

    async def look_after(self, act: Act) -> None:
        await self.world.look_after()


DOES: Final[Mapping[str, Callable[[Player, Act], Awaitable[None]]]] = {
    "label": Player.label,
    "unlabel": Player.unlabel,
    "close": Player.close,
    "reopen": Player.reopen,
    "say": Player.say,
    "edit comment": Player.edit_comment,
    "edit issue": Player.edit_issue,
    "assign": Player.assign,
    "delete status": Player.delete_status,
    "delete comment": Player.delete_comment,
    "delete issue": Player.delete_issue,
    "transfer": Player.transfer,
    "uninstall": Player.uninstall,
    "install": Player.install,
    "review": Player.review,
    "say on pull": Player.say_on_pull,
    "push": Player.push,
    "close pull": Player.close_pull,
    "merge": Player.merge,
    "label pull": Player.label_pull,
    "ci": Player.ci,
    "deliver": Player.deliver,
    "redeliver": Player.redeliver,
    "lose": Player.lose,
    "github fails": Player.github_fails,
    "begin": Player.begin,
    "finish": Player.finish,
    "kill": Player.kill,
    "hand over": Player.hand_over,
    "die": Player.die,
    "command": Player.command,
    "command dies": Player.command_dies,
    "sweep": Player.sweep,
    "look after": Player.look_after,
}


def _picked(some: Sequence[T], act: Act) -> T | None:
    return some[act.pick % len(some)] if some else None
